/* growth: how the time of loading, training, encoding and saving grows with the number of things. Each number is
 * doubled three times. Prints for each action the processor's time at the largest number, of one thread, and the
 * exponent over the last two doublings: 1 is linear. Caches that become too small add to it, and so does other work on
 * the machine, so this is no test. tests/bench/growth_instructions counts instructions instead.
 *
 *     growth [--once] [NAME]    with a name, only the groups that begin with it; --once: one round
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tapegrad.h>
#include <tapegrad/extend.h>
#include <tapegrad_text.h>
#include <tapegrad_tools.h>

#include "bench/figure.h"

enum { SIZES = 4, ROUNDS = 3, ACTIONS = 64 };

static const char path[] = "growth.tmp", other_path[] = "growth_ids.tmp";

/* The times of the actions of a group: the least of all rounds. */
static struct {
    const char *name;
    double seconds[SIZES];
} actions[ACTIONS];
static int next_action, size_index;
static clock_t begun;
static tg_error error;

/* growth_instructions counts what runs from the return of this call until the call of end. */
__attribute__((noinline)) static void begin(void)
{
    begun = clock();
}

/* Ends the action that began with the last begin or end. */
__attribute__((noinline)) static void end(const char *name)
{
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    actions[next_action].name = name;
    double *least = &actions[next_action++].seconds[size_index];
    *least = *least == 0 || seconds < *least ? seconds : *least;
    if (error.code != TG_OK) {
        fprintf(stderr, "growth: %s: %s\n", name, error.text);
        exit(1);
    }
    begin();
}

/* ---- a text that grows ---- */

static tg_text_buffer text;

static void clear(void)
{
    tg_free(text.bytes);
    memset(&text, 0, sizeof text);
}

static void write_text(void)
{
    FILE *file = bench_must(fopen(path, "wb"));
    bench_must(fwrite(text.bytes, 1, text.length, file) == text.length ? file : NULL);
    fclose(file);
}

/* ---- groups ---- */

static void merges(int n)
{
    clear();
    for (int i = 0; i < n; i++) { /* pairs of letters, and pairs of these */
        int pair = i < 2704 ? i : i - 2704, first = pair / 2704, second = pair % 2704;
        char a = (char)(second / 52 % 52), b = (char)(second % 52);
        a = (char)(a < 26 ? 'a' + a : 'A' + a - 26);
        b = (char)(b < 26 ? 'a' + b : 'A' + b - 26);
        i < 2704 ? tg_text_add_format(&text, "%c %c\n", a, b)
                 : tg_text_add_format(&text, "a%c %c%c\n", 'a' + first, a, b);
    }
    write_text();
    begin();
    tg_tokenizer *z = bench_must(tg_tokenizer_open(path, NULL, &error));
    end("open a file of merges");
    tg_tokenizer_save(z, path, TG_VOCABULARY_JSON, &error);
    end("save tokenizer.json");
    tg_tokenizer_free(tg_tokenizer_open(path, NULL, &error));
    end("open tokenizer.json");
    tg_tokenizer_free(z);
}

static void added_tokens(int n)
{
    static const char one[] = "#version: 0.2\na b\n",
                      flags[] = "\"single_word\":false,\"lstrip\":false,\"rstrip\":false";
    tg_tokenizer *z = bench_must(tg_tokenizer_new_from_text(one, sizeof one - 1, &error));
    tg_tokenizer_save(z, path, TG_VOCABULARY_JSON, &error);
    tg_tokenizer_free(z);
    char *json = bench_must(tg_text_read(path, NULL, &error)), *rest = strstr(json, "],\n");
    clear();
    tg_text_add_bytes(&text, json, (size_t)(rest - json));
    for (int i = 0; i < n; i++) {
        tg_text_add_format(&text, ",{\"id\":%d,\"content\":\"w%dx\",\"normalized\":false,\"special\":false,%s}",
                           258 + i, i, flags);
    }
    tg_text_add(&text, rest);
    tg_text_free(json);
    begin();
    z = bench_must(tg_tokenizer_new_from_text(text.bytes, text.length, &error));
    end("open added tokens");
    clear();
    for (int i = 0; text.length < 480000; i++) {
        tg_text_add_format(&text, "word w%dx what w%dx ", i % n, (int)(i * 7LL % n));
    }
    tg_tokens tokens;
    begin();
    tg_tokenizer_encode(z, text.bytes, text.length, false, &tokens, &error);
    end("encode 480 kB");
    tg_tokens_free(&tokens);
    tg_tokenizer_free(z);
}

static void words(int n)
{
    tg_words_config config = tg_words_config_default();
    clear();
    for (int i = 0; i < 2 * n; i++) {
        tg_text_add_format(&text, " w%d", i % n);
    }
    begin();
    tg_tokenizer *z = bench_must(tg_tokenizer_train(text.bytes, text.length, 300 + n / 4, &error));
    end("train a tokenizer on words");
    tg_tokens tokens;
    tg_tokenizer_encode(z, text.bytes, text.length, false, &tokens, &error);
    end("encode them");
    tg_tokens_free(&tokens);
    write_text();
    begin();
    tg_tokenizer_encode_files(z, (const char *[]){path}, 1, other_path, 4, NULL, &error);
    end("encode a file of them");
    tg_tokenizer_save(z, path, TG_VOCABULARY_RANKS, &error);
    end("save ranks");
    tg_tokenizer_free(tg_tokenizer_open(path, NULL, &error));
    end("open ranks");
    tg_tokenizer_free(z);
    begin();
    tg_words *w = bench_must(tg_words_new(text.bytes, text.length, &config, &error));
    end("count words");
    tg_words_save(w, path, &error);
    end("save words");
    tg_words_free(tg_words_open(path, &config, &error));
    end("open words");
    tg_words_encode(w, text.bytes, text.length, &tokens, &error);
    end("encode words");
    tg_tokens_free(&tokens);
    tg_tensor *vectors = bench_must(tg_tensor_new_full(TG_F32, TG_SHAPE(tg_words_vocabulary(w), 4), 0.5, &error));
    static const char *const names[][2] = {{"save vectors as text", "open them"}, {"save binary vectors", "open them"}};
    for (int binary = 0; binary < 2; binary++) {
        tg_vectors_format format = binary ? TG_VECTORS_BINARY : TG_VECTORS_TEXT;
        tg_tensor *again;
        begin();
        tg_words_save_vectors(w, vectors, path, format, &error);
        end(names[binary][0]);
        tg_words_free(tg_words_open_vectors(path, format, &again, &error));
        end(names[binary][1]);
        tg_release(again);
    }
    tg_release(vectors);
    tg_words_free(w);
}

static void parameters(int n)
{
    char name[64];
    tg_params *params = bench_must(tg_params_new(NULL, TG_F32));
    begin();
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blocks.%d.weight", i);
        tg_params_add(params, name, TG_SHAPE(2));
    }
    end("add parameters");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blocks.%d.weight", i);
        bench_must(tg_params_find(params, name));
    }
    end("find each");
    for (int i = 0; i < n; i++) {
        char alias[64];
        snprintf(name, sizeof name, "blocks.%d.weight", i);
        snprintf(alias, sizeof alias, "alias.%d", i);
        bench_must(tg_params_add_alias(params, alias, name));
    }
    end("add an alias of each");
    tg_params_save(params, path, NULL, &error);
    end("save parameters");
    tg_params_load(params, path, NULL, &error);
    end("load them");
    tg_safetensors_list_free(tg_safetensors_list_new(path, &error));
    end("list their file");
    tg_params_free(tg_params_new_part(params, "blocks.*"));
    end("a part of them");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blocks.%d.weight", i);
        tg_tensor_zero_grad(tg_params_find(params, name));
        tg_tensor_reserve_grad(tg_params_find(params, name), TG_GRAD_DENSE, 0, &error);
    }
    begin();
    tg_optim *optim = bench_must(tg_adamw_new(params, NULL));
    end("an optimizer of them");
    tg_optim_step(optim);
    end("a step");
    tg_clip_grad_norm(params, 1);
    end("clip the norm");
    tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params), tg_checkpoint_optim("optim", optim)};
    tg_checkpoint_save(path, parts, 2, &error);
    end("save a checkpoint");
    tg_checkpoint_load(path, parts, 2, &error);
    end("load it");
    for (int i = 0; i < n; i++) {
        bench_must(tg_optim_steps(optim, tg_params_at(params, i).name) >= 0 ? optim : NULL);
    }
    end("the steps of each");
    tg_optim_free(optim);
    tg_params_free(params);
}

static void groups(int n)
{
    char name[32];
    tg_params *params = bench_must(tg_params_new(NULL, TG_F32));
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blocks.%d", i);
        tg_params_add(params, name, TG_SHAPE(2));
    }
    tg_optim *optim = bench_must(tg_adamw_new(params, NULL));
    begin();
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blocks.%d", i);
        tg_optim_add_to_group(optim, name, name);
    }
    end("a group for each parameter");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blocks.%d", i);
        tg_optim_set_lr(optim, name, tg_optim_lr(optim, name) / 2);
    }
    end("set the rate of each");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "blocks.%d", i);
        tg_params_set_frozen(params, name, true);
    }
    end("freeze each");
    tg_checkpoint_part part = tg_checkpoint_optim("optim", optim);
    tg_checkpoint_save(path, &part, 1, &error);
    end("save the groups");
    tg_checkpoint_load(path, &part, 1, &error);
    end("load them");
    tg_optim_free(optim);
    tg_params_free(params);
}

static void parts(int n)
{
    tg_checkpoint_part *list = bench_must(calloc((size_t)n, sizeof *list));
    char(*names)[16] = bench_must(calloc((size_t)n, sizeof *names));
    int64_t integer = 1;
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof *names, "part.%d", i);
        list[i] = i % 2 ? tg_checkpoint_integer(names[i], &integer) : tg_checkpoint_bytes(names[i], "abc", 3);
    }
    begin();
    tg_checkpoint_save(path, list, n, &error);
    end("save checkpoint parts");
    tg_checkpoint_load(path, list, n, &error);
    end("load them");
    free(list);
    free(names);
}

static void records(int n)
{
    tg_tape *t = bench_must(tg_tape_new(NULL, NULL));
    tg_tensor *x = bench_must(tg_tensor_new_full(TG_F32, TG_SHAPE(n), 1, &error));
    tg_tensor **kept = bench_must(calloc((size_t)n, sizeof(tg_tensor *)));
    tg_tensor_set_requires_grad(x, true, &error);
    begin();
    tg_tensor *y = tg_select(t, x, 0, 0);
    for (int i = 0; i < n; i++) {
        y = tg_add_scalar(t, y, 1);
    }
    end("record ops");
    tg_backward(t, y, NULL);
    end("backward");
    tg_tape_reset(t);
    end("reset");
    for (int i = 0; i < n; i++) {
        kept[i] = tg_retain(tg_add_scalar(t, tg_select(t, x, 0, i), 1));
    }
    end("retain results");
    tg_tape_reset(t);
    end("reset");
    for (int i = 0; i < n; i++) {
        tg_release(kept[i]);
    }
    end("release them");
    for (int i = 0; i < n; i++) {
        kept[i] = tg_retain(tg_slice(t, x, 0, i, i + 1, 1));
    }
    end("views of a storage");
    tg_tape_reset(t);
    for (int i = 0; i < n; i++) {
        tg_release(kept[i]);
    }
    end("release them");
    y = tg_select(t, x, 0, 0);
    for (int i = 1; i < n; i++) {
        tg_scope_begin(t);
        y = tg_add_scalar(t, y, 1);
        tg_scope_end(t, y);
    }
    end("scopes");
    tg_backward(t, y, NULL);
    end("backward");
    bench_must(tg_tape_error(t)->code == TG_OK ? t : NULL);
    tg_tape_free(t);
    tg_release(x);
    free(kept);
}

static void tables(int n)
{
    clear();
    tg_text_add(&text, "a,b\n");
    for (int i = 0; i < n; i++) {
        tg_text_add_format(&text, "%d,w%d\n", i, i % n);
    }
    write_text();
    begin();
    tg_csv *csv = bench_must(tg_csv_open(path, NULL, &error));
    end("open CSV rows");
    tg_release(tg_csv_new_numbers(csv, (const int[]){0}, 1, TG_F32, &error));
    end("their numbers");
    tg_release(tg_csv_new_categories(csv, 1, NULL, NULL, &error));
    end("their categories");
    tg_release(tg_csv_new_known_categories(csv, 1, csv, 1, &error));
    end("known categories");
    tg_csv_free(csv);
    clear();
    tg_text_add(&text, "{");
    for (int i = 0; i < n; i++) {
        tg_text_add_format(&text, "%s\"k%d\":{\"a\":%d}", i ? "," : "", i, i);
    }
    tg_text_add(&text, "}");
    write_text();
    begin();
    tg_json_document *json = bench_must(tg_json_document_open(path, &error));
    end("open JSON members");
    const tg_json_value *root = tg_json_document_root(json);
    for (int i = 0; i < n; i++) {
        bench_must((void *)(size_t)tg_json_value_find(tg_json_value_at(root, i), "a", &error));
    }
    end("find in each");
    tg_json_document_free(json);
}

static void ledgers(int n)
{
    tg_tape *t = bench_must(tg_tape_new(NULL, NULL));
    tg_tensor *x = bench_must(tg_tensor_new_full(TG_F32, TG_SHAPE(2), 1, &error));
    FILE *file = bench_must(tmpfile());
    begin();
    tg_ledger *ledger = bench_must(tg_ledger_open(t, file));
    for (int i = 0; i < n; i++) {
        tg_add_scalar(t, x, 1);
    }
    tg_ledger_close(ledger, &error);
    end("write a ledger");
    tg_ledger_difference difference;
    rewind(file);
    FILE *copy = bench_must(tmpfile());
    for (int c; (c = getc(file)) != EOF;) {
        putc(c, copy);
    }
    rewind(file);
    rewind(copy);
    begin();
    tg_ledger_compare(file, copy, 0, &difference, &error);
    end("compare it");
    fclose(file);
    fclose(copy);
    tg_tape_free(t);
    tg_release(x);
}

/* ---- all groups ---- */

static const struct {
    const char *name;
    void (*run)(int n);
    int least;
} all[] = {
    {"merges", merges, 4000},    {"added tokens", added_tokens, 5000},
    {"words", words, 10000},     {"parameters", parameters, 4000},
    {"groups", groups, 2000},    {"parts", parts, 4000},
    {"records", records, 20000}, {"tables", tables, 10000},
    {"ledgers", ledgers, 10000},
};

int main(int argc, char **argv)
{
    bool has_run = false, is_once = argc > 1 && strcmp(argv[1], "--once") == 0;
    const char *prefix = argc > 1 + is_once ? argv[1 + is_once] : "";
    tg_set_threads(1, NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strncmp(all[i].name, prefix, strlen(prefix)) != 0) {
            continue;
        }
        has_run = true;
        memset(actions, 0, sizeof actions);
        for (int round = 0; round < (is_once ? 1 : ROUNDS); round++) {
            for (size_index = 0; size_index < SIZES; size_index++) {
                next_action = 0;
                all[i].run(all[i].least << size_index);
            }
        }
        for (int a = 0; a < next_action; a++) {
            const double *s = actions[a].seconds;
            printf("%-13s %-28s %7d %9.2f ms  %5.2f\n", a ? "" : all[i].name, actions[a].name,
                   all[i].least << (SIZES - 1), 1e3 * s[SIZES - 1], log2(s[SIZES - 1] / s[SIZES - 3]) / 2);
        }
        fflush(stdout);
    }
    clear();
    remove(path);
    remove(other_path);
    if (!has_run) {
        fprintf(stderr, "growth: no group begins with the argument; the groups are");
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            fprintf(stderr, "%s %s", i ? "," : "", all[i].name);
        }
        fprintf(stderr, "\n");
    }
    return has_run ? 0 : 2;
}
