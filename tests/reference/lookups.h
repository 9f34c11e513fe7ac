/* lookups: what tg_embedding (lookups.c) and tg_embedding_bag (bags.c) share. */
#ifndef TG_TESTS_REFERENCE_LOOKUPS_H
#define TG_TESTS_REFERENCE_LOOKUPS_H

#include "losses.h"

typedef struct lookup_options {
    bool has_config, last_offset, scale_by_frequency;
    int64_t padding_index;
    double max_norm, norm_type;
    tg_bag_mode mode;
    uint64_t frozen;  /* a bit for each row */
    bool makes_dense; /* the gradient, after the first backward */
    int passes;
} lookup_options;

/* The inputs, by their numbers; the last two are those of tg_embedding_bag. */
enum { IDS, TABLE, OFFSETS, WEIGHTS };

static inline lookup_options *options_of(const trial *t)
{
    return (lookup_options *)(uintptr_t)t->options;
}

static inline int64_t count_rows(const trial *t)
{
    return t->inputs[TABLE].x.shape.size[0];
}

static inline int64_t width_of(const trial *t)
{
    return t->inputs[TABLE].x.shape.size[1];
}

static inline int64_t id_at(const trial *t, int64_t i)
{
    return (int64_t)t->inputs[IDS].x.values[i];
}

static inline bool is_padding(const trial *t, int64_t id)
{
    int64_t padding = options_of(t)->padding_index;
    return id == (padding < 0 && padding != TG_NO_PADDING ? padding + count_rows(t) : padding);
}

/* Draw the options, the ids and the table. */
void draw_options(trial *t, int64_t rows);
void draw_ids(trial *t, tg_shape shape, int64_t rows);
void draw_table(trial *t, int64_t rows);

/* Whether the ids, the table and the options of both ops are valid. */
bool is_valid_lookup(const trial *t);

/* Scales the rows that the ids name by max_norm / (norm + 1e-7), as torch does, and compares the table with the
 * library's. Further formulas use the library's rows, so that equal values remain equal. Without recording the table
 * keeps its values, and only the result has the scaled rows. */
void scale_table(trial *t);

/* Adds a value of the gradient of the row that id number i names. Padding and frozen rows have none. */
void add_to_row(trial *t, int64_t i, int64_t c, double dy);

/* A gradient by rows lists rows that an id names, each once. Later it may become dense. */
void check_rows(trial *t);

/* ---- tg_embedding_bag (bags.c) ---- */

int64_t count_bags(const trial *t);
void draw_embedding_bag(trial *t);
bool is_valid_bag(const trial *t);
tg_tensor *call_embedding_bag(trial *t);
void bag_forward(trial *t);
void bag_backward(trial *t);

#endif
