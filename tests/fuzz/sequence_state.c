/* Hashes of the state that a failed call must leave unchanged: FNV-1a over words of 64 bits. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "optim/optim.h"
#include "sequence.h"
#include "tape/tape.h"

#ifdef __clang__
/* The fuzzer looks for new paths in the library, not in the hashes. */
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function)
#endif

static void add(uint64_t *hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = size;
        memcpy(&word, (const char *)bytes + i, size - i < 8 ? size - i : 8);
        *hash = (*hash ^ word) * UINT64_C(1099511628211);
        *hash ^= *hash >> 32;
    }
}

static void add_number(uint64_t *hash, int64_t number)
{
    add(hash, &number, sizeof number);
}

static void add_text(uint64_t *hash, const char *text)
{
    add(hash, text, strlen(text) + 1);
}

/* Gives the NaNs of a list of floats the same bits. */
static void normalize(void *values, tg_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == TG_F32) {
            float *x = (float *)values + i;
            *x = *x == *x ? *x : (float)NAN;
        } else if (dtype == TG_F64) {
            double *x = (double *)values + i;
            *x = *x == *x ? *x : (double)NAN;
        }
    }
}

/* The values in row-major order. A tensor with more than MAX_VALUES, as an expanded view may have, is left out, and so
 * is a result whose values a span has dropped. */
static void add_values(uint64_t *hash, const tg_tensor *x)
{
    static double buffer[MAX_VALUES];
    if (x->count <= MAX_VALUES && !tg_is_dropped(x)) {
        tg_copy_to_contiguous(x, buffer);
        if (prints_bits) {
            normalize(buffer, x->dtype, x->count);
        }
        add(hash, buffer, tg_bytes_of(x));
    }
}

static void add_gradient(uint64_t *hash, const tg_tensor *x)
{
    add_number(hash, tg_tensor_grad_kind(x));
    if (tg_tensor_grad(x)) {
        add_values(hash, tg_tensor_grad(x));
    }
    tg_grad_rows rows = tg_tensor_grad_rows(x);
    add_number(hash, rows.count);
    if (rows.count > 0) {
        add(hash, rows.ids, (size_t)rows.count * sizeof *rows.ids);
        size_t bytes = (size_t)(rows.count * rows.width) * tg_size_of(x->dtype);
        const void *values = rows.values;
        static double copy[MAX_VALUES];
        if (prints_bits && bytes <= sizeof copy) {
            memcpy(copy, values, bytes);
            normalize(copy, x->dtype, rows.count * rows.width);
            values = copy;
        }
        add(hash, values, bytes);
    }
}

static void add_rows(uint64_t *hash, const tg_tensor *x)
{
    bool has_state = x->rows && (x->rows->frozen_count > 0 || x->rows->updates);
    int64_t rows = has_state && x->shape[0] <= MAX_VALUES ? x->shape[0] : 0;
    for (int64_t row = 0; row < rows; row++) {
        tg_row_updates updates = tg_tensor_row_updates(x, row);
        add_number(hash, tg_tensor_row_is_frozen(x, row));
        add_number(hash, updates.count);
        add_number(hash, updates.last_step);
    }
    add_number(hash, x->rows && x->rows->updates);
}

static void add_tensor(state *s, const tg_tensor *x)
{
    add_values(&s->hash[VALUES], x);
    add_number(&s->hash[VERSIONS], (int64_t)tg_storage_version(x));
    add_number(&s->hash[VERSIONS], x->dtype);
    add(&s->hash[VERSIONS], x->shape, x->rank * sizeof *x->shape);
    add(&s->hash[VERSIONS], x->strides, x->rank * sizeof *x->strides);
    add_number(&s->hash[VERSIONS], x->offset);
    add_number(&s->hash[VERSIONS], x->requires_grad);
    add_number(&s->hash[VERSIONS], x->node);
    add_number(&s->hash[VERSIONS], (int64_t)(uintptr_t)x->storage);
    add_gradient(&s->hash[GRADIENTS], x);
    add_rows(&s->hash[ROW_STATES], x);
}

static void add_tape(uint64_t *hash, const tg_tape *t)
{
    const size_t counts[] = {t->record_count, t->tensor_count, t->attribute_bytes, t->result_count, t->scope_count};
    add(hash, counts, sizeof counts);
    add_number(hash, t->recording);
    add_number(hash, t->training);
    for (size_t i = 0; i < t->record_count; i++) {
        add_number(hash, t->records[i].freed);
        add_number(hash, t->records[i].saved != NULL);
    }
    for (size_t i = 0; i < t->result_count; i++) {
        add_number(hash, (int64_t)(uintptr_t)t->results[i].tensor);
    }
}

static void add_generator(uint64_t *hash, const tg_rng *rng)
{
    add(hash, rng->words, sizeof rng->words);
    add_number(hash, rng->used);
    add_number(hash, rng->profile);
    add_number(hash, (int64_t)rng->position);
    add_number(hash, rng->has_normal);
    if (rng->has_normal) {
        add(hash, &rng->normal, sizeof rng->normal);
    }
}

static void add_optimizer(uint64_t *hash, const tg_optim *optim)
{
    add_number(hash, (int64_t)(uintptr_t)optim);
    for (size_t i = 0; optim && i < optim->group_count; i++) {
        add_text(hash, optim->groups[i].name);
        add(hash, &optim->groups[i].lr, sizeof optim->groups[i].lr);
        add(hash, &optim->groups[i].weight_decay, sizeof optim->groups[i].weight_decay);
    }
    for (int64_t i = 0; optim && i < optim->count; i++) {
        add_number(hash, optim->slots[i].steps);
        add_number(hash, (int64_t)optim->slots[i].group);
        for (int k = 0; k < optim->states; k++) {
            add_values(hash, optim->slots[i].state[k]);
        }
    }
}

state state_of(const program *p)
{
    state s;
    for (int i = 0; i < PARTS; i++) {
        s.hash[i] = UINT64_C(14695981039346656037);
    }
    for (int i = 0; i < p->owned_count; i++) {
        add_tensor(&s, p->owned[i]);
    }
    for (int i = 0; i < p->result_count; i++) {
        add_tensor(&s, p->results[i]);
    }
    add_number(&s.hash[PARAMS], tg_params_count(p->params));
    for (int64_t i = 0; i < tg_params_count(p->params); i++) {
        tg_entry entry = tg_params_at(p->params, i);
        add_text(&s.hash[PARAMS], entry.name);
        add_number(&s.hash[PARAMS], entry.kind);
        add_tensor(&s, entry.tensor);
    }
    add_generator(&s.hash[GENERATOR], tg_run_rng(p->run));
    add_tape(&s.hash[TAPE], p->tape);
    add_optimizer(&s.hash[OPTIMIZER], p->optim);
    add_number(&s.hash[MODELS], tg_kv_cache_length(p->cache));
    const tg_gpt_config *config = tg_gpt_get_config(p->gpt);
    add_number(&s.hash[MODELS], config ? config->vocabulary : 0);
    add_number(&s.hash[MODELS], config ? config->context : 0);
    return s;
}

#ifdef __clang__
#pragma clang attribute pop
#endif
