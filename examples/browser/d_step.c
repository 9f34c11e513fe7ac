/* d: one training step. The loss pulls the looked-up rows toward zero: loss = sum of the squares of all looked-up
 * numbers, so dy = 2 y. The gradient of a lookup adds each row of dy to the table's row of its id. */
#include "station.h"

#include <string.h>

enum { ROWS = 6, WIDTH = 3, SGD = 0, ADAM = 1, DEFERRED = 2, MOST_STEPS = 20 };

static const double rate = 0.1;

typedef struct table {
    tg_run *run;
    tg_params *params;
    tg_nn_embedding embedding;
    tg_optim *optim;
    tg_tape *tape;
} table;

static table table_make(int method)
{
    table m = {.run = tg_run_new(123)};
    m.params = tg_params_new(m.run, TG_F32);
    m.embedding = tg_nn_embedding_make(m.params, "embedding", ROWS, WIDTH, NULL);
    if (method == SGD) {
        tg_sgd_config config = tg_sgd_config_default();
        config.lr = rate;
        m.optim = tg_sgd_new(m.params, &config);
    } else {
        tg_adam_config config = tg_adam_config_default();
        config.lr = rate;
        config.deferred = method == DEFERRED;
        m.optim = tg_adam_new(m.params, &config);
    }
    m.tape = station_tape(m.run);
    return m;
}

static void table_free(table *m)
{
    tg_tape_free(m->tape);
    tg_optim_free(m->optim);
    tg_params_free(m->params);
    tg_run_free(m->run);
}

/* The forward and the backward pass; *rows receives what was looked up. */
static tg_tensor *differentiate(table *m, const int32_t *typed, int count, tg_tensor **rows)
{
    tg_tape *t = m->tape;
    tg_nn_embedding *embedding = &m->embedding;
    tg_optim *optim = m->optim;
    /* shown: step */
    tg_tape_reset(t);
    tg_tensor *ids = tg_constant_i32(t, TG_SHAPE(count), typed);
    tg_tensor *y = tg_nn_embedding_forward(t, embedding, ids);
    tg_tensor *loss = tg_mse_loss(t, y, tg_full(t, TG_F32, TG_SHAPE(count, WIDTH), 0), TG_REDUCTION_SUM);
    tg_retain_grad(t, y);
    tg_optim_zero_grad(optim);
    tg_backward(t, loss, NULL);
    /* end */
    *rows = y;
    return loss;
}

static void write_gradient(const tg_tensor *weight)
{
    tg_grad_rows rows = tg_tensor_grad_rows(weight);
    json_key("gradient");
    json_open('[');
    for (int64_t i = 0; i < rows.count; i++) {
        const float *g = (const float *)rows.values + i * rows.width;
        json_open('{');
        json_key("id");
        json_int(rows.ids[i]);
        json_key("values");
        json_open('[');
        for (int64_t k = 0; k < rows.width; k++) {
            json_figure((double)g[k], 4);
        }
        json_close(']');
        json_close('}');
    }
    json_close(']');
}

/* Writes the table after the steps, and which rows have the bits that they had before the last step. */
static void write_rows(const float *was, const tg_tensor *is)
{
    const float *values = tg_tensor_data(is);
    int same = 0;
    json_key("after");
    json_tensor(is, 4);
    json_key("same");
    json_open('[');
    for (int row = 0; row < ROWS; row++) {
        bool is_same = memcmp(was + row * WIDTH, values + row * WIDTH, WIDTH * sizeof *was) == 0;
        json_bool(is_same);
        same += is_same;
    }
    json_close(']');
    json_key("unchanged");
    json_int(same);
    json_key("changed");
    json_int(ROWS - same);
    json_key("bits");
    json_bits(is);
}

static bool steps(table *m, const int32_t *typed, int count, int64_t many, tg_error *error)
{
    float was[ROWS * WIDTH];
    tg_tensor *y = NULL, *loss = NULL;
    for (int64_t i = 0; i < many; i++) {
        if (i == many - 1) {
            tg_optim_flush(m->optim);
            memcpy(was, tg_tensor_data(m->embedding.weight), sizeof was);
            json_key("before");
            json_tensor(m->embedding.weight, 4);
        }
        /* from the second step on, only the first id is looked up: what do the other rows do? */
        loss = differentiate(m, typed, i == 0 ? count : 1, &y);
        if (!lookup_is_good(m->tape, ROWS, error)) {
            return false;
        }
        if (i == many - 1) {
            json_key("loss");
            json_figure(tg_tensor_item(loss, NULL), 4);
            json_key("ids");
            json_open('[');
            for (int k = 0; k < (i == 0 ? count : 1); k++) {
                json_int(typed[k]);
            }
            json_close(']');
            json_key("dy");
            json_tensor(tg_tensor_grad(y), 4);
            write_gradient(m->embedding.weight);
        }
        /* shown: update */
        tg_optim_step(m->optim);
        /* end */
    }
    if (!tg_tensor_data(m->embedding.weight)) {
        json_key("refusal");
        json_text(tg_params_error(m->params)->text);
    }
    tg_optim_flush(m->optim);
    write_rows(was, m->embedding.weight);
    json_key("step");
    json_int(many);
    json_key("rate");
    json_figure(rate, 1);
    return tape_is_good(m->tape, error);
}

/* The largest difference of two methods after the same steps. */
static double difference(const int32_t *typed, int count, int64_t many, int method, int other)
{
    table both[2] = {table_make(method), table_make(other)};
    tg_tensor *y;
    double most = 0;
    for (int64_t i = 0; i < many; i++) {
        for (int k = 0; k < 2; k++) {
            differentiate(&both[k], typed, i == 0 ? count : 1, &y);
            tg_optim_step(both[k].optim);
        }
    }
    for (int k = 0; k < 2; k++) {
        tg_optim_flush(both[k].optim);
    }
    for (int64_t i = 0; i < (int64_t)ROWS * WIDTH; i++) {
        double apart =
            tg_tensor_value_at(both[0].embedding.weight, i) - tg_tensor_value_at(both[1].embedding.weight, i);
        most = apart > most ? apart : -apart > most ? -apart : most;
    }
    table_free(&both[0]);
    table_free(&both[1]);
    return most;
}

/* d.step METHOD STEPS, and ids: a training from the beginning, and what its last step did. */
bool station_step(const request *r, tg_error *error)
{
    int32_t typed[MOST_IDS];
    int method = (int)request_number(r, 0, SGD, DEFERRED, SGD);
    int64_t many = request_number(r, 1, 1, MOST_STEPS, 1);
    if (strcmp(r->name, "step") != 0) {
        return refuse(error, "d.%s: unknown request", r->name);
    }
    int count = read_ids(r, typed, error);
    if (count == 0) {
        return false;
    }
    table m = table_make(method);
    bool good = steps(&m, typed, count, many, error);
    if (good && method == DEFERRED) {
        json_key("difference");
        json_format("%.1e", difference(typed, count, many, DEFERRED, ADAM));
    }
    table_free(&m);
    return good;
}
