/* query: the words nearest to a vector, by the cosine. The table is read once; its rows are divided by their norms as
 * they are read, so no normalized copy of it exists. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/terminal.h"
#include "word_vectors.h"

enum { MOST_WORDS = 16, LONGEST = 256 };

#define CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* A table of vectors (V,C), and the words of the question, their ids and their vectors (count,C). A word that has only
 * n-grams in the file has the id -1. */
typedef struct question {
    const tg_words *words;
    tg_words *opened;      /* of a file of word2vec */
    tg_subwords *subwords; /* of one of fastText, with the rows of the n-grams */
    tg_tensor *rows, *vectors;
    char asked[MOST_WORDS][LONGEST];
    int32_t ids[MOST_WORDS];
    float *asked_vectors;
    int count;
} question;

/* Returns whether a word has a capital letter of ASCII. Otherwise the training had lowered them all. */
static bool has_capitals(const tg_words *words)
{
    bool found = false;
    for (int32_t id = 0; !found && id < tg_words_vocabulary(words); id++) {
        found = tg_words_at(words, id)[strcspn(tg_words_at(words, id), CAPITALS)] != '\0';
    }
    return found;
}

static void lower(char *word)
{
    for (char *at = word; *(at += strcspn(at, CAPITALS)); at++) {
        *at = (char)(*at | 0x20);
    }
}

/* Returns whether a file begins as those of fastText do. */
static bool is_fasttext(const char *path)
{
    char begin[4];
    FILE *file = fopen(path, "rb");
    const bool is_read = file && fread(begin, sizeof begin, 1, file) == 1;
    if (file) {
        fclose(file);
    }
    return is_read && memcmp(begin, "\xba\x16\x4f\x2f", sizeof begin) == 0;
}

/* Reads the file. Returns false with the error set. */
static bool open_file(question *q, const char *path, tg_error *error)
{
    const size_t length = strlen(path);
    const bool is_binary = length > 4 && strcmp(path + length - 4, ".bin") == 0;
    if (!is_fasttext(path)) {
        q->words = q->opened =
            tg_words_open_vectors(path, is_binary ? TG_VECTORS_BINARY : TG_VECTORS_TEXT, &q->vectors, error);
        return q->words;
    }
    tg_tensor *contexts;
    q->subwords = tg_subwords_open(path, &q->rows, &contexts, error);
    tg_release(contexts);
    q->words = tg_subwords_words(q->subwords);
    q->vectors = q->subwords ? vectors_of_words(q->subwords, q->rows, error) : NULL;
    return q->vectors;
}

/* Finds a word of the question, or its n-grams, and its vector. Returns false after printing an error. */
static bool ask(question *q, const options *o, const char *word)
{
    if (q->count == MOST_WORDS) {
        return complain("more than %d words", MOST_WORDS);
    }
    const int64_t width = tg_tensor_size(q->vectors, 1);
    const int32_t id = tg_words_find(q->words, word);
    float *vector = q->asked_vectors + q->count * width;
    if (id >= 0) {
        memcpy(vector, (const float *)tg_tensor_data(q->vectors) + id * width, (size_t)width * sizeof *vector);
    } else if (!q->subwords || !tg_subwords_vector(q->subwords, q->rows, word, vector, NULL)) {
        return complain("%s: it has no word '%s'%s", o->vectors, word, q->subwords ? ", nor n-grams of it" : "");
    }
    snprintf(q->asked[q->count], LONGEST, "%s", word);
    q->ids[q->count++] = id;
    return true;
}

/* Reads the file and the words. Returns false after printing an error. In both cases, call close_question. */
static bool open_question(question *q, const options *o)
{
    *q = (question){0};
    if (!o->words) {
        return complain("the options must have --words WORDS");
    }
    tg_error error = TG_NO_ERROR;
    if (!open_file(q, o->vectors, &error)) {
        return access(o->vectors, F_OK) != 0 && errno == ENOENT
                   ? complain("there are no vectors in %s: run `word_vectors train` first, or give --vectors",
                              o->vectors)
                   : complain("%s", error.text);
    }
    q->asked_vectors = calloc((size_t)(MOST_WORDS * tg_tensor_size(q->vectors, 1)), sizeof(float));
    if (!q->asked_vectors) {
        return complain("out of memory");
    }
    const bool is_lower = !has_capitals(q->words);
    for (const char *at = o->words + strspn(o->words, " "); *at; at += strspn(at, " ")) {
        char word[LONGEST];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
        at += strcspn(at, " ");
        if (is_lower) {
            lower(word);
        }
        if (!ask(q, o, word)) {
            return false;
        }
    }
    return q->count > 0 || complain("--words has no word");
}

static void close_question(question *q)
{
    tg_words_free(q->opened);
    tg_subwords_free(q->subwords);
    tg_release(q->rows);
    tg_release(q->vectors);
    free(q->asked_vectors);
}

static double dot(const float *a, const float *b, int64_t width)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

/* Prints the words with the largest cosines to `direction`, without those of the question from `first` on. */
static bool print_nearest(const question *q, const float *direction, int first, int64_t most)
{
    const int64_t rows = tg_tensor_size(q->vectors, 0), width = tg_tensor_size(q->vectors, 1);
    const float *vectors = tg_tensor_data(q->vectors);
    const double norm = sqrt(dot(direction, direction, width));
    most = most < rows ? most : rows;
    double *cosines = malloc((size_t)most * sizeof *cosines + 1);
    int32_t *nearest = malloc((size_t)most * sizeof *nearest + 1);
    if (!cosines || !nearest) {
        free(cosines);
        free(nearest);
        return complain("out of memory");
    }
    int64_t count = 0;
    for (int32_t row = 0; row < rows; row++) {
        bool is_asked = false;
        for (int i = first; i < q->count; i++) {
            is_asked |= q->ids[i] == row;
        }
        const float *vector = vectors + row * width;
        double cosine = dot(vector, direction, width) / (norm * sqrt(dot(vector, vector, width)));
        int64_t at = count;
        for (; at > 0 && cosine > cosines[at - 1]; at--) {
        }
        if (is_asked || at == most) {
            continue;
        }
        count += count < most;
        memmove(cosines + at + 1, cosines + at, (size_t)(count - at - 1) * sizeof *cosines);
        memmove(nearest + at + 1, nearest + at, (size_t)(count - at - 1) * sizeof *nearest);
        cosines[at] = cosine;
        nearest[at] = row;
    }
    for (int64_t i = 0; i < count; i++) {
        print_line(stdout, "  %-24s %.4f", tg_words_at(q->words, nearest[i]), cosines[i]);
    }
    free(cosines);
    free(nearest);
    return true;
}

int neighbors(const options *o)
{
    question q;
    bool good = open_question(&q, o);
    const int64_t width = good ? tg_tensor_size(q.vectors, 1) : 0;
    for (int i = 0; good && i < q.count; i++) {
        print_line(stdout, "%s%s", q.asked[i], q.ids[i] < 0 ? " (never seen: by its n-grams)" : "");
        question one = q;
        one.ids[0] = q.ids[i];
        one.count = 1;
        good = print_nearest(&one, q.asked_vectors + i * width, 0, o->top);
    }
    close_question(&q);
    return good ? 0 : 2;
}

/* b - a + c of unit vectors: 3CosAdd (Mikolov, Yih and Zweig 2013). */
int analogy(const options *o)
{
    question q;
    bool good = open_question(&q, o) && (q.count == 3 || complain("--words must have three words"));
    const int64_t width = good ? tg_tensor_size(q.vectors, 1) : 0;
    float *direction = good ? calloc((size_t)width, sizeof *direction) : NULL;
    if (good && !direction) {
        good = complain("out of memory");
    }
    for (int i = 0; good && i < 3; i++) {
        const float *vector = q.asked_vectors + i * width;
        const double factor = (i == 0 ? -1 : 1) / sqrt(dot(vector, vector, width));
        for (int64_t k = 0; k < width; k++) {
            direction[k] += (float)(factor * (double)vector[k]);
        }
    }
    if (good) {
        print_line(stdout, "%s is to %s as %s is to", q.asked[0], q.asked[1], q.asked[2]);
        good = print_nearest(&q, direction, 0, o->top);
    }
    free(direction);
    close_question(&q);
    return good ? 0 : 2;
}
