#include "bench/op_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/figure.h"

struct op_shape {
    const char *name;
    bool strided;
    tg_shape base;
    /* by letter; 0: none */
    int64_t size['Z' + 1];
};

#define PRODUCT(m, k, n) ['M'] = (m), ['K'] = (k), ['N'] = (n)
#define SEQUENCE(b, c, t) ['B'] = (b), ['C'] = (c), ['T'] = (t)
#define ATTENTION(a, h, q, d) ['A'] = (a), ['H'] = (h), ['Q'] = (q), ['D'] = (d)
#define LOOKUP(v, e, i, r) ['V'] = (v), ['E'] = (e), ['I'] = (i), ['R'] = (r)
#define RECURRENT(j, u, w, x) ['J'] = (j), ['U'] = (u), ['W'] = (w), ['X'] = (x)

static const op_shape shapes[] = {
    {.name = "cache",
     .base = {2, {512, 3072}},
     .size = {PRODUCT(512, 768, 3072), SEQUENCE(16, 64, 512), ATTENTION(4, 12, 256, 64), LOOKUP(8192, 512, 4096, 256),
              RECURRENT(16, 64, 128, 128)}},
    /* 256 MB in f32 */
    {.name = "large",
     .base = {2, {8192, 8192}},
     .size = {PRODUCT(65536, 1024, 256), SEQUENCE(512, 64, 2048), ATTENTION(256, 16, 256, 64),
              LOOKUP(131072, 512, 65536, 512), RECURRENT(32, 128, 256, 512)}},
    {.name = "odd",
     .base = {2, {61, 1021}},
     .size = {PRODUCT(61, 97, 1021), SEQUENCE(3, 13, 1021), ATTENTION(3, 5, 61, 34), LOOKUP(1021, 61, 997, 61),
              RECURRENT(3, 17, 61, 33)}},
    {.name = "small",
     .base = {2, {32, 64}},
     .size = {PRODUCT(32, 64, 64), SEQUENCE(2, 8, 64), ATTENTION(2, 2, 32, 16), LOOKUP(64, 32, 32, 32),
              RECURRENT(2, 8, 32, 16)}},
    {.name = "rank4", .base = {4, {8, 16, 64, 192}}},
    {.name = "strided",
     .strided = true,
     .base = {2, {512, 3072}},
     .size = {PRODUCT(512, 768, 3072), SEQUENCE(16, 64, 512), ATTENTION(4, 12, 256, 64), LOOKUP(8192, 512, 4096, 256),
              RECURRENT(16, 64, 128, 128)}},
};

const op_shape *op_shape_of(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (!name || strcmp(shapes[i].name, name) == 0) {
            return &shapes[i];
        }
    }
    return NULL;
}

const char *op_shape_name(const op_shape *shape)
{
    return shape->name;
}

bool op_input_is_strided(const op_input *input, const op_shape *shape)
{
    return shape->strided && input->kind != OP_IDS && input->shape.rank > 1;
}

/* ---- the text of a row ---- */

static const char *const kind_names[] = {"real",        "positive", "weight", "table", "target",
                                         "probability", "sign",     "mask",   "model", "ids"};

enum { KINDS = sizeof kind_names / sizeof kind_names[0] };

const char *op_kind_name(op_kind kind)
{
    return kind_names[kind];
}

bool op_has_gradient(op_kind kind)
{
    return kind <= OP_TABLE;
}

_Noreturn static void refuse(const char *text)
{
    fprintf(stderr, "bench: a row has the inputs '%s' (bench/op_inputs.h)\n", text);
    exit(1);
}

/* Reads "512", "X" or "4X"; 0 for a letter without a value. */
static int64_t read_size(const char **text, const op_shape *shape, bool *has_letter)
{
    int64_t size = 1;
    if (**text >= '0' && **text <= '9') {
        char *end;
        size = strtoll(*text, &end, 10);
        *text = end;
    }
    if (**text >= 'A' && **text <= 'Z') {
        int letter = *(*text)++;
        *has_letter = true;
        size *= letter == 'F'   ? shape->base.size[0]
                : letter == 'L' ? shape->base.size[shape->base.rank - 1]
                                : shape->size[letter];
    }
    return size;
}

/* Reads sizes with commas between them, up to a semicolon or the end. */
static tg_shape read_sizes(const char **text, const op_shape *shape, bool *has_letter)
{
    int64_t sizes[TG_MAX_RANK];
    int rank = 0;
    do {
        *text += **text == ',';
        if (**text == 'S' || **text == 'P') {
            int axes = shape->base.rank - (**text == 'P');
            for (int i = 0; i < axes; i++) {
                sizes[rank++] = shape->base.size[i];
            }
            *has_letter = true;
            ++*text;
        } else {
            sizes[rank++] = read_size(text, shape, has_letter);
        }
    } while (**text == ',');
    return tg_shape_make(rank, sizes);
}

static op_input read_input(const char **text, const op_shape *shape, bool *has_letter)
{
    const char *whole = *text;
    op_input input = {.below = 0};
    size_t length = strcspn(*text, " <");
    int kind = 0;
    while (kind < KINDS && (strlen(kind_names[kind]) != length || strncmp(kind_names[kind], *text, length) != 0)) {
        kind++;
    }
    if (kind == KINDS) {
        refuse(whole);
    }
    input.kind = (op_kind)kind;
    *text += length;
    if (**text == '<') {
        ++*text;
        input.below = read_size(text, shape, has_letter);
    }
    if (**text != ' ' || (input.kind == OP_IDS) != (whole[length] == '<')) {
        refuse(whole);
    }
    ++*text;
    input.shape = read_sizes(text, shape, has_letter);
    if (**text != '\0' && strncmp(*text, "; ", 2) != 0) {
        refuse(whole);
    }
    *text += **text == ';' ? 2 : 0;
    return input;
}

static bool has_values(const op_input *input)
{
    for (int i = 0; i < input->shape.rank; i++) {
        if (input->shape.size[i] == 0) {
            return false;
        }
    }
    return input->kind != OP_IDS || input->below > 0;
}

int op_inputs(const op_row *row, const op_shape *shape, op_input inputs[OP_INPUTS])
{
    const char *text = row->inputs;
    bool has_letter = false, runs = true;
    int count = 0;
    while (*text != '\0') {
        if (count == OP_INPUTS) {
            refuse(row->inputs);
        }
        inputs[count] = read_input(&text, shape, &has_letter);
        runs = runs && has_values(&inputs[count++]);
    }
    return runs && (has_letter || shape == shapes) ? count : -1;
}

double op_work(const op_row *row, const op_shape *shape)
{
    const char *text = row->work;
    double work = 1;
    bool has_letter;
    tg_shape sizes = text ? read_sizes(&text, shape, &has_letter) : tg_shape_make(1, (int64_t[]){0});
    for (int i = 0; i < sizes.rank; i++) {
        work *= (double)sizes.size[i];
    }
    return work;
}

/* ---- tensors ---- */

static void fill(tg_tensor *x, const op_input *input, tg_rng *rng)
{
    switch (input->kind) {
    case OP_POSITIVE: tg_tensor_fill_uniform(x, rng, 0.5, 1.5, NULL); break;
    case OP_PROBABILITY: tg_tensor_fill_uniform(x, rng, 0, 1, NULL); break;
    case OP_WEIGHT: tg_tensor_fill_normal(x, rng, 0, 0.05, NULL); break;
    case OP_MASK: tg_tensor_fill_bernoulli(x, rng, 0.5, NULL); break;
    case OP_IDS: tg_tensor_fill_randint(x, rng, 0, input->below, NULL); break;
    case OP_SIGN: tg_tensor_fill_bernoulli(x, rng, 0.5, NULL); break;
    case OP_MODEL: break;
    default: tg_tensor_fill_normal(x, rng, 0, 1, NULL);
    }
}

/* 0 and 1 become -1 and 1. */
static tg_tensor *signs_of(tg_tensor *bits)
{
    tg_tape *tape = bench_must(tg_tape_new(NULL, NULL));
    tg_tensor *signs = tg_retain(tg_add_scalar(tape, tg_mul_scalar(tape, bits, 2), -1));
    tg_tape_free(tape);
    tg_release(bits);
    return bench_must(signs);
}

static tg_tensor *every_second_column(tg_tensor *wide)
{
    tg_tape *tape = bench_must(tg_tape_new(NULL, NULL));
    tg_tensor *columns = tg_retain(tg_slice(tape, wide, -1, 0, INT64_MAX, 2));
    tg_tape_free(tape);
    tg_release(wide);
    return bench_must(columns);
}

tg_tensor *op_input_new(const op_input *input, const op_shape *shape, tg_dtype dtype, tg_rng *rng)
{
    tg_shape sizes = input->shape;
    bool columns = op_input_is_strided(input, shape);
    if (columns) {
        sizes.size[sizes.rank - 1] *= 2;
    }
    tg_dtype own = input->kind == OP_IDS ? TG_I32 : input->kind == OP_MASK ? TG_U8 : dtype;
    tg_tensor *x = bench_must(tg_tensor_new(own, sizes, NULL));
    fill(x, input, rng);
    x = input->kind == OP_SIGN ? signs_of(x) : x;
    x = columns ? every_second_column(x) : x;
    if (op_has_gradient(input->kind)) {
        tg_tensor_set_requires_grad(x, true, NULL);
    }
    return x;
}

typedef struct id_change {
    int32_t *ids, last;
} id_change;

static void change_part(void *context, int64_t begin, int64_t end)
{
    const id_change *c = context;
    for (int64_t i = begin; i < end; i++) {
        c->ids[i] = c->ids[i] == c->last ? 0 : c->ids[i] + 1;
    }
}

/* All threads do it, as PyTorch's do there: they are awake, then, when the call begins. */
void op_change_ids(tg_tensor *ids, int64_t below)
{
    id_change c = {tg_tensor_data_mut(ids), (int32_t)below - 1};
    tg_parallel_for(tg_tensor_count(ids), 1, change_part, &c);
}
