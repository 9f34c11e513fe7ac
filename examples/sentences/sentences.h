/* sentences: the parts of the program. Functions that return false or NULL have printed an error. */
#ifndef SENTENCES_H
#define SENTENCES_H

#include <tapegrad_text.h>
#include <tapegrad_tools.h>

#include "../common/program.h"

typedef struct options {
    const char *pairs, *held_out, *documents, *columns, *tokenizer, *out, *model, *widths, *query, *name, *method;
    int64_t vocab_size, width, batch, epochs, seed, threads, top, most;
    double lr, warmup, scale, minutes;
    bool resume, overwrite;
} options;

/* ---- texts.c ---- */

/* A row of a file: a pair, or a document alone. */
typedef struct text_row {
    /* the query is NULL in a file of documents alone; the name is the document itself in a file without names */
    char *query, *document, *name;
    /* where it stands; other paths may follow behind a comma */
    const char *path;
    int64_t line;
} text_row;

typedef struct texts {
    text_row *at;
    int64_t count, capacity;
} texts;

/* Adds the rows of files, which have commas between their paths. `columns` are the names of the columns of the query,
 * the document and its name, or of the document alone, with commas between them; "" for the first columns. With
 * `are_pairs` each row must have a query, and the first row of each file is printed with its columns; without it no
 * file needs the column of the query. */
bool texts_read(texts *t, const char *paths, const char *columns, bool are_pairs);
void texts_free(texts *t);
void text_row_free(text_row *r);

/* Returns whether a text is NULL, or has nothing but white space. */
bool is_empty(const char *text);

/* Writes for each row the number of the first row with the same document. */
bool texts_number(const texts *t, int32_t *numbers);

/* Leaves out each row whose document an earlier row has. Returns the new number of each row that was there, and of the
 * earlier row for one that is left out; yours to free with free(). */
int32_t *texts_drop_equal(texts *t);

/* ---- model.c ---- */

/* The bytes of the names of the columns; no longer name is found. */
#define COLUMNS_TEXT 1000

/* sentence-transformers' StaticEmbedding: the vector of a text is the mean of the rows of its tokens. */
typedef struct model {
    tg_tokenizer *tokenizer;
    tg_run *run;
    tg_params *params;
    tg_nn_embedding_bag bag;
    /* --columns, or those of the training */
    char columns[COLUMNS_TEXT];
} model;

/* Makes a new model: with the vocabulary of --tokenizer, or with one that is trained on the texts. */
bool model_make(model *m, const options *o, const texts *t);

/* Open --model, a folder of sentence-transformers, and write one with the first `width` columns of the table. A file
 * columns.txt beside modules.json has the columns of the training. */
bool model_open(model *m, const options *o);
bool model_save(const model *m, const char *folder, int64_t width);
void model_free(model *m);

/* Returns whether --out has no model, or --overwrite is given. `advice` says what else may be done. */
bool model_may_write(const options *o, const char *advice);
int64_t model_width(const model *m);

/* Returns the ids of each query, or of each document. */
tg_tokens *model_encode(const model *m, const texts *t, bool are_queries);
void tokens_free(tg_tokens *tokens, int64_t count);

/* Returns the vectors (count,width) of some texts, a result on the tape: of those with the numbers of `list`, or of the
 * first ones if it is NULL. Errors are in the run of the model. */
tg_tensor *model_forward(const model *m, tg_tape *tape, const tg_tokens *tokens, const int32_t *list, int64_t count);

/* Returns the first `width` values of the vectors of texts, (count,width). */
tg_tensor *model_vectors(const model *m, const tg_tokens *tokens, int64_t count, int64_t width);

/* Encodes documents, and returns their vectors. */
tg_tensor *model_vectors_of(const model *m, const texts *t);

/* Reads smaller widths, such as "512,256" or NULL, and adds the whole width. Returns how many there are, or 0. */
#define MOST_WIDTHS 16
int widths_read(const char *text, int64_t whole, int64_t widths[MOST_WIDTHS]);

/* ---- search.c ---- */

/* Measures how well queries find their documents, of which query i has row numbers[i], among the first k answers. */
bool ranking_measure(const tg_tensor *queries, const tg_tensor *documents, const int32_t *numbers, int64_t k,
                     tg_ranking *ranking);

/* ---- commands ---- */

/* Each returns the exit status. */
int train(const options *o);
int eval(const options *o);
int search(const options *o);
int similar(const options *o);
int map(const options *o);
int export(const options *o);

/* ---- pca.c, tsne.c ---- */

/* Write places (N,2) of vectors of length 1, (N,C), on a plane; t-SNE takes at most MOST_TSNE vectors. The tape does
 * not record. */
#define MOST_TSNE 2000
bool pca(tg_tape *t, tg_tensor *units, double *places);
bool tsne(tg_tape *t, tg_tensor *units, int64_t seed, double *places);

#endif
