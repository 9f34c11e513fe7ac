/* 05: How do several heads attend at the same time, each in its own way? Causal attention for a batch, and multi-head
 * attention: first as two separate heads, each with its own matrices, then as one module that splits one projection
 * into heads. */
#include "inputs.h"

/* One head: three linear layers, initialized in this order. */
typedef struct causal_attention {
    tg_nn_linear query, key, value;
} causal_attention;

static causal_attention causal_attention_make(tg_params *params, const char *name)
{
    char full[64];
    causal_attention made;
    struct {
        const char *part;
        tg_nn_linear *linear;
    } parts[] = {{"W_query", &made.query}, {"W_key", &made.key}, {"W_value", &made.value}};
    for (int i = 0; i < 3; i++) {
        snprintf(full, sizeof full, "%s.%s", name, parts[i].part);
        *parts[i].linear = tg_nn_linear_make(params, full, 3, 2, TG_NO_BIAS);
    }
    return made;
}

/* x (B,T,3) -> (B,T,2) */
static tg_tensor *causal_attention_forward(tg_tape *t, const causal_attention *a, tg_tensor *x)
{
    /* (B,T,3) -> (B,T,2) each */
    tg_tensor *queries = tg_nn_linear_forward(t, &a->query, x);
    tg_tensor *keys = tg_nn_linear_forward(t, &a->key, x);
    tg_tensor *values = tg_nn_linear_forward(t, &a->value, x);
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = true;
    /* matmul, masked_fill, softmax and matmul as separate ops, as in the chapter */
    config.path = TG_ATTENTION_ELEMENTARY;
    return tg_scaled_dot_product_attention(t, queries, keys, values, &config);
}

static void print_context(tg_tensor *context)
{
    print_tensor(context);
    printf("context_vecs.shape: ");
    print_shape(context);
}

/* The chapter's last step: one matrix product computes the scores of both heads. `a` has 1 batch, 2 heads, 3 words and
 * 4 channels. */
static void heads_in_one_product(tg_tape *t)
{
    const float values[] = {0.2745f, 0.6584f, 0.2775f, 0.8573f, 0.8993f, 0.0390f, 0.9268f, 0.7388f,
                            0.7179f, 0.7058f, 0.9156f, 0.4340f, 0.0772f, 0.3565f, 0.1479f, 0.5331f,
                            0.4066f, 0.2318f, 0.4545f, 0.9737f, 0.4606f, 0.5159f, 0.4220f, 0.5786f};
    tg_tensor *a = tg_tensor_new_from_f32(TG_SHAPE(1, 2, 3, 4), values, NULL);
    cell(138);
    print_tensor(tg_matmul(t, a, tg_transpose(t, a, 2, 3)));
    cell(140);
    for (int head = 0; head < 2; head++) {
        tg_tensor *one = tg_select(t, tg_select(t, a, 0, 0), 0, head);
        printf(head == 0 ? "First head:\n" : "\nSecond head:\n");
        print_tensor(tg_matmul(t, one, tg_transpose(t, one, 0, 1)));
    }
    tg_release(a);
}

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("How do several heads attend at the same time, each in its own way?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *t = book_tape(run);
    tg_tensor *inputs = inputs_new();
    /* two copies of (6,3) -> (2,6,3) */
    tg_tensor *batch = tg_stack(t, (tg_tensor *[]){inputs, inputs}, 2, 0);
    cell(120);
    print_shape(batch);

    causal_attention head = causal_attention_make(params, "one");
    check(tg_params_error(params));
    cell(121);
    /* (2,6,3) -> (2,6,2) */
    print_context(causal_attention_forward(t, &head, batch));

    tg_rng_seed(tg_run_rng(run), 123);
    causal_attention first = causal_attention_make(params, "heads.0");
    causal_attention second = causal_attention_make(params, "heads.1");
    check(tg_params_error(params));
    tg_tensor *both[] = {causal_attention_forward(t, &first, batch), causal_attention_forward(t, &second, batch)};
    cell(127);
    print_context(tg_cat(t, both, 2, -1));

    tg_rng_seed(tg_run_rng(run), 123);
    /* the chapter's module: separate linear layers for queries, keys and values, without biases */
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.layout = TG_ATTENTION_SEPARATE;
    config.bias = false;
    config.is_causal = true;
    tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "mha", 3, 2, 2, &config);
    check(tg_params_error(params));
    cell(131);
    print_context(tg_nn_multihead_attention_forward(t, &attention, batch, NULL));

    heads_in_one_product(t);

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(inputs);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}
