/* The instructions that compute no value: scopes, spans, backward, steps of the optimizer, and resets. */
#include "../fuzz/fuzz.h"
#include "programs.h"
#include "tensor/tensor.h"

/* ---- logs of many tensors ---- */

void log_leaves(run *r, int i, bool gradients)
{
    for (int64_t k = 0; k < tg_params_count(r->params); k++) {
        const tg_tensor *x = tg_params_at(r->params, k).tensor;
        if (gradients) {
            tg_tensor *gradient = tg_tensor_grad_kind(x) == TG_GRAD_NONE ? NULL : tg_tensor_new_dense_grad(x, NULL);
            log_tensor(r->log, i, LEAF_GRADIENT, (int)k, gradient);
            tg_release(gradient);
        } else {
            log_tensor(r->log, i, LEAF, (int)k, x);
        }
    }
}

/* The values that are left, once more, and the gradients of results. Those of a result that failed to retain it are
 * absent. */
static void log_values(run *r, int i)
{
    for (int v = LEAVES; v < MOST_VALUES; v++) {
        const tg_tensor *x = r->value[v];
        if (x && x->storage && !x->storage->guard && !r->p->list[v - LEAVES].may_be_refused) {
            log_tensor(r->log, i, VALUE_AGAIN, v, x);
        } else {
            log_tensor(r->log, i, VALUE_AGAIN, v, NULL);
        }
        log_tensor(r->log, i, VALUE_GRADIENT, v, x && r->retains[v] ? tg_tensor_grad(x) : NULL);
    }
}

static void read_all(run *r, int i)
{
    if (r->optim && !tg_optim_flush(r->optim)) {
        run_report(r, i, "flush: %s", tg_params_error(r->params)->text);
        return;
    }
    log_leaves(r, i, false);
    for (int64_t k = 0; r->optim && tg_optim_state_at(r->optim, k).tensor; k++) {
        log_tensor(r->log, i, MOMENT, (int)k, tg_optim_state_at(r->optim, k).tensor);
    }
}

void log_end(run *r)
{
    log_values(r, r->p->count);
    read_all(r, r->p->count);
}

/* ---- scopes and spans ---- */

static void end_scope(run *r, const instruction *in)
{
    tg_tensor *keep = in->input[0] < 0 ? NULL : r->value[in->input[0]];
    int first = r->scope_first[in->tape][--r->scope_count[in->tape]];
    for (int v = first; v < MOST_VALUES; v++) {
        const tg_tensor *x = r->value[v];
        bool is_freed = x && r->value_tape[v] == in->tape && x->node < 0 && x != keep;
        for (int k = 0; k < r->kept_count; k++) {
            is_freed &= r->kept_value[k] != v;
        }
        r->value[v] = is_freed ? NULL : r->value[v];
    }
    tg_scope_end(r->tape[in->tape], keep);
}

/* ---- backward ---- */

tg_tensor *make_first_gradient(const run *r, const instruction *in)
{
    const tg_tensor *result = r->value[in->input[0]];
    if (!result) {
        return NULL;
    }
    tg_tensor *gradient = tg_tensor_new(TG_F64, tg_tensor_shape(result), NULL);
    double *numbers = tg_tensor_data_mut(gradient);
    for (int64_t k = 0; k < tg_tensor_count(gradient); k++) {
        numbers[k] = number_of(in->option[0], (uint64_t)k);
    }
    tg_tensor *cast = tg_tensor_new_cast(gradient, r->s.dtype, NULL);
    tg_release(gradient);
    return cast;
}

static void backward(run *r, const instruction *in)
{
    tg_tensor *result = r->value[in->input[0]];
    if (r->constants) {
        for (int64_t k = 0; k < tg_tensor_count(result); k++) {
            r->projected += tg_tensor_value_at(result, k) * tg_tensor_value_at(r->first_gradient, k);
        }
        return;
    }
    tg_backward_config config = tg_backward_config_default();
    config.retain_graph = in->option[1] % 2;
    config.gradient = r->first_gradient;
    tg_backward(r->tape[in->tape], result, &config);
}

/* ---- steps and resets ---- */

static tg_code step(run *r, int i)
{
    if (r->s.has_dense_rows) {
        for (int64_t k = 0; k < tg_params_count(r->params); k++) {
            tg_tensor *x = tg_params_at(r->params, k).tensor;
            if (tg_tensor_grad_kind(x) == TG_GRAD_ROWS) {
                fuzz_require(tg_tensor_make_grad_dense(x, NULL), "make_grad_dense");
            }
        }
    }
    if (!tg_optim_step(r->optim)) {
        tg_code code = tg_params_error(r->params)->code;
        tg_run_clear_error(tg_params_run(r->params));
        return code;
    }
    if (r->p->list[i].option[0] % 3 == 0) {
        read_all(r, i);
    }
    return TG_OK;
}

/* Changes the number of rows. New rows get values, because zeros may be a kink. */
static tg_code resize_table(run *r, int64_t rows)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *table = r->value[LEAF_TABLE];
    int64_t first = tg_tensor_count(table);
    if ((r->optim && !tg_optim_flush(r->optim)) || !tg_tensor_resize_rows(table, rows, &error)) {
        return r->optim && error.code == TG_OK ? tg_params_error(r->params)->code : error.code;
    }
    void *values = tg_tensor_data_mut(table);
    for (int64_t k = first; k < tg_tensor_count(table); k++) {
        double value = number_of(r->p->seed, (uint64_t)k);
        if (r->s.dtype == TG_F32) {
            ((float *)values)[k] = (float)value;
        } else {
            ((double *)values)[k] = value;
        }
    }
    return TG_OK;
}

static tg_code reset(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    bool is_first = i == 0;
    if (!is_first) {
        log_values(r, i);
    }
    for (int k = 0; k < TAPES; k++) {
        tg_tape_reset(r->tape[k]);
        tg_tape_set_recording(r->tape[k], true);
        r->scope_count[k] = 0;
    }
    for (int k = 0; k < r->kept_count; k++) {
        /* a retained result outlives the reset, without its history; a view of a table may have missed steps */
        log_tensor(r->log, i, VALUE_AGAIN, r->kept_value[k], r->kept[k]->storage->guard ? NULL : r->kept[k]);
        tg_release(r->kept[k]);
    }
    r->kept_count = 0;
    for (int v = LEAVES; v < MOST_VALUES; v++) {
        r->value[v] = NULL;
        r->retains[v] = false;
    }
    tg_code code = TG_OK;
    bool resizes = !is_first && in->option[0] % 4 == 0;
    if (resizes || in->option[1] % 4 > 0) {
        for (int64_t k = 0; k < tg_params_count(r->params); k++) {
            tg_tensor_zero_grad(tg_params_at(r->params, k).tensor);
        }
    }
    if (resizes) {
        code = resize_table(r, 1 + (int64_t)(in->option[2] % (unsigned)(2 * r->p->rows)));
    }
    if (r->s.has_snapshots) {
        log_leaves(r, i, false);
        log_leaves(r, i, true);
        r->generators[i] = tg_rng_new(0);
        tg_rng_copy(r->generators[i], tg_run_rng(r->shared_run));
    }
    return code;
}

tg_code run_step(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    tg_tape *t = r->tape[in->tape];
    tg_tensor *x = in->input[0] < 0 ? NULL : r->value[in->input[0]];
    switch (in->kind) {
    case BEGIN_SCOPE:
        if (tg_scope_begin(t)) {
            r->scope_first[in->tape][r->scope_count[in->tape]++] = LEAVES + i;
        }
        break;
    case END_SCOPE: end_scope(r, in); break;
    case BEGIN_SPAN:
        if (r->s.has_spans) {
            tg_activation_checkpoint_begin(t);
        }
        break;
    case END_SPAN:
        if (r->s.has_spans) {
            tg_activation_checkpoint_end(t, x);
        }
        break;
    case RECORDING: tg_tape_set_recording(t, in->option[0] % 2); break;
    case KEEP:
        r->kept_value[r->kept_count] = in->input[0];
        r->kept[r->kept_count++] = tg_retain(x);
        break;
    case RETAIN_GRADIENT:
        if (!r->constants) {
            r->retains[in->input[0]] |= tg_retain_grad(t, x);
        }
        break;
    case BACKWARD: backward(r, in); break;
    case STEP: return step(r, i);
    case RESET: return reset(r, i);
    default: break;
    }
    return tg_tape_error(t)->code;
}
