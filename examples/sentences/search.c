/* search: finds the documents whose vectors are nearest to those of queries. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tapegrad/extend.h>

#include "../common/nearest.h"
#include "../common/terminal.h"
#include "sentences.h"

/* The bytes of a line that is read, and those of a document that are printed. */
enum { LINE = 10000, SHOWN = 100 };

/* Returns the `count` nearest documents of each query, (N,count), yours to free with free(). */
static tg_row_neighbor *find(const tg_tensor *queries, const tg_tensor *documents, int64_t count)
{
    tg_error error = TG_NO_ERROR;
    tg_row_neighbor *near = malloc((size_t)(tg_tensor_size(queries, 0) * count) * sizeof *near + 1);
    if (near && tg_tensor_neighbors(documents, queries, TG_SIMILARITY_COSINE, NULL, count, near, &error)) {
        return near;
    }
    complain("%s", near ? error.text : "out of memory");
    free(near);
    return NULL;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- eval ---- */

bool ranking_measure(const tg_tensor *queries, const tg_tensor *documents, const int32_t *numbers, int64_t k,
                     tg_ranking *ranking)
{
    tg_error error = TG_NO_ERROR;
    k = least(k, tg_tensor_size(documents, 0));
    tg_row_neighbor *near = find(queries, documents, k);
    bool good = near;
    *ranking = (tg_ranking){0};
    for (int64_t i = 0; good && i < tg_tensor_size(queries, 0); i++) {
        const int64_t own = numbers[i];
        good = tg_ranking_add(ranking, near + i * k, k, &own, 1, &error) || complain("%s", error.text);
    }
    free(near);
    return good;
}

/* Pairs, and all documents that are searched. */
typedef struct evaluation {
    model model;
    texts pairs, all;
    tg_tokens *queries, *documents;
    /* the number of the document of each pair */
    int32_t *numbers;
} evaluation;

static bool evaluation_open(evaluation *e, const options *o)
{
    *e = (evaluation){0};
    const char *columns = e->model.columns;
    return model_open(&e->model, o) && texts_read(&e->pairs, o->pairs, columns, true) &&
           texts_read(&e->all, o->pairs, columns, false) &&
           (!o->documents || texts_read(&e->all, o->documents, columns, false)) &&
           (e->numbers = texts_drop_equal(&e->all)) && (e->queries = model_encode(&e->model, &e->pairs, true)) &&
           (e->documents = model_encode(&e->model, &e->all, false));
}

/* Measures with the first `width` values of the vectors, and prints the figures. */
static bool print_quality(const evaluation *e, int64_t width)
{
    tg_ranking one, ten;
    tg_tensor *queries = model_vectors(&e->model, e->queries, e->pairs.count, width);
    tg_tensor *documents = queries ? model_vectors(&e->model, e->documents, e->all.count, width) : NULL;
    const bool good = documents && ranking_measure(queries, documents, e->numbers, 1, &one) &&
                      ranking_measure(queries, documents, e->numbers, 10, &ten);
    if (good) {
        const double count = (double)ten.count;
        printf("width %lld: recall at 1 %.4f, recall at 10 %.4f, MRR at 10 %.4f, NDCG at 10 %.4f\n", (long long)width,
               one.recall / count, ten.recall / count, ten.reciprocal_rank / count, ten.ndcg / count);
    }
    tg_release(queries);
    tg_release(documents);
    return good;
}

int eval(const options *o)
{
    evaluation e;
    int64_t widths[MOST_WIDTHS];
    bool good = evaluation_open(&e, o);
    int count = good ? widths_read(o->widths, model_width(&e.model), widths) : 0;
    if (count > 0) {
        printf("%lld queries among %lld different documents\n", (long long)e.pairs.count, (long long)e.all.count);
    }
    good = count > 0;
    for (int i = 0; good && i < count; i++) {
        good = print_quality(&e, widths[i]);
    }
    free(e.numbers);
    tokens_free(e.queries, e.pairs.count);
    tokens_free(e.documents, e.all.count);
    texts_free(&e.pairs);
    texts_free(&e.all);
    model_free(&e.model);
    return good ? 0 : 2;
}

/* ---- search, similar ---- */

/* Documents, and their vectors. */
typedef struct index {
    model model;
    texts texts;
    tg_tensor *vectors;
} document_index;

static bool index_open(document_index *x, const options *o)
{
    *x = (document_index){0};
    const double start = seconds();
    int32_t *numbers = model_open(&x->model, o) && texts_read(&x->texts, o->documents, x->model.columns, false)
                           ? texts_drop_equal(&x->texts)
                           : NULL;
    bool good = numbers && (x->vectors = model_vectors_of(&x->model, &x->texts));
    free(numbers);
    if (good) {
        print_line(stdout, "%s: %lld documents, in %.1f s", o->documents, (long long)x->texts.count, seconds() - start);
    }
    return good;
}

static void index_free(document_index *x)
{
    tg_release(x->vectors);
    texts_free(&x->texts);
    model_free(&x->model);
}

/* Prints the documents that are nearest to a vector (1,C), without that of number `without`. */
static bool print_nearest(const document_index *x, const tg_tensor *query, int64_t top, int64_t without)
{
    const int64_t count = least(top + (without >= 0), x->texts.count);
    tg_row_neighbor *near = find(query, x->vectors, count);
    for (int64_t i = 0, printed = 0; near && i < count && printed < top; i++) {
        if (near[i].row >= 0 && near[i].row != without) {
            const text_row *found = &x->texts.at[near[i].row];
            int shown = (int)tg_cut_bytes(found->document, strlen(found->document), SHOWN);
            const bool has_name = strcmp(found->name, found->document) != 0;
            print_line(stdout, "  %.4f  %s%s%.*s%s", near[i].similarity, has_name ? found->name : "",
                       has_name ? ": " : "", shown, found->document, found->document[shown] ? " ..." : "");
            printed++;
        }
    }
    free(near);
    return near;
}

static bool answer(const document_index *x, const char *text, int64_t top)
{
    text_row one = {.document = (char *)text, .path = "the query", .line = 1};
    const texts query = {&one, 1, 1};
    tg_tensor *vector = model_vectors_of(&x->model, &query);
    bool good = vector && print_nearest(x, vector, top, -1);
    tg_release(vector);
    return good;
}

int search(const options *o)
{
    document_index x = {0};
    bool good = (!o->query || !is_empty(o->query) || complain("--query: the text is empty")) && index_open(&x, o);
    const bool asks = isatty(STDIN_FILENO);
    char line[LINE];
    if (good && o->query) {
        good = answer(&x, o->query, o->top);
    }
    while (good && !o->query) {
        fputs(asks ? "> " : "", stdout);
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) {
            break;
        }
        line[strcspn(line, "\r\n")] = '\0';
        if (!is_empty(line)) {
            if (!asks) {
                print_line(stdout, "%s", line);
            }
            answer(&x, line, o->top); /* an error has been printed, and the next line may be good */
        }
    }
    index_free(&x);
    return good ? 0 : 2;
}

/* Returns the number of the document with this name, or -1. */
static int64_t number_of(const texts *t, const char *name)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (strcmp(t->at[i].name, name) == 0) {
            return i;
        }
    }
    nearest n = {.word = name};
    char text[NEAREST_TEXT];
    for (int64_t i = 0; i < t->count; i++) {
        nearest_try(&n, t->at[i].name);
    }
    complain("no document has the name '%s'%s", name, nearest_text(&n, "", text));
    return -1;
}

int similar(const options *o)
{
    document_index x;
    bool good = index_open(&x, o);
    const int64_t number = good ? number_of(&x.texts, o->name) : -1;
    tg_tape *tape = tg_tape_new(x.model.run, NULL);
    tg_tensor *vector = number >= 0 ? tg_slice(tape, x.vectors, 0, number, number + 1, 1) : NULL;
    good = vector && print_nearest(&x, vector, o->top, number);
    tg_tape_free(tape);
    index_free(&x);
    return good ? 0 : 2;
}

/* ---- export ---- */

int export(const options *o)
{
    model m;
    bool good = model_open(&m, o);
    if (good && o->width > model_width(&m)) {
        good = complain("--width %lld: must be a whole number from 1 to %lld, the width of %s", (long long)o->width,
                        (long long)model_width(&m), o->model);
    }
    const int64_t width = good && o->width > 0 ? o->width : good ? model_width(&m) : 0;
    good = good && model_may_write(o, "") && model_save(&m, o->out, width);
    if (good) {
        print_line(stdout, "written to %s: %lld values of each vector", o->out, (long long)width);
    }
    model_free(&m);
    return good ? 0 : 2;
}
