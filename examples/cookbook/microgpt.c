/* microgpt: a small GPT twice. First on single numbers, with a tape like that of the course's exercise scalar_tape: it
 * records each sum and each product. Then on tensors, by the library, whose tape records an op for a whole matrix. The
 * model is that of Karpathy's microgpt: RMSNorm without weights, ReLU, no biases. Both begin with the same weights, and
 * learn the same names by Adam (Kingma and Ba 2015). Prints the losses of both, how much their tapes have recorded
 * in the last step, and how long it took. */
#include "makemore_names.h"

#include <math.h>
#include <tapegrad/extend.h>

const char program_name[] = "cookbook_microgpt";
enum { NAMES = 1000, STEPS = 400, LENGTH = 12, WIDTH = 16, HEAD = 4, WIDE = 64, MOST = 1 << 17 };
enum { TABLE, POSITIONS, QUERY, KEY, VALUE, OUT, UP, DOWN, LOGITS, MATRICES };
static const int rows[] = {CHARACTERS, LENGTH, WIDTH, WIDTH, WIDTH, WIDTH, WIDE, WIDTH, CHARACTERS};
static const int columns[] = {WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, WIDE, WIDTH};
static const double eps = 1e-5;

/* A step computes its value from those of two earlier steps. The slopes are those of the value for the two. A number is
 * the index of its step. Step 0 is the number 0, and the steps after it are the weights, which last. */
static struct step {
    int left, right;
    double left_slope, right_slope, value, gradient;
} tape[MOST];
static int count = 1, weights[MATRICES][WIDE][WIDE];

static int record(double value, int left, double left_slope, int right, double right_slope)
{
    tape[count] = (struct step){left, right, left_slope, right_slope, value, 0};
    return count++;
}

static int number(double value)
{
    return record(value, 0, 0, 0, 0);
}

/* a + b, a * b, a^b for a constant b, e^a, log(a) and relu(a) */
static int op(char kind, int a, int b)
{
    double x = tape[a].value, y = tape[b].value;
    switch (kind) {
    case '+': return record(x + y, a, 1, b, 1);
    case '*': return record(x * y, a, y, b, x);
    case '^': return record(pow(x, y), a, y * pow(x, y - 1), b, 0);
    case 'e': return record(exp(x), a, exp(x), b, 0);
    case 'l': return record(log(x), a, 1 / x, b, 0);
    default: return record(x > 0 ? x : 0, a, x > 0, b, 0);
    }
}

/* Each step hands its gradient on to the two that it used, times its slopes. */
static void backward(void)
{
    tape[count - 1].gradient = 1;
    for (int i = count - 1; i > 0; i--) {
        tape[tape[i].left].gradient += tape[i].gradient * tape[i].left_slope;
        tape[tape[i].right].gradient += tape[i].gradient * tape[i].right_slope;
    }
}

static int dot(int start, int n, const int *x, const int *y)
{
    for (int i = 0; i < n; i++) {
        start = op('+', start, op('*', x[i], y[i]));
    }
    return start;
}

/* y = start + matrix x, of which each value is start + row . x */
static void linear(int matrix, const int *x, const int *start, int *y)
{
    for (int i = 0; i < rows[matrix]; i++) {
        y[i] = dot(start[i], columns[matrix], weights[matrix][i], x);
    }
}

static void norm(const int *x, int *y)
{
    int mean = op('*', dot(0, WIDTH, x, x), number(1.0 / WIDTH));
    for (int i = 0, scale = op('^', op('+', mean, number(eps)), number(-0.5)); i < WIDTH; i++) {
        y[i] = op('*', x[i], scale);
    }
}

static void softmax(int n, int *x)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        x[i] = op('e', x[i], 0);
        sum = op('+', sum, x[i]);
    }
    for (int i = 0, inverse = op('^', sum, number(-1)); i < n; i++) {
        x[i] = op('*', x[i], inverse);
    }
}

/* Returns the mean loss of the LENGTH ids after the first one. */
static double loss_on_numbers(const int32_t *ids)
{
    static const int zeros[WIDE];
    int k[LENGTH][WIDTH], v[WIDTH][LENGTH], q[WIDTH], x[WIDTH], y[WIDTH], wide[WIDE], p[CHARACTERS], sum = 0;
    for (int t = 0; t < LENGTH; t++) {
        for (int i = 0; i < WIDTH; i++) {
            x[i] = op('+', weights[TABLE][ids[t]][i], weights[POSITIONS][t][i]);
        }
        norm(x, y);
        linear(QUERY, y, zeros, q);
        linear(KEY, y, zeros, k[t]);
        linear(VALUE, y, zeros, wide);
        for (int i = 0; i < WIDTH; i++) {
            v[i][t] = wide[i];
            if (i % HEAD == 0) {
                for (int s = 0; s <= t; s++) {
                    p[s] = op('*', dot(0, HEAD, q + i, k[s] + i), number(1 / sqrt(HEAD)));
                }
                softmax(t + 1, p);
            }
            y[i] = dot(0, t + 1, p, v[i]);
        }
        linear(OUT, y, x, x);
        norm(x, y);
        linear(UP, y, zeros, wide);
        for (int i = 0; i < WIDE; i++) {
            wide[i] = op('r', wide[i], 0);
        }
        linear(DOWN, wide, x, x);
        norm(x, y);
        linear(LOGITS, y, zeros, p);
        softmax(CHARACTERS, p);
        sum = op('+', sum, op('l', p[ids[t + 1]], 0));
    }
    return tape[op('*', sum, number(-1.0 / LENGTH))].value;
}

static tg_tensor *loss_on_tensors(tg_tape *t, tg_tensor *const *w, const int32_t *ids)
{
    tg_tensor *qkv[3], *x = tg_embedding(t, tg_constant_i32(t, TG_SHAPE(1, LENGTH), ids), w[TABLE], NULL);
    x = tg_add(t, x, w[POSITIONS]);
    tg_tensor *y = tg_rms_norm(t, x, NULL, eps);
    for (int i = 0; i < 3; i++) {
        qkv[i] = tg_reshape(t, tg_linear(t, y, w[QUERY + i], NULL), TG_SHAPE(1, LENGTH, WIDTH / HEAD, HEAD));
        qkv[i] = tg_transpose(t, qkv[i], 1, 2);
    }
    tg_scaled_dot_product_attention_config causal = tg_scaled_dot_product_attention_config_default();
    causal.is_causal = true;
    y = tg_transpose(t, tg_scaled_dot_product_attention(t, qkv[0], qkv[1], qkv[2], &causal), 1, 2);
    x = tg_add(t, x, tg_linear(t, tg_reshape(t, y, TG_SHAPE(1, LENGTH, WIDTH)), w[OUT], NULL));
    y = tg_relu(t, tg_linear(t, tg_rms_norm(t, x, NULL, eps), w[UP], NULL));
    x = tg_add(t, x, tg_linear(t, y, w[DOWN], NULL));
    y = tg_linear(t, tg_rms_norm(t, x, NULL, eps), w[LOGITS], NULL);
    return tg_cross_entropy(t, y, tg_constant_i32(t, TG_SHAPE(1, LENGTH), ids + 1), NULL);
}

int main(int argc, char **argv)
{
    recipe_options("a small GPT on numbers, and on tensors", NULL, argc, argv);
    recipe r = recipe_begin(123);
    const int32_t *ids = tg_tensor_data(names_draw(&r, NAMES, 1).inputs);
    tg_tensor *w[MATRICES];
    tg_params_free(r.params);
    r.params = tg_params_new(r.run, TG_F64);
    for (int i = 0; i < MATRICES; i++) {
        w[i] = tg_params_add(r.params, (char[]){(char)('a' + i), 0}, TG_SHAPE(rows[i], columns[i]));
        tg_tensor_fill_normal(w[i], tg_run_rng(r.run), 0, 0.1, &r.error);
        for (int j = 0; j < rows[i] * columns[i]; j++) {
            weights[i][j / columns[i]][j % columns[i]] = number(tg_tensor_value_at(w[i], j));
        }
    }
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.01;
    r.optim = tg_adam_new(r.params, &adam);
    static double m[MOST], v[MOST], start, middle;
    const int first = count;
    for (int n = 1; n <= STEPS; n++, ids += LENGTH) {
        start = seconds();
        count = first;
        double loss = loss_on_numbers(ids);
        backward();
        for (int i = 1; i < first; i++) {
            m[i] += (1 - adam.beta1) * (tape[i].gradient - m[i]);
            v[i] += (1 - adam.beta2) * (tape[i].gradient * tape[i].gradient - v[i]);
            double deviation = sqrt(v[i] / (1 - pow(adam.beta2, n))) + adam.eps;
            tape[i].value -= adam.lr * m[i] / (1 - pow(adam.beta1, n)) / deviation;
            tape[i].gradient = 0;
        }
        middle = seconds();
        tg_tape_reset(r.tape);
        tg_tensor *same = loss_on_tensors(r.tape, w, ids);
        tg_optim_zero_grad(r.optim);
        tg_backward(r.tape, same, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
        if (n % 100 == 0) {
            printf("step %d: loss %.9f, on tensors %.9f\n", n, loss, tg_tensor_item(same, &r.error));
        }
    }
    printf("on tensors: %d records, %.2f ms\n", (int)tg_tape_record_count(r.tape), 1e3 * (seconds() - middle));
    printf("on numbers: %d records, %.2f ms\n", count - first, 1e3 * (middle - start));
    return recipe_end(&r);
}
