/* 01: How do texts of any length become batches that a classifier can be trained on? The messages of chapter 6: a
 * table with quotes, as many spams as other messages, and batches of equal length.
 */
#include "../fine_tuning.h"

#include <stdlib.h>
#include <string.h>

/* Prints the first 46 characters and "...", if the text has 50 or more: as pandas prints a table. */
static void print_cut(const char *text)
{
    int64_t characters = 0;
    size_t cut = 0;
    for (size_t i = 0; text[i]; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) {
            characters++;
            cut = characters == 47 ? i : cut;
        }
    }
    print_line(stdout, "%.*s%s", characters >= 50 ? (int)cut : (int)strlen(text), text, characters >= 50 ? "..." : "");
}

/* Prints the first five and the last five messages; the labels are words or numbers. */
static void print_table(const messages *m, bool numbers)
{
    printf("Label Text\n");
    for (int64_t i = 0; i < m->count; i++) {
        const message *x = &m->list[i];
        if (i == 5 && m->count > 10) {
            printf("... ... ...\n");
            i = m->count - 5;
            x = &m->list[i];
        }
        printf("%lld %s ", (long long)x->row, numbers ? (x->is_spam ? "1" : "0") : (x->is_spam ? "spam" : "ham"));
        print_cut(x->text);
    }
    printf("\n[%lld rows x 2 columns]\n", (long long)m->count);
}

static void print_counts(const messages *m)
{
    int64_t spams = 0;
    for (int64_t i = 0; i < m->count; i++) {
        spams += m->list[i].is_spam;
    }
    printf("Label\nham %lld\nspam %lld\nName: count, dtype: int64\n", (long long)(m->count - spams), (long long)spams);
}

int main(int argc, char **argv)
{
    options o = begin(argc, argv, "How do texts of any length become batches that a classifier can be trained on?", 0);
    messages m = messages_open(&o);
    cell(15);
    print_table(&m, false);
    cell(17);
    print_counts(&m);
    messages_balance(&m);
    cell(19);
    print_counts(&m);
    cell(22);
    print_table(&m, true);
    messages_shuffle(&m);

    tg_error error = TG_NO_ERROR;
    tg_tokenizer *bpe = tokenizer_of(&o, "Win a free lamp, call now to claim your prize. The keeper is late today.");
    tg_tokens end;
    tg_tokenizer_encode(bpe, "<|endoftext|>", strlen("<|endoftext|>"), true, &end, &error);
    check(&error);
    cell(28);
    print_ids(end.ids, end.count);
    printf("\n");
    tg_tokens_free(&end);

    tg_run *run = tg_run_new(123);
    spam_data d = spam_data_new(&m, bpe, run);
    cell(31);
    printf("%lld\n", (long long)d.length);
    spam_data_print(&d, 38, 40);

    spam_data_free(&d);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    messages_free(&m);
    return book_end();
}
