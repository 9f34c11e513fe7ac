/* deferred: Adam and AdamW for tables, with the time of the rows that a step uses.
 *
 * In a step in which a row has no gradient, Adam moves it, too, but in a way that is known in advance. Let x, m and v
 * be an element after step s, and let it have no gradient in the steps s+1 .. T. In step t = s + j
 *
 *   m = beta1^j m,   v = beta2^j v,   x = d_t x - a_t m / (sqrt(v) / c_t + eps)         m, v: those of step s, scaled
 *
 * with the decay factor d_t = 1 - lr weight_decay of AdamW, a_t = lr / (1 - beta1^t) and c_t = sqrt(1 - beta2^t). With
 * q = beta1 / sqrt(beta2), u_t = c_t / sqrt(beta2)^j, and the m and v of step s, the subtrahend is
 *
 *   a_t c_t q^j m / (sqrt(v) + eps u_t)
 *
 * Only sqrt(v) + eps u_t combines the element with t. u_t changes little while q^j is not small. For any fixed u0,
 *
 *   1 / (sqrt(v) + eps u_t) = 1/den sum_k (-p)^k (u_t/u0 - 1)^k,    den = sqrt(v) + eps u0,   p = eps u0 / den < 1
 *
 * So all missed steps together are one formula, whose sums S_k depend on s and T, but not on the element:
 *
 *   x = D x - m / den sum_k (-p)^k D S_k,   D = d_{s+1} ... d_T,   S_k = sum_t a_t c_t q^j (u_t/u0 - 1)^k / D_t
 *
 * where D_t is the product of d up to step t. Eight terms suffice, S_8 bounds the error, and an element for which it is
 * too large, because eps is not small beside sqrt(v) in the first steps of a training, is replayed (deferred_rows.c).
 *
 * The log has one entry per step s, with S_k for the present T. A step adds its terms to the last `window` entries: q^j
 * is negligible in older ones, whose sums are complete. No sum is a difference of larger sums.
 *
 * Each step also applies the steps of the next ROWS_PER_STEP rows of the table, in turn. So no row misses more than
 * rows / ROWS_PER_STEP steps, and the log has a fixed size.
 *
 * While rows have missed steps, the storages of x, m and v refer to the tg_missed_steps here. Making up steps is no
 * modification for the versions of the tape: nothing recorded can have read the rows that it changes.
 */
#include "optim/deferred.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"

#define ROWS_PER_STEP 8
#define PENDING_ROWS 1024

/* The largest q. Its window has 8900 steps in f32 and 17000 in f64. */
#define LARGEST_Q 0.9975

typedef struct pending_row {
    int32_t row;
    uint32_t age; /* the number of missed steps */
} pending_row;

struct tg_deferred {
    tg_missed_steps missed; /* must be the first */
    tg_optim *optim;
    tg_slot *slot;
    double beta1, beta2, eps, tolerance;
    tg_make_up_kernel *kernel;
    int64_t rows, next_row; /* next_row: the row whose turn it is */
    uint32_t *last;         /* of each row: the number of the last step that it has made */
    uint32_t now;           /* the number of the last step, modulo 2^32; counts only steps in the log */
    tg_logged_step *log;    /* the entry of step s is log[s & mask] */
    uint32_t mask, logged;  /* logged: the number of steps since a flush, at most mask */
    uint32_t window;
    double *weight, *growth; /* q^j and 1 / sqrt(beta2)^j for j <= window */
    pending_row pending[PENDING_ROWS];
};

/* ---- making up steps ---- */

static tg_gap gap_of(const tg_deferred *d, uint32_t age)
{
    uint32_t step = d->now - age, replayed = age < d->window ? age : d->window;
    const tg_logged_step *from = &d->log[step & d->mask], *to = &d->log[d->now & d->mask];
    tg_gap gap = {.decay = to->decay / from->decay,
                  .first = pow(d->beta1, age),
                  .second = pow(d->beta2, age),
                  .offset = d->eps * from->center,
                  .limit = 1,
                  .log = d->log,
                  .first_step = step + 1,
                  .steps = replayed,
                  .mask = d->mask,
                  .beta1 = d->beta1,
                  .beta2 = d->beta2,
                  .eps = d->eps,
                  .rest = to->decay / d->log[(step + replayed) & d->mask].decay};
    const double *sums = from->sums, bound = sums[TG_DEFERRED_TERMS], allowed = d->tolerance * sums[0];
    int terms = TG_DEFERRED_TERMS;
    if (!(bound <= allowed)) {
        bool fits = bound * to->decay < 1e30;
        gap.limit = fits ? allowed / bound : 0;
        terms = fits ? terms : 1; /* sums that do not fit into a float: every element with a moment is replayed */
    }
    for (int k = 0; k < terms; k++) {
        gap.terms[k] = sums[k] * to->decay;
    }
    return gap;
}

static void make_up_pending(void *context, int64_t begin, int64_t end)
{
    const tg_deferred *d = context;
    const tg_tensor *x = d->slot->tensor;
    const uint8_t *frozen = tg_has_frozen_rows(x) ? x->rows->frozen : NULL;
    int64_t width = x->shape[1];
    size_t bytes = (size_t)width * tg_size_of(x->dtype);
    char *theta = tg_values(x), *m = tg_values(d->slot->state[0]), *v = tg_values(d->slot->state[1]);
    for (int64_t i = begin; i < end; i++) {
        size_t at = (size_t)d->pending[i].row * bytes;
        if (!frozen || !frozen[d->pending[i].row]) {
            tg_gap gap = gap_of(d, d->pending[i].age);
            d->kernel(&gap, theta + at, m + at, v + at, width);
        }
    }
}

/* Applies the steps of the rows ids[0 .. count), or, if `ids` is NULL, of the rows first .. first + count - 1. Threads
 * divide the rows of a list without repetitions. */
static void make_up_rows(tg_deferred *d, const int32_t *ids, int64_t first, int64_t count)
{
    int64_t listed = 0, grain = 1 + TG_GRAIN / (d->slot->tensor->shape[1] + 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ids ? ids[i] : first + i;
        if (d->last[row] != d->now) {
            d->pending[listed++] = (pending_row){(int32_t)row, d->now - d->last[row]};
            d->last[row] = d->now;
        }
        if (listed == PENDING_ROWS || i == count - 1) {
            tg_parallel_for(listed, grain, make_up_pending, d);
            listed = 0;
        }
    }
}

static void make_up_ids(tg_missed_steps *missed, const int32_t *ids, int64_t count)
{
    make_up_rows((tg_deferred *)missed, ids, 0, count);
}

static void set_missed(const tg_deferred *d, tg_missed_steps *missed)
{
    d->slot->tensor->storage->missed = missed;
    d->slot->state[0]->storage->missed = missed;
    d->slot->state[1]->storage->missed = missed;
}

bool tg_deferred_is_behind(const tg_deferred *d)
{
    return d && d->slot->tensor->storage->missed == &d->missed;
}

void tg_deferred_flush(tg_deferred *d)
{
    if (tg_deferred_is_behind(d)) {
        make_up_rows(d, NULL, 0, d->rows);
        set_missed(d, NULL);
    }
}

/* ---- the log ---- */

/* Returns an entry without later steps, for step number `steps` of the parameter. */
static tg_logged_step entry_of(const tg_deferred *d, int64_t steps)
{
    /* u at the mean age of the sum of q^j */
    double age = 1 / (1 - d->beta1 / sqrt(d->beta2));
    return (tg_logged_step){.decay = 1,
                            .center = sqrt(1 - pow(d->beta2, (double)steps + age)) * pow(d->beta2, -0.5 * age)};
}

/* Adds the terms of the last step to the sums of the entries before it. */
static void add_terms(tg_deferred *d, const tg_logged_step *last)
{
    uint32_t reach = d->logged < d->window ? d->logged : d->window;
    for (uint32_t j = 1; j <= reach; j++) {
        tg_logged_step *entry = &d->log[(d->now - j) & d->mask];
        double distance = last->correction * d->growth[j] / entry->center - 1;
        double term = last->step_size * last->correction * d->weight[j] / last->decay;
        for (int k = 0; k <= TG_DEFERRED_TERMS; k++) {
            entry->sums[k] += term;
            term *= distance;
        }
    }
}

/* Divides all products of decay factors by the last one, before they become subnormal. */
static void rescale(tg_deferred *d)
{
    double last = d->log[d->now & d->mask].decay;
    if (last > 0x1p-200) {
        return;
    }
    for (uint32_t j = 0; j <= d->logged; j++) {
        tg_logged_step *entry = &d->log[(d->now - j) & d->mask];
        entry->decay /= last;
        for (int k = 0; k <= TG_DEFERRED_TERMS; k++) {
            entry->sums[k] *= last;
        }
    }
}

bool tg_deferred_accepts(const double *factors)
{
    return factors[TG_ADAM_DECAY_FACTOR] >= 0.5 && factors[TG_ADAM_WEIGHT_DECAY] == 0;
}

void tg_deferred_begin_step(tg_deferred *d, const int32_t *ids, int64_t count)
{
    if (tg_deferred_is_behind(d)) {
        make_up_rows(d, ids, 0, count);
    } else {
        d->logged = 0;
        d->log[d->now & d->mask] = entry_of(d, d->slot->steps - 1);
    }
}

void tg_deferred_end_step(tg_deferred *d, const double *factors, const int32_t *ids, int64_t count)
{
    tg_logged_step entry = entry_of(d, d->slot->steps);
    entry.decay_factor = factors[TG_ADAM_DECAY_FACTOR];
    entry.correction = factors[TG_ADAM_ROOT_CORRECTION];
    entry.step_size = factors[TG_ADAM_STEP_SIZE];
    entry.decay = entry.decay_factor * d->log[d->now & d->mask].decay;
    d->now++;
    d->logged += d->logged < d->mask;
    d->log[d->now & d->mask] = entry;
    add_terms(d, &entry);
    rescale(d);
    for (int64_t i = 0; i < count; i++) {
        d->last[ids[i]] = d->now;
    }
    int64_t turn = d->rows - d->next_row < ROWS_PER_STEP ? d->rows - d->next_row : ROWS_PER_STEP;
    make_up_rows(d, NULL, d->next_row, turn);
    d->next_row = d->next_row + turn < d->rows ? d->next_row + turn : 0;
    set_missed(d, &d->missed);
}

/* ---- constructor ---- */

bool tg_deferred_check(tg_params *params, const char *method, const tg_adam_config *config)
{
    double q = config->beta1 / sqrt(config->beta2);
    if (config->amsgrad || !(config->eps > 0)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: deferred with %s", method,
                              config->amsgrad ? "amsgrad; allowed is Adam without amsgrad"
                                              : "eps 0; allowed are numbers above 0");
    }
    if (!(q <= LARGEST_Q)) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: deferred with beta1 %g and beta2 %g; beta1 / sqrt(beta2) must be at most %g", method,
                              config->beta1, config->beta2, LARGEST_Q);
    }
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind == TG_ENTRY_ALIAS && tg_tensor_rank(entry.tensor) == 2) {
            return tg_params_fail(params, TG_ERROR_STATE,
                                  "%s: deferred, but '%.200s' is tied to another name; a tied table is read as a whole "
                                  "in each step, so no step can be deferred",
                                  method, entry.name);
        }
    }
    return true;
}

bool tg_deferred_is_possible(const tg_tensor *x)
{
    return x->rank == 2 && x->count > 0 && x->shape[0] <= INT32_MAX;
}

static bool make_powers(tg_deferred *d)
{
    double q = d->beta1 / sqrt(d->beta2);
    /* q^window is negligible beside 1 in the table's dtype. */
    double bits = tg_dtype_of(d->slot->tensor) == TG_F32 ? 32 : 60;
    d->window = q > 0 ? (uint32_t)ceil(bits * log(0.5) / log(q)) + 1 : 1;
    d->weight = tg_alloc(d->window + 1, sizeof *d->weight);
    d->growth = tg_alloc(d->window + 1, sizeof *d->growth);
    for (uint32_t j = 0; d->weight && d->growth && j <= d->window; j++) {
        d->weight[j] = pow(q, j);
        d->growth[j] = pow(d->beta2, -0.5 * j);
    }
    return d->weight && d->growth;
}

tg_deferred *tg_deferred_new(tg_optim *optim, tg_slot *slot, const tg_adam_config *config)
{
    static tg_make_up_kernel *const f32[] = {TG_EACH_LEVEL(tg_make_up_f32)}, *const f64[] = {
                                                                                 TG_EACH_LEVEL(tg_make_up_f64)};
    tg_deferred *d = tg_alloc_zeroed(1, sizeof *d);
    if (!d) {
        return NULL;
    }
    bool is_f32 = tg_dtype_of(slot->tensor) == TG_F32;
    d->missed = (tg_missed_steps){slot->tensor, slot->name, &optim->error, make_up_ids};
    d->optim = optim;
    d->slot = slot;
    d->beta1 = config->beta1;
    d->beta2 = config->beta2;
    d->eps = config->eps;
    d->tolerance = ldexp(1, is_f32 ? -24 : -44);
    d->kernel = (is_f32 ? f32 : f64)[tg_level()];
    if (!make_powers(d) || !tg_deferred_resize(d, slot->tensor->shape[0])) {
        tg_deferred_free(d);
        return NULL;
    }
    return d;
}

void tg_deferred_free(tg_deferred *d)
{
    if (d) {
        tg_free(d->last);
        tg_free(d->log);
        tg_free(d->weight);
        tg_free(d->growth);
        tg_free(d);
    }
}

bool tg_deferred_resize(tg_deferred *d, int64_t rows)
{
    size_t capacity = 2;
    while ((int64_t)capacity < rows / ROWS_PER_STEP + 2) {
        capacity *= 2;
    }
    uint32_t *last = tg_alloc((uint64_t)rows, sizeof *last);
    tg_logged_step *log = tg_alloc(capacity, sizeof *log);
    if (!last || !log) {
        tg_free(last);
        tg_free(log);
        return false;
    }
    tg_free(d->last);
    tg_free(d->log);
    for (int64_t row = 0; row < rows; row++) {
        last[row] = d->now;
    }
    d->last = last;
    d->log = log;
    d->mask = (uint32_t)capacity - 1;
    d->rows = rows;
    d->next_row = 0;
    return true;
}
