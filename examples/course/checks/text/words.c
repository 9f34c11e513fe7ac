#ifdef COURSE_WORKER
#include "../worker.h"

int split(const char *text, int *begins, int *lengths);

static void run(void **a)
{
    int *count = a[3];
    *count = split(a[0], a[1], a[2]);
}

const course_call course_calls[] = {{"split", run}, {NULL, NULL}};
#else
#include "../check.h"

static void expect_words(const char *text, const char *const *words, int count)
{
    int begins[64], lengths[64], got, size = (int)strlen(text);
    describe("\"%s\"", text);
    call("split", LIST(IN(text, size + 1), OUT(begins, size), OUT(lengths, size), OUT(&got, 1)));
    expect_int("the number of words", got, count);
    for (int i = 0; i < count; i++) {
        char what[48];
        snprintf(what, sizeof what, "the beginning of word %d", i);
        expect_int(what, begins[i], words[i] - text);
        snprintf(what, sizeof what, "the length of word %d", i);
        int length = (int)strcspn(words[i], " ,.;:?!");
        expect_int(what, lengths[i], length > 0 ? length : 1);
    }
}

/* Where the words begin, found in another way: each mark, and what stands behind a blank, a mark, or at 0. */
static int words_of(const char *text, const char **words)
{
    int count = 0;
    for (const char *at = text; *at; at++) {
        bool is_mark = strchr(",.;:?!", *at) != NULL;
        if (*at != ' ' && (is_mark || at == text || strchr(" ,.;:?!", at[-1]))) {
            words[count++] = at;
        }
    }
    return count;
}

void course_checks(void)
{
    const char *words[64];
    static const char *const texts[] = {"Hello", "Hello world", "one two three four"};
    check("values");
    for (int i = 0; i < 3; i++) {
        expect_words(texts[i], words, words_of(texts[i], words));
    }

    check("marks");
    static const char *const marked[] = {"Hello, world.", "This, is a test.", "Hello, world. Is this-- a test?",
                                         "yes,no", "?!"};
    for (int i = 0; i < 5; i++) {
        expect_words(marked[i], words, words_of(marked[i], words));
    }

    check("blanks");
    static const char *const blanks[] = {"two  blanks", " at the beginning", "at the end ", "   "};
    for (int i = 0; i < 4; i++) {
        expect_words(blanks[i], words, words_of(blanks[i], words));
    }

    check("random");
    for (int i = 0; i < 20; i++) {
        char text[41];
        int length = draw_int(1, 40);
        for (int j = 0; j < length; j++) {
            text[j] = "abc ., "[draw_int(0, 7)];
        }
        text[length] = 0;
        expect_words(text, words, words_of(text, words));
    }
}
#endif
