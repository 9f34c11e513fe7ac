/* model: the table and its tokenizer, and the folder in which sentence-transformers keeps them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

#include "../common/terminal.h"
#include "sentences.h"

/* ---- a new model ---- */

/* Trains a vocabulary of byte pairs on the texts. */
static tg_tokenizer *train_vocabulary(const texts *t, int64_t size, tg_error *error)
{
    size_t length = 0, used = 0;
    for (int64_t i = 0; i < t->count; i++) {
        length += strlen(t->at[i].query) + strlen(t->at[i].document) + 2;
    }
    char *text = malloc(length + 1);
    if (!text) {
        snprintf(error->text, sizeof error->text, "out of memory for the texts");
        return NULL;
    }
    for (int64_t i = 0; i < t->count; i++) {
        used += (size_t)snprintf(text + used, length + 1 - used, "%s\n%s\n", t->at[i].query, t->at[i].document);
    }
    tg_tokenizer *tokenizer = tg_tokenizer_train(text, length, (int32_t)size, error);
    free(text);
    return tokenizer;
}

bool model_make(model *m, const options *o, const texts *t)
{
    tg_error error = TG_NO_ERROR;
    *m = (model){.tokenizer = o->tokenizer ? tg_tokenizer_open(o->tokenizer, NULL, &error)
                                           : train_vocabulary(t, o->vocab_size, &error)};
    if (!m->tokenizer) {
        return complain("%s", error.text);
    }
    snprintf(m->columns, sizeof m->columns, "%s", o->columns);
    m->run = tg_run_new((uint64_t)o->seed);
    m->params = tg_params_new(m->run, TG_F32);
    m->bag = tg_nn_embedding_bag_make(m->params, "embedding", tg_tokenizer_vocabulary(m->tokenizer), o->width, NULL);
    return tg_run_error(m->run)->code == TG_OK || complain("%s", tg_run_error(m->run)->text);
}

void model_free(model *m)
{
    tg_tokenizer_free(m->tokenizer);
    tg_params_free(m->params);
    tg_run_free(m->run);
    *m = (model){0};
}

int64_t model_width(const model *m)
{
    return tg_tensor_size(m->bag.weight, 1);
}

/* ---- folders ---- */

/* Writes the folder of the StaticEmbedding to `inner`: a path beside modules.json. */
static bool read_modules(const char *folder, char inner[PATH_BYTES])
{
    tg_error error = TG_NO_ERROR;
    const char *path = folder_file(folder, "modules.json");
    tg_json_document *document = tg_json_document_open(path, &error);
    const tg_json_value *modules = tg_json_document_root(document), *first = tg_json_value_at(modules, 0);
    const char *type = document ? tg_json_value_text(tg_json_value_find(first, "type", &error), &error) : NULL;
    const char *place = type ? tg_json_value_text(tg_json_value_find(first, "path", &error), &error) : NULL;
    const char *last = place && strrchr(type, '.') ? strrchr(type, '.') + 1 : type;
    bool good = place && strcmp(last, "StaticEmbedding") == 0 && tg_json_value_count(modules) == 1;
    if (!place) {
        complain("%s", error.text);
    } else if (!good) {
        complain("%s: module 1 of %lld is a %s; a single StaticEmbedding is read", path,
                 (long long)tg_json_value_count(modules), last);
    } else {
        snprintf(inner, PATH_BYTES, "%s", folder_file(folder, place));
    }
    tg_json_document_free(document);
    return good;
}

/* Reads the columns of the training, if it had --columns. */
static void read_columns(const char *folder, char columns[COLUMNS_TEXT])
{
    FILE *file = fopen(folder_file(folder, "columns.txt"), "r");
    if (file && fgets(columns, COLUMNS_TEXT, file)) {
        columns[strcspn(columns, "\r\n")] = '\0';
    }
    if (file) {
        fclose(file);
    }
}

static bool write_columns(const char *path, const char *columns)
{
    if (!*columns) {
        remove(path); /* of a former model */
        return true;
    }
    FILE *file = file_begin(path);
    return file && (fprintf(file, "%s\n", columns), file_end(file, path));
}

bool model_open(model *m, const options *o)
{
    const char *folder = o->model;
    char inner[PATH_BYTES];
    *m = (model){0};
    snprintf(m->columns, sizeof m->columns, "%s", o->columns);
    if (access(folder_file(folder, "modules.json"), F_OK) != 0) {
        return complain("there is no model in %s: run `sentences train` first, or give --model", folder);
    }
    if (!read_modules(folder, inner)) {
        return false;
    }
    if (!*m->columns) {
        read_columns(folder, m->columns);
    }
    tg_error error = TG_NO_ERROR;
    m->tokenizer = tg_tokenizer_open(folder_file(inner, "tokenizer.json"), NULL, &error);
    tg_tensor *table = m->tokenizer ? tg_tensor_new_from_safetensors(folder_file(inner, "model.safetensors"),
                                                                     "embedding.weight", &error)
                                    : NULL;
    int32_t ids = tg_tokenizer_vocabulary(m->tokenizer);
    bool good = table || complain("%s", error.text);
    if (good && (tg_tensor_rank(table) != 2 || tg_tensor_dtype(table) != TG_F32 || tg_tensor_size(table, 0) < ids)) {
        good = complain("%s: the vocabulary of %d ids does not fit the table of %lld rows", inner, ids,
                        (long long)tg_tensor_size(table, 0));
    }
    if (good) {
        tg_nn_embedding_bag_config config = tg_nn_embedding_bag_config_default();
        config.from = table;
        m->run = tg_run_new(0);
        m->params = tg_params_new(m->run, TG_F32);
        m->bag = tg_nn_embedding_bag_make(m->params, "embedding", tg_tensor_size(table, 0), tg_tensor_size(table, 1),
                                          &config);
        good = tg_run_error(m->run)->code == TG_OK || complain("%s", tg_run_error(m->run)->text);
    }
    tg_release(table);
    return good;
}

static bool write_modules(const char *path)
{
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    fprintf(file, "[\n  {\n    \"idx\": 0,\n    \"name\": \"0\",\n    \"path\": \"0_StaticEmbedding\",\n"
                  "    \"type\": \"sentence_transformers.models.StaticEmbedding\"\n  }\n]\n");
    return file_end(file, path);
}

bool model_save(const model *m, const char *folder, int64_t width)
{
    char inner[PATH_BYTES];
    tg_error error = TG_NO_ERROR;
    snprintf(inner, sizeof inner, "%s", folder_file(folder, "0_StaticEmbedding"));
    if (!folder_make(inner)) {
        return false;
    }
    tg_tape *tape = tg_tape_new(m->run, NULL);
    tg_tape_set_recording(tape, false);
    tg_named_tensor table = {"embedding.weight", tg_slice(tape, m->bag.weight, 1, 0, width, 1), NULL};
    bool good = (tg_safetensors_save(folder_file(inner, "model.safetensors"), &table, 1, &error) &&
                 tg_tokenizer_save(m->tokenizer, folder_file(inner, "tokenizer.json"), TG_VOCABULARY_JSON, &error)) ||
                complain("%s", error.text);
    tg_tape_free(tape);
    return good && write_columns(folder_file(folder, "columns.txt"), m->columns) &&
           write_modules(folder_file(folder, "modules.json"));
}

bool model_may_write(const options *o, const char *advice)
{
    const bool has_model = access(folder_file(o->out, "checkpoint.safetensors"), F_OK) == 0 ||
                           access(folder_file(o->out, "modules.json"), F_OK) == 0;
    return !has_model || o->overwrite ||
           complain("folder '%s': has a model; %s--overwrite replaces it", o->out, advice);
}

/* ---- ids ---- */

/* A thread encodes a part of the texts with a tokenizer of its own. */
typedef struct part {
    const char *vocabulary;
    size_t length;
    const texts *texts;
    bool are_queries;
    int64_t begin, end;
    tg_tokens *tokens;
    tg_error error;
} part;

/* Encodes the texts of a part, cut as the tokenizer.json says, and removes its padding. */
static void encode_part(part *p)
{
    tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
    config.as_file = true;
    tg_tokenizer *tokenizer = tg_tokenizer_new_from_text(p->vocabulary, p->length, &p->error);
    for (int64_t i = p->begin; p->error.code == TG_OK && i < p->end; i++) {
        const text_row *row = &p->texts->at[i];
        const char *text = p->are_queries ? row->query : row->document;
        tg_encoding e;
        tg_error error = TG_NO_ERROR;
        if (!tg_tokenizer_encode_text(tokenizer, text, strlen(text), &e, &config, &error)) {
            tg_error_set(&p->error, error.code, "%.*s: line %lld: %s", (int)strcspn(row->path, ","), row->path,
                         (long long)row->line, error.text);
            break;
        }
        p->tokens[i] = (tg_tokens){e.ids, e.count - e.padding};
        if (e.padding > 0 && e.spans[0].end == 0) { /* padding at the begin */
            memmove(e.ids, e.ids + e.padding, (size_t)p->tokens[i].count * sizeof *e.ids);
        }
        e.ids = NULL;
        tg_encoding_free(&e);
    }
    tg_tokenizer_free(tokenizer);
}

static void encode_parts(void *context, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        encode_part((part *)context + i);
    }
}

tg_tokens *model_encode(const model *m, const texts *t, bool are_queries)
{
    tg_error error = TG_NO_ERROR;
    const int threads = tg_threads();
    tg_tokens *tokens = calloc((size_t)t->count + 1, sizeof *tokens);
    part *parts = calloc((size_t)threads, sizeof *parts), first = {.texts = t, .are_queries = are_queries};
    first.vocabulary = tg_tokenizer_text(m->tokenizer, &first.length, &error);
    bool good = first.vocabulary ? (tokens && parts) || complain("out of memory") : complain("%s", error.text);
    for (int i = 0; good && i < threads; i++) {
        parts[i] = first;
        parts[i].begin = t->count * i / threads;
        parts[i].end = t->count * (i + 1) / threads;
        parts[i].tokens = tokens;
    }
    if (good) {
        tg_parallel_for(threads, 1, encode_parts, parts);
    }
    for (int i = 0; good && i < threads; i++) {
        good = parts[i].error.code == TG_OK || complain("%s", parts[i].error.text);
    }
    free(parts);
    tg_text_free((char *)first.vocabulary);
    if (good) {
        return tokens;
    }
    tokens_free(tokens, t->count);
    return NULL;
}

void tokens_free(tg_tokens *tokens, int64_t count)
{
    for (int64_t i = 0; tokens && i < count; i++) {
        tg_tokens_free(&tokens[i]);
    }
    free(tokens);
}

/* ---- vectors ---- */

tg_tensor *model_forward(const model *m, tg_tape *tape, const tg_tokens *tokens, const int32_t *list, int64_t count)
{
    int64_t all = 0;
    for (int64_t i = 0; i < count; i++) {
        all += tokens[list ? list[i] : i].count;
    }
    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(all), NULL),
              *offsets = tg_tensor_new(TG_I32, TG_SHAPE(count), NULL);
    int32_t *id = tg_tensor_data_mut(ids), *offset = tg_tensor_data_mut(offsets), at = 0;
    for (int64_t i = 0; id && offset && i < count; i++) {
        const tg_tokens *text = &tokens[list ? list[i] : i];
        if (text->count > 0) {
            memcpy(id + at, text->ids, (size_t)text->count * sizeof *id);
        }
        offset[i] = at;
        at += (int32_t)text->count;
    }
    tg_tensor *vectors = tg_nn_embedding_bag_forward(tape, &m->bag, ids, offsets, NULL);
    tg_release(ids);
    tg_release(offsets);
    return vectors;
}

tg_tensor *model_vectors(const model *m, const tg_tokens *tokens, int64_t count, int64_t width)
{
    enum { TEXTS = 4096 };
    tg_tensor *vectors = tg_tensor_new(TG_F32, TG_SHAPE(count, width), NULL);
    tg_tape *tape = tg_tape_new(m->run, NULL);
    float *to = tg_tensor_data_mut(vectors);
    tg_tape_set_recording(tape, false);
    bool good = to || complain("out of memory for %lld vectors", (long long)count);
    for (int64_t first = 0; good && first < count; first += TEXTS) {
        const int64_t some = count - first < TEXTS ? count - first : TEXTS;
        tg_tensor *means = model_forward(m, tape, tokens + first, NULL, some);
        const float *from = tg_tensor_data(tg_contiguous(tape, tg_slice(tape, means, 1, 0, width, 1)));
        good = from || complain("%s", tg_tape_error(tape)->text);
        if (good) {
            memcpy(to + first * width, from, (size_t)(some * width) * sizeof *to);
        }
        tg_tape_reset(tape);
    }
    tg_tape_free(tape);
    if (good) {
        return vectors;
    }
    tg_release(vectors);
    return NULL;
}

tg_tensor *model_vectors_of(const model *m, const texts *t)
{
    tg_tokens *tokens = model_encode(m, t, false);
    tg_tensor *vectors = tokens ? model_vectors(m, tokens, t->count, model_width(m)) : NULL;
    tokens_free(tokens, t->count);
    return vectors;
}

int widths_read(const char *text, int64_t whole, int64_t widths[MOST_WIDTHS])
{
    int count = 0;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char *end;
        const long long width = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ',') || width < 1 || width >= whole || count == MOST_WIDTHS - 1) {
            complain("--widths %s: must be at most %d whole numbers from 1 to %lld with commas between them", text,
                     MOST_WIDTHS - 1, (long long)whole - 1);
            return 0;
        }
        widths[count++] = width;
    }
    widths[count++] = whole;
    return count;
}
