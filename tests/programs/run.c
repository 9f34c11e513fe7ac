/* run: runs a program in one way. What the instructions compute goes to a log. */
#include <stdarg.h>
#include <string.h>

#include "../fuzz/fuzz.h"
#include "programs.h"

#include "../levels.h"
#include "tape/no_values.h"
#include "tensor/tensor.h"

/* ---- leaves and optimizers --------------------------------------------------------------------------------------- */

static void fill(tg_tensor *x, uint64_t seed)
{
    tg_tensor *numbers = tg_tensor_new(TG_F64, tg_tensor_shape(x), NULL);
    double *values = tg_tensor_data_mut(numbers);
    for (int64_t i = 0; i < tg_tensor_count(numbers); i++) {
        values[i] = number_of(seed, (uint64_t)i);
    }
    tg_tensor *cast = tg_tensor_new_cast(numbers, tg_tensor_dtype(x), NULL);
    fuzz_require(cast && tg_tensor_copy_from(x, cast, NULL), "a leaf cannot be filled");
    tg_release(cast);
    tg_release(numbers);
}

static void make_leaves(run *r)
{
    const program *p = r->p;
    const int64_t b = p->batch, t = p->time, c = p->width;
    const struct {
        const char *name;
        tg_shape shape;
    } leaves[LEAVES] = {
        {"x", TG_SHAPE(b, t, c)}, {"y", TG_SHAPE(b, t, c)}, {"weight", TG_SHAPE(c, c)}, {"table", TG_SHAPE(p->rows, c)},
        {"bias", TG_SHAPE(c)},    {"rows", TG_SHAPE(t, c)}, {"scalar", TG_SHAPE(1)},    {"kernel", TG_SHAPE(c, t, 2)},
    };
    r->params = tg_params_new(r->shared_run, r->s.dtype);
    for (int i = 0; i < LEAVES; i++) {
        r->value[i] = tg_params_add(r->params, leaves[i].name, leaves[i].shape);
    }
    if (p->has_modules) {
        tg_nn_recurrent_config recurrent = tg_nn_recurrent_config_default();
        recurrent.layers = 1 + (int)(p->seed % 2);
        recurrent.bidirectional = p->seed / 2 % 2;
        recurrent.dropout = p->seed / 4 % 2 ? 0.25 : 0;
        tg_nn_transformer_block_config block = tg_nn_transformer_block_config_default();
        block.dropout = p->seed / 8 % 2 ? 0.25 : 0;
        block.attention.path = r->s.is_elementary ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED;
        r->gru = tg_nn_gru_make(r->params, "gru", c, c, &recurrent);
        r->lstm = tg_nn_lstm_make(r->params, "lstm", c, c, &recurrent);
        r->block = tg_nn_transformer_block_make(r->params, "block", c, c % 2 == 0 ? 2 : 1, &block);
    }
    fuzz_require(tg_params_error(r->params)->code == TG_OK, "the leaves: %s", tg_params_error(r->params)->text);
    for (int64_t i = 0; i < tg_params_count(r->params); i++) {
        fill(tg_params_at(r->params, i).tensor, p->seed * 1000 + (uint64_t)i);
    }
}

static void make_optimizer(run *r)
{
    tg_sgd_config sgd = tg_sgd_config_default();
    tg_adam_config adam = tg_adam_config_default();
    tg_adamw_config adamw = tg_adamw_config_default();
    sgd.lr = 0.05;
    sgd.momentum = 0.9;
    adam.lr = adamw.lr = 0.01;
    sgd.deferred = adam.deferred = adamw.deferred = r->s.is_deferred;
    sgd.nesterov = r->p->seed % 2;
    sgd.weight_decay = r->p->seed / 2 % 2 ? 0.1 : 0;
    r->optim = r->p->optimizer == 0   ? NULL
               : r->p->optimizer == 1 ? tg_sgd_new(r->params, &sgd)
               : r->p->optimizer == 2 ? tg_adam_new(r->params, &adam)
                                      : tg_adamw_new(r->params, &adamw);
    fuzz_require(tg_params_error(r->params)->code == TG_OK, "the optimizer: %s", tg_params_error(r->params)->text);
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

bool is_reproducible;

void run_begin(run *r, const program *p, const settings *s, run_log *l)
{
    memset(r, 0, sizeof *r);
    r->p = p;
    r->s = *s;
    r->log = l;
    r->shared_run = tg_run_new(p->seed);
    fuzz_require(tg_set_threads(s->threads > 0 ? s->threads : 1, NULL), "tg_set_threads");
    make_leaves(r);
    make_optimizer(r);
    tg_tape_config config = tg_tape_config_default();
    config.recycle = s->recycles;
    config.detect_freed_results = s->detects_freed;
    for (int i = 0; i < TAPES; i++) {
        r->tape[i] = tg_tape_new(r->shared_run, &config);
        tg_tape_set_reproducible(r->tape[i], is_reproducible);
        fuzz_require(tg_tape_error(r->tape[i])->code == TG_OK, "a tape: %s", tg_tape_error(r->tape[i])->text);
    }
}

void run_end(run *r)
{
    tg_optim_free(r->optim);
    for (int i = 0; i < TAPES; i++) {
        tg_tape_free(r->tape[i]);
    }
    for (int i = 0; i < r->kept_count; i++) {
        tg_release(r->kept[i]);
    }
    for (int i = 0; i < MOST_INSTRUCTIONS; i++) {
        tg_rng_free(r->generators[i]);
    }
    tg_params_free(r->params);
    tg_run_free(r->shared_run);
}

void run_report(run *r, int i, const char *format, ...)
{
    char *text = r->log->broken;
    int length = snprintf(text, sizeof r->log->broken, "instruction %d: ", i);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof r->log->broken - (size_t)length, format, arguments);
    va_end(arguments);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Tries a read of a whole table that the missed steps forbid, and then applies them. */
static void flush_table(run *r, int i, tg_tensor *table)
{
    const instruction *in = &r->p->list[i];
    if (in->option[0] % 2) {
        tg_tensor *read = tg_neg(r->tape[in->tape], table);
        if (read || tg_tape_error(r->tape[in->tape])->code != TG_ERROR_STATE) {
            run_report(r, i, "a table with missed steps can be read");
        }
        tg_run_clear_error(tg_tape_run(r->tape[in->tape]));
    }
    if (r->optim && !tg_optim_flush(r->optim)) {
        run_report(r, i, "%s", tg_params_error(r->params)->text);
    }
}

static tg_tensor *call_operation(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    const operation *op = operation_at(in->operation);
    call c = {.run = r,
              .row = operation_row(in->operation),
              .tape = r->tape[in->tape],
              .option = in->option,
              .detail = r->detail};
    r->detail[0] = '\0';
    for (int k = 0; k < op->inputs; k++) {
        c.x[k] = r->value[in->input[k]];
        bool is_lookup = op->traits & IS_LOOKUP && tg_tape_is_recording(c.tape) && !r->s.copies_inputs;
        if (in->input[k] < LEAVES && c.x[k]->storage->guard && !is_lookup) {
            flush_table(r, i, c.x[k]);
        }
        bool is_copied = r->s.copies_inputs && (op->inputs > 1 || op->traits & IS_LOOKUP); /* a view stays one */
        /* a join of one does not use the other, which may have no values, or be of another tape */
        bool is_usable = tg_has_values(c.x[k]) && (!c.x[k]->owner || tg_tape_record_of(c.tape, c.x[k]) >= 0);
        c.x[k] = is_copied && is_usable ? tg_mul_scalar(c.tape, c.x[k], 1) : c.x[k];
    }
    return op->call(&c);
}

/* A gradient as an input. The copy is the tape's. */
static tg_tensor *gradient_of(run *r, const instruction *in)
{
    if (r->constants) {
        return r->value[in->input[0]]; /* of the right shape: constant_of gives the numbers */
    }
    tg_tensor *gradient = tg_tensor_grad(r->value[in->input[0]]);
    if (!gradient || !r->s.copies_gradients) {
        return gradient;
    }
    return tg_constant(r->tape[in->tape], r->s.dtype, tg_tensor_shape(gradient), tg_tensor_data(gradient));
}

/* For finite differences: a constant of the program does not change with the leaves. */
static tg_tensor *constant_of(run *r, int i, tg_tensor *x)
{
    const entry *e = log_find(r->constants, i, VALUE, LEAVES + i);
    if (!e || e->count < 0 || !x || tg_tensor_count(x) != e->count) {
        return NULL;
    }
    return tg_constant(r->tape[r->p->list[i].tape], TG_F64, tg_tensor_shape(x), r->constants->numbers + e->first);
}

static tg_code compute(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    tg_tape *t = r->tape[in->tape];
    tg_tensor *x = in->kind == GRADIENT ? gradient_of(r, in) : call_operation(r, i);
    tg_code code = tg_tape_error(t)->code;
    if (code == TG_OK && !x) {
        return TG_ERROR_STATE; /* no gradient */
    }
    r->value[LEAVES + i] = code == TG_OK ? x : NULL;
    r->value_tape[LEAVES + i] = in->tape;
    return code;
}

/* An operation of a dropped value. In variants that drop nothing, it is left out. */
static void call_dropped(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    const tg_tensor *x = r->value[in->input[0]];
    if (!r->s.has_spans || !x || !tg_is_dropped(x)) {
        return;
    }
    uint64_t position = tg_rng_position(tg_run_rng(r->shared_run));
    const tg_tensor *y = call_operation(r, i);
    const tg_error *error = tg_tape_error(r->tape[in->tape]);
    /* A shape or an axis may be refused first. A VALUE error has read values. A detached result has none, either. */
    bool is_refused = y ? tg_is_dropped(y) : error->code != TG_ERROR_VALUE;
    if (!is_refused || tg_rng_position(tg_run_rng(r->shared_run)) != position) {
        run_report(r, i, "a call that reads dropped values: %s", y ? "it succeeded" : error->text);
    }
    tg_run_clear_error(tg_tape_run(r->tape[in->tape]));
}

/* ---- one instruction --------------------------------------------------------------------------------------------- */

static tg_code attempt(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    tg_code code = in->kind == CALL || in->kind == GRADIENT ? compute(r, i) : run_step(r, i);
    if (code != TG_OK) {
        tg_run_clear_error(tg_tape_run(r->tape[in->tape]));
    }
    return code;
}

/* Returns whether the program retains the gradient of the same value more than once. */
static bool is_retained_again(const program *p, const instruction *in)
{
    int found = 0;
    for (int i = 0; i < p->count; i++) {
        found += p->list[i].kind == RETAIN_GRADIENT && p->list[i].input[0] == in->input[0];
    }
    return found > 1;
}

/* Returns whether the instruction is not tried again after its allocation has failed: the end of a span closes it even
 * so, and a result does without the gradient that it should retain, unless it retains it later: then the gradient would
 * lack the passes in between. */
static bool stays_failed(const program *p, const instruction *in)
{
    return in->kind == END_SPAN || (in->kind == RETAIN_GRADIENT && in->option[2] % 2 && !is_left_out("failed_retain") &&
                                    !is_retained_again(p, in));
}

/* Runs an instruction while an allocation fails, and, if it reports that, once more. */
static tg_code attempt_without_memory(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    tg_rng *before = tg_rng_new(0);
    tg_rng_copy(before, tg_run_rng(r->shared_run));
    fuzz_memory_fail((uint64_t)in->fails_at, in->option[3] % 2);
    tg_code code = attempt(r, i);
    fuzz_memory_fail(0, false);
    if (code == TG_ERROR_MEMORY) {
        bool draws_first = in->kind == CALL && operation_at(in->operation)->traits & DRAWS_FIRST;
        if (!draws_first && tg_rng_position(tg_run_rng(r->shared_run)) != tg_rng_position(before)) {
            run_report(r, i, "a call that failed has drawn");
        }
        tg_rng_copy(tg_run_rng(r->shared_run), before);
        code = stays_failed(r->p, in) ? in->expected : attempt(r, i);
    }
    tg_rng_free(before);
    return code;
}

/* Logs what an instruction has computed. */
static void log_results(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    if (in->kind == CALL || in->kind == GRADIENT) {
        log_tensor(r->log, i, VALUE, LEAVES + i, r->value[LEAVES + i]);
    } else if (in->kind == BACKWARD) {
        log_leaves(r, i, true);
    }
}

tg_code run_instruction(run *r, int i)
{
    const instruction *in = &r->p->list[i];
    if (in->kind == CALL_DROPPED) {
        call_dropped(r, i);
        return TG_OK;
    }
    if (in->kind == CALL && in->expected != TG_OK && (r->s.is_elementary || r->s.copies_inputs)) {
        return in->expected; /* the other ops may succeed */
    }
    r->first_gradient = in->kind == BACKWARD ? make_first_gradient(r, in) : NULL;
    tg_rng *before = tg_rng_new(0);
    tg_rng_copy(before, tg_run_rng(r->shared_run));
    tg_code code = r->s.fails && in->fails_at > 0 ? attempt_without_memory(r, i) : attempt(r, i);
    if (in->kind == CALL && in->expected != TG_OK && operation_at(in->operation)->traits & DRAWS_FIRST) {
        tg_rng_copy(tg_run_rng(r->shared_run), before); /* a variant that does not make the call draws nothing */
    }
    tg_rng_free(before);
    tg_release(r->first_gradient);
    if (r->s.fails && in->kind == END_SPAN && code == TG_ERROR_MEMORY) {
        code = TG_OK; /* a call of the span had no memory for the state of the generator; nothing is dropped */
    }
    if (code == TG_OK && r->constants && in->is_constant && in->kind <= GRADIENT) {
        r->value[LEAVES + i] = constant_of(r, i, r->value[LEAVES + i]);
    }
    if (code == TG_OK && !r->constants) {
        log_results(r, i);
    }
    return code;
}

/* ---- a whole program --------------------------------------------------------------------------------------------- */

void run_all(run *r)
{
    const program *p = r->p;
    run_log *l = r->log;
    for (int i = 0; i < p->count && !l->is_cut && !l->broken[0]; i++) {
        tg_code code = run_instruction(r, i);
        if (code == TG_ERROR_STATE && p->list[i].kind == BACKWARD && p->list[i].may_be_refused) {
            l->is_cut = true;
        } else if (code != p->list[i].expected) {
            log_number(l, i, OUTCOME, (int)code, code);
            return;
        }
    }
    if (!l->is_cut && !l->broken[0]) {
        log_end(r);
    }
}

/* Begins the program again, with new leaves and a new optimizer on the same tapes. */
static void begin_again(run *r)
{
    tg_tape *tape[TAPES] = {r->tape[0], r->tape[1]};
    tg_run *shared_run = r->shared_run;
    r->tape[0] = r->tape[1] = NULL;
    r->shared_run = NULL;
    run_end(r);
    log_clear(r->log);
    settings s = r->s;
    run_begin(r, r->p, &s, r->log);
    for (int i = 0; i < TAPES; i++) {
        tg_tape_free(r->tape[i]);
        r->tape[i] = tape[i];
        tg_tape_reset(tape[i]);
        tg_tape_set_recording(tape[i], true);
    }
    tg_rng_copy(tg_run_rng(shared_run), tg_run_rng(r->shared_run)); /* the one from which the tapes draw */
    tg_run_free(r->shared_run);
    r->shared_run = shared_run;
}

void run_program(const program *p, const settings *s, run_log *l)
{
    static run r;
    static int highest = -1;
    tg_error error = TG_NO_ERROR;
    highest = highest < 0 ? (int)tg_get_cpu_level() : highest;
    int lowest = is_reproducible ? TG_CPU_BASELINE : lowest_fused_level();
    tg_cpu_level level = (tg_cpu_level)(s->is_baseline ? lowest : highest);
    fuzz_require(tg_set_cpu_level(level, &error), "%s", error.text);
    fuzz_memory_begin();
    log_clear(l);
    run_begin(&r, p, s, l);
    run_all(&r);
    if (s->runs_twice) {
        begin_again(&r);
        run_all(&r);
    }
    run_end(&r);
    fuzz_memory_end();
}
