/* weights: the weights of a model under the names of its family, read from a file and written to one.
 *
 * Reading fills each parameter as it is made, from the place that it has in the file. A weight that the file has
 * transposed is read in parts. Writing needs memory only for what the file has in another form, and for merged LoRA.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "files/safetensors.h"
#include "models/family.h"
#include "models/lora.h"
#include "params/params.h"

/* ---- names ---- */

/* Returns whether `text`, of `length` bytes, is `name`. */
static bool is_name(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* The ends of the names of parameters, and what they are in a file. LoRA is in a file of its own, of a model of peft
 * that has the model. */
static const struct {
    const char *own, *file;
    bool is_weight, is_lora;
} suffixes[] = {
    {".lora_A.weight", ".lora_A.weight", false, true},
    {TG_PEFT_B, TG_PEFT_B, false, true},
    {".weight", ".weight", true, false},
    {".scale", ".weight", true, false},
    {".bias", ".bias", false, false},
    {".shift", ".bias", false, false},
};

bool tg_weight_find(const tg_family *f, const char *prefix, const char *own, tg_weight_place *place)
{
    static const char blocks[] = "trf_blocks.";
    *place = (tg_weight_place){.parts = 1};
    if (!f->names) {
        snprintf(place->name, sizeof place->name, "%s", own);
        return true;
    }
    char *part = (char *)(uintptr_t)own, block[48] = "";
    if (strncmp(own, blocks, sizeof blocks - 1) == 0) {
        long long number = strtoll(own + sizeof blocks - 1, &part, 10);
        part += *part == '.';
        snprintf(block, sizeof block, "%s.%lld.", f->blocks, number);
    }
    size_t suffix = 0, most = sizeof suffixes / sizeof *suffixes;
    while (suffix < most && !tg_ends_with(part, suffixes[suffix].own)) {
        suffix++;
    }
    if (suffix == most) {
        return false;
    }
    bool is_lora = suffixes[suffix].is_lora;
    size_t length = strlen(part) - strlen(suffixes[suffix].own);
    const tg_weight_name *name = f->names;
    while (name->own && !is_name(part, length, name->own)) {
        name++;
    }
    if (!name->own || (is_lora && name->parts > 0)) {
        return false;
    }
    snprintf(place->name, sizeof place->name, "%s%s%s%s%s", is_lora ? TG_PEFT_PREFIX : "",
             strcmp(name->own, "out_head") == 0 ? "" : prefix, block, name->file, suffixes[suffix].file);
    place->part = name->part;
    place->parts = name->parts > 0 ? name->parts : 1;
    place->is_transposed = suffixes[suffix].is_weight && name->is_transposed;
    return true;
}

/* Returns the shape that a parameter has in the file. */
static tg_shape shape_there(const tg_weight_place *place, tg_shape own)
{
    tg_shape shape = place->is_transposed ? TG_SHAPE(own.size[1], own.size[0]) : own;
    shape.size[place->is_transposed ? 1 : 0] *= place->parts;
    return shape;
}

/* Copies rows first .. first + count - 1 of a weight that the file has transposed to or from the own one. */
static void copy_rows(char *there, int64_t first, int64_t count, tg_tensor *own, const tg_weight_place *place,
                      bool to_own)
{
    size_t size = tg_size_of(own->dtype);
    int64_t rows = own->shape[0], columns = own->shape[1];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < count; c++) {
            char *a = (char *)tg_values(own) + (size_t)(r * columns + first + c) * size;
            char *b = there + (size_t)((c * place->parts + place->part) * rows + r) * size;
            memcpy(to_own ? a : b, to_own ? b : a, size);
        }
    }
}

/* Writes the name of the weight or the bias of a part to `name`, and returns its shape. */
static tg_shape name_of(const tg_gpt_part *part, bool is_weight, char name[80])
{
    const char *suffix = part->is_norm ? (is_weight ? "scale" : "shift") : is_weight ? "weight" : "bias";
    snprintf(name, 80, "%s.%s", part->name, suffix);
    return is_weight ? part->shape : TG_SHAPE(part->shape.size[0]);
}

/* ---- reading ---- */

/* The values of a part that is read at a time. */
#define PART_VALUES ((int64_t)65536)

/* Returns rows first .. first + count - 1 of an array. */
static tg_array rows_of(const tg_array *array, int64_t first, int64_t count)
{
    tg_array rows = *array;
    rows.shape.size[0] = 1;
    rows.offset += (uint64_t)(first * tg_shape_count(rows.shape)) * (uint64_t)tg_stored_bits(rows.dtype) / 8;
    rows.shape.size[0] = count;
    return rows;
}

static bool no_memory(const tg_weights *w, const char *name, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory for '%.*s'", w->call, w->path,
                        TG_CUT(name, 100));
}

static bool read_transposed(const tg_weights *w, const tg_array *array, tg_tensor *x, const tg_weight_place *place,
                            tg_error *error)
{
    int64_t rows = array->shape.size[0], columns = array->shape.size[1];
    int64_t most = columns < PART_VALUES ? PART_VALUES / columns : 1;
    char *part = tg_alloc((uint64_t)(most * columns), tg_size_of(x->dtype));
    bool is_read = part || no_memory(w, place->name, error);
    for (int64_t first = 0; is_read && first < rows; first += most) {
        int64_t count = rows - first < most ? rows - first : most;
        tg_array some = rows_of(array, first, count);
        is_read = tg_array_read(&some, part, tg_dtype_of(x), error);
        if (is_read) {
            copy_rows(part, first, count, x, place, true);
        }
    }
    tg_free(part);
    return is_read;
}

/* Finds the array of a parameter, which must have the shape and a dtype that fits. */
static const tg_array *find_array(const tg_weights *w, const tg_weight_place *place, tg_shape shape, tg_error *error)
{
    const tg_array *array = tg_safetensors_find(w->file, "", place->name);
    if (!array) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: '%s' has no tensor '%s', which this %s has", w->call, w->path,
                     place->name, w->family->name);
        return NULL;
    }
    tg_shape there = shape_there(place, shape);
    if (!tg_shape_equal(array->shape, there)) {
        tg_error_set(error, TG_ERROR_SHAPE, "%s: '%s': '%s' is %s; in this %s it must be %s", w->call,
                     array->file->path, place->name, tg_shape_text(array->shape).text, w->family->name,
                     tg_shape_text(there).text);
        return NULL;
    }
    if (!tg_stored_fits(array->dtype, w->dtype, true)) {
        tg_error_set(error, TG_ERROR_DTYPE, "%s: '%s': '%s' is %s; it must be F32, F16, BF16 or F64", w->call,
                     array->file->path, place->name, tg_stored_name(array->dtype));
        return NULL;
    }
    return array;
}

/* Notes that a tensor of the file was read. */
static void set_used(const tg_weights *w, const tg_array *array)
{
    for (int64_t i = 0; i < tg_safetensors_count(w->file); i++) {
        w->used[i] = w->used[i] || tg_safetensors_at(w->file, i) == array;
    }
}

/* Finds the place and the array of a parameter, and the dtype that it gets. */
static const tg_array *find_own(const tg_weights *w, const char *own, tg_shape shape, tg_weight_place *place,
                                tg_dtype *dtype, tg_error *error)
{
    if (!tg_weight_find(w->family, w->prefix, own, place)) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: a %s has no '%s'", w->call, w->family->name, own);
        return NULL;
    }
    const tg_array *array = find_array(w, place, shape, error);
    /* positions are a slice of their table, which bf16 cannot be */
    bool keeps = array && w->keep_bf16 && array->dtype == TG_STORED_BF16 && shape.rank == 2 && w->dtype == TG_F32 &&
                 strcmp(own, "pos_emb.weight") != 0;
    *dtype = keeps ? TG_BF16 : w->dtype;
    return array;
}

bool tg_weights_measure(const tg_weights *w, const tg_gpt_config *config, int64_t *values, int64_t *bytes,
                        tg_error *error)
{
    tg_gpt_part part = {.next = 0};
    tg_weight_place place;
    tg_dtype dtype;
    *values = *bytes = 0;
    while (tg_gpt_next_part(config, &part)) {
        for (int is_bias = 0; is_bias <= part.has_bias; is_bias++) {
            char name[80];
            tg_shape shape = name_of(&part, !is_bias, name);
            if (!find_own(w, name, shape, &place, &dtype, error)) {
                return false;
            }
            *values += tg_shape_count(shape);
            *bytes += tg_shape_count(shape) * (int64_t)tg_dtype_size(dtype);
        }
    }
    return true;
}

tg_tensor *tg_weights_read(void *context, const char *own, tg_shape shape, tg_error *error)
{
    const tg_weights *w = context;
    tg_weight_place place;
    tg_dtype dtype;
    const tg_array *array = find_own(w, own, shape, &place, &dtype, error);
    tg_tensor *x = array ? tg_tensor_new(dtype, shape, error) : NULL;
    if (!x) {
        return NULL;
    }
    tg_array part = rows_of(array, place.part * shape.size[0], shape.size[0]);
    if (place.is_transposed ? !read_transposed(w, array, x, &place, error)
                            : !tg_array_read(&part, tg_values(x), tg_dtype_of(x), error)) {
        tg_release(x);
        return NULL;
    }
    set_used(w, array);
    return x;
}

/* Returns whether an array has the values of a table, which has its shape. */
static bool is_table(const tg_weights *w, const tg_array *array, const tg_tensor *table, bool *is_same, tg_error *error)
{
    int64_t rows = table->shape[0], columns = table->shape[1], most = columns < PART_VALUES ? PART_VALUES / columns : 1;
    size_t row = (size_t)columns * tg_size_of(table->dtype);
    char *part = tg_alloc((uint64_t)most, row);
    bool is_read = part || no_memory(w, array->name, error);
    *is_same = true;
    for (int64_t first = 0; is_read && *is_same && first < rows; first += most) {
        int64_t count = rows - first < most ? rows - first : most;
        tg_array some = rows_of(array, first, count);
        is_read = tg_array_read(&some, part, tg_dtype_of(table), error);
        *is_same = is_read && memcmp(part, (char *)tg_values(table) + (size_t)first * row, (size_t)count * row) == 0;
    }
    tg_free(part);
    return is_read;
}

/* Checks that a head is the table of the tokens. */
static bool expect_table(const tg_weights *w, const tg_weight_place *head, const tg_params *own, tg_error *error)
{
    const tg_tensor *table = tg_params_find(own, "tok_emb.weight");
    const tg_array *array = find_array(w, head, tg_shape_of(table), error);
    tg_weight_place tokens;
    tg_weight_find(w->family, w->prefix, "tok_emb.weight", &tokens);
    bool is_same = false;
    return array && is_table(w, array, table, &is_same, error) &&
           (is_same || tg_error_set(error, TG_ERROR_VALUE,
                                    "%s: '%s': tie_word_embeddings is true; the tensors '%s' and '%s' differ", w->call,
                                    w->path, head->name, tokens.name));
}

/* Returns whether a name ends with a word of `ends`. */
static bool has_end(const char *name, const char *ends)
{
    size_t size = strlen(name);
    for (const char *at = ends; *at;) {
        size_t length = strcspn(at, " ");
        if (size >= length && memcmp(name + size - length, at, length) == 0) {
            return true;
        }
        at += length + (at[length] == ' ');
    }
    return false;
}

/* Returns whether a name is that of LoRA of a tensor whose parts are layers here, such as GPT-2's c_attn. */
static bool is_lora_of_parts(const tg_family *f, const char *name)
{
    const tg_weight_name *row = f->names;
    while (row && row->own && (row->parts == 0 || !strstr(name, row->file))) {
        row++;
    }
    return row && row->own && strstr(name, ".lora_");
}

bool tg_weights_end(const tg_weights *w, const tg_params *own, bool tied_head, tg_error *error)
{
    tg_weight_place head;
    tg_weight_find(w->family, w->prefix, "out_head.weight", &head);
    for (int64_t i = 0; i < tg_safetensors_count(w->file); i++) {
        const char *name = tg_safetensors_at(w->file, i)->name;
        if (w->used[i] || has_end(name, w->family->unused)) {
            continue;
        }
        if (!tied_head || strcmp(name, head.name) != 0) {
            return tg_error_set(error, TG_ERROR_VALUE, "%s: '%s': '%.*s' is no tensor of this %s%s", w->call, w->path,
                                TG_CUT(name, 100), w->family->name,
                                is_lora_of_parts(w->family, name)
                                    ? ", where it would be three layers; target_modules must name others"
                                    : "");
        }
        if (!expect_table(w, &head, own, error)) {
            return false;
        }
    }
    return true;
}

/* ---- writing ---- */

typedef struct output {
    const char *call;
    tg_gpt *model;
    const tg_family *family;
    tg_safetensors_writer *writer;
    tg_save_floats floats;
    tg_error *error;
} output;

/* Checks a parameter, which is written. */
static bool check_own(const output *o, const char *name, const tg_tensor *x, tg_shape shape)
{
    if (!tg_tensor_check(o->call, name, x, o->error)) {
        return false;
    }
    if (tg_shard_of(x).rows > 0) {
        return tg_error_set(o->error, TG_ERROR_STATE, "%s: '%s' is a shard; its rows are divided among processes",
                            o->call, name);
    }
    return tg_shape_equal(tg_shape_of(x), shape) ||
           tg_error_set(o->error, TG_ERROR_SHAPE, "%s: '%s' is %s; in a model of this config it must be %s", o->call,
                        name, tg_shape_text_of(x).text, tg_shape_text(shape).text);
}

/* Copies a part of a tensor of the file. */
static bool copy_part(tg_tensor *there, tg_tensor *own, const tg_weight_place *place)
{
    if (place->is_transposed) {
        copy_rows(tg_values(there), 0, own->shape[1], own, place, false);
    } else {
        memcpy((char *)tg_values(there) + (size_t)place->part * tg_bytes_of(own), tg_values(own), tg_bytes_of(own));
    }
    return true;
}

/* Writes the weight or the bias of a part, which is zeros if the model has no such bias. Parts of one tensor follow
 * each other, and `there` is that tensor, or NULL before the first of them. */
static bool add_weight(const output *o, const tg_gpt_part *part, bool is_weight, tg_tensor **there)
{
    char name[80];
    tg_weight_place place;
    tg_shape shape = name_of(part, is_weight, name);
    tg_tensor *own = tg_params_find(o->model->params, name);
    if (!tg_weight_find(o->family, o->family->prefix, name, &place) || (own && !check_own(o, name, own, shape))) {
        return false;
    }
    const tg_nn_linear *layer = tg_gpt_layer_of(o->model, part);
    bool is_merged = is_weight && layer && layer->lora_a, is_whole = place.parts == 1 && !place.is_transposed;
    tg_tensor *mine = is_merged ? tg_lora_new_merged(o->call, layer, o->error) : own ? tg_retain(own) : NULL;
    if (is_merged && !mine) {
        return false;
    }
    if (is_whole && mine) {
        *there = tg_retain(mine);
    } else if (place.part == 0) {
        tg_dtype dtype = tg_dtype_of(tg_params_find(o->model->params, "tok_emb.weight"));
        *there = tg_tensor_new(mine               ? tg_dtype_of(mine)
                               : dtype == TG_BF16 ? TG_F32
                                                  : dtype,
                               shape_there(&place, shape), o->error);
    }
    bool is_good = *there && (is_whole || !mine || copy_part(*there, mine, &place));
    tg_release(mine);
    if (is_good && place.part + 1 == place.parts) {
        is_good = tg_safetensors_add(o->writer, "", place.name, *there, (tg_shard){0, 0}, o->floats, o->error);
    }
    if (!is_good || place.part + 1 == place.parts) {
        tg_release(*there);
        *there = NULL;
    }
    return is_good;
}

bool tg_weights_write(const char *call, const char *path, tg_gpt *model, const tg_family *family,
                      const tg_gpt_config *there, tg_save_floats floats, tg_error *error)
{
    output o = {call, model, family, tg_safetensors_writer_new(call, error), floats, error};
    bool is_good = o.writer && tg_safetensors_add_metadata(o.writer, "", "format", "pt", error);
    tg_tensor *weight = NULL, *bias = NULL;
    tg_gpt_part part = {.next = 0};
    while (is_good && tg_gpt_next_part(there, &part)) {
        is_good = add_weight(&o, &part, true, &weight) && (!part.has_bias || add_weight(&o, &part, false, &bias));
    }
    tg_release(weight);
    tg_release(bias);
    is_good = is_good && tg_safetensors_write(o.writer, path, error);
    tg_safetensors_writer_free(o.writer);
    return is_good;
}
