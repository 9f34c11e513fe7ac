#ifdef COURSE_WORKER
#include <tapegrad.h>

#include "../tape.h"
#include "../worker.h"

typedef struct block {
    int heads;
    tg_tensor *norm1[2], *qkv[3], *out[2], *norm2[2], *up[2], *down[2];
} block;

tg_tensor *block_forward(tg_tape *t, const block *b, tg_tensor *x);

/* batch, time, width, heads; x; the parameters, one after another -> y, and the gradient of x for dy = 1 */
static void run(void **a)
{
    const int *n = a[0];
    const double *values = a[2];
    double *y = a[3], *dx = a[4];
    int width = n[2];
    tg_tape *t = careful_tape(NULL);
    tg_tensor *p[13];
    const int64_t rows[13] = {width, width, width,     width,     width, width, width,
                              width, width, 4 * width, 4 * width, width, width};
    const int64_t columns[13] = {0, 0, width, width, width, width, 0, 0, 0, width, 0, 4 * width, 0};
    for (int i = 0; i < 13; i++) {
        tg_shape shape = columns[i] > 0 ? TG_SHAPE(rows[i], columns[i]) : TG_SHAPE(rows[i]);
        p[i] = tg_tensor_new_from(TG_F64, shape, values, NULL);
        values += tg_tensor_count(p[i]);
    }
    block b = {n[3], {p[0], p[1]}, {p[2], p[3], p[4]}, {p[5], p[6]}, {p[7], p[8]}, {p[9], p[10]}, {p[11], p[12]}};
    tg_tensor *x = tg_tensor_new_from(TG_F64, TG_SHAPE(n[0], n[1], n[2]), a[1], NULL);
    tg_tensor_set_requires_grad(x, true, NULL);
    tg_tensor *result = block_forward(t, &b, x);
    tg_tensor *sum = tg_sum_all(t, tg_mul(t, result, result));
    tg_backward(t, sum, NULL);
    for (int64_t i = 0; i < tg_tensor_count(result) && i < tg_tensor_count(x); i++) {
        y[i] = tg_tensor_value_at(result, i);
        dx[i] = tg_tensor_grad(x) ? tg_tensor_value_at(tg_tensor_grad(x), i) : 0;
    }
    for (int i = 0; i < 13; i++) {
        tg_release(p[i]);
    }
    tg_tape_free(t);
    tg_release(x);
}

const course_call course_calls[] = {{"block", run}, {NULL, NULL}};
#else
#include "../check.h"

#define BATCH 2
#define TIME 5
#define WIDTH 8
#define COUNT (BATCH * TIME * WIDTH)

static void expect_block(bool is_zero)
{
    tg_run *shared_run = tg_run_new(course_seed);
    tg_params *params = tg_params_new(shared_run, TG_F64);
    tg_nn_transformer_block block = tg_nn_transformer_block_make(params, "b", WIDTH, 2, NULL);
    static const char *const names[] = {"b.norm1.scale",        "b.norm1.shift",        "b.att.W_query.weight",
                                        "b.att.W_key.weight",   "b.att.W_value.weight", "b.att.out_proj.weight",
                                        "b.att.out_proj.bias",  "b.norm2.scale",        "b.norm2.shift",
                                        "b.ff.layers.0.weight", "b.ff.layers.0.bias",   "b.ff.layers.2.weight",
                                        "b.ff.layers.2.bias"};
    static double values[4096];
    double x[COUNT], y[COUNT], dx[COUNT];
    int used = 0;
    for (int i = 0; i < 13; i++) {
        tg_tensor *p = tg_params_find(params, names[i]);
        tg_tensor_fill_normal(p, tg_run_rng(shared_run), 0, is_zero && (i == 5 || i == 6 || i > 10) ? 0 : 0.5, NULL);
        for (int64_t j = 0; j < tg_tensor_count(p); j++) {
            values[used++] = tg_tensor_value_at(p, j);
        }
    }
    draw(x, COUNT);
    tg_tensor *input = leaf(x, TG_SHAPE(BATCH, TIME, WIDTH));
    call("block", LIST(INTS(BATCH, TIME, WIDTH, 2), IN(x, COUNT), IN(values, used), OUT(y, COUNT), OUT(dx, COUNT)));
    tg_tensor *expected = tg_nn_transformer_block_forward(tape(), &block, input, NULL);
    expect_tensor("y", y, expected);
    tg_backward(tape(), tg_sum_all(tape(), tg_mul(tape(), expected, expected)), NULL);
    expect_tensor("dx", dx, gradient_of(input));
}

void course_checks(void)
{
    check("way_around");
    describe("the last linear layers are 0");
    expect_block(true);

    check("model");
    describe("a random block of 8 columns and 2 heads, on (2,5,8)");
    expect_block(false);
}
#endif
