/* Steps whose shapes were used before allocate nothing: with every kind of positions on both paths of attention, with
 * the options of embeddings and bags, with every optimizer and with clipping; and a token that is generated. */
#include "optim/methods.h"
#include "support.h"

enum { B = 2, T = 6, C = 8, HEADS = 2, V = 13 };

/* ---- a step of a model ---- */

typedef struct training {
    tg_run *run;
    tg_params *params;
    tg_tape *tape;
    tg_optim *optim;
    tg_tensor *ids, *targets;
    tg_nn_embedding table;
    tg_nn_embedding_bag bag;
    tg_nn_positional positions;
    tg_nn_multihead_attention attention;
} training;

static training training_make(tg_attention_path path, tg_position kind, bool is_causal, double max_norm)
{
    int32_t ids[B * T];
    training m = {.run = tg_run_new(123)};
    m.params = tg_params_new(m.run, TG_F32);
    m.tape = tg_tape_new(m.run, NULL);
    for (int i = 0; i < B * T; i++) {
        ids[i] = (i * i * 7 + 3) % V;
    }
    m.ids = tensor_i32(TG_SHAPE(B, T), ids);
    m.targets = tensor_i32(TG_SHAPE(B, T), ids);
    tg_nn_embedding_config table = tg_nn_embedding_config_default();
    table.max_norm = max_norm;
    table.scale_by_frequency = max_norm > 0;
    m.table = tg_nn_embedding_make(m.params, "table", V, C, &table);
    tg_nn_embedding_bag_config bag = tg_nn_embedding_bag_config_default();
    bag.max_norm = max_norm;
    m.bag = tg_nn_embedding_bag_make(m.params, "bag", V, C, &bag);
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = HEADS;
    positions.shared_projections = is_causal;
    m.positions = tg_nn_positional_make(m.params, "positions", kind, T, C, &positions);
    tg_nn_multihead_attention_config attention = tg_nn_multihead_attention_config_default();
    attention.path = path;
    attention.is_causal = is_causal;
    attention.dropout = 0.25;
    bool is_added = kind == TG_POSITION_LEARNED || kind == TG_POSITION_SINUSOIDAL;
    attention.positional = is_added ? NULL : &m.positions;
    m.attention = tg_nn_multihead_attention_make(m.params, "attention", C, C, HEADS, &attention);
    assert_string_equal(tg_params_error(m.params)->text, "");
    return m;
}

static void training_free(training *m)
{
    tg_release(m->ids);
    tg_release(m->targets);
    tg_optim_free(m->optim);
    tg_tape_free(m->tape);
    tg_params_free(m->params);
    tg_run_free(m->run);
}

static void run_step(training *m, int number)
{
    tg_tape *t = m->tape;
    tg_tape_reset(t);
    /* other rows are touched in each step */
    int32_t *ids = tg_tensor_data_mut(m->ids);
    ids[number % T] = number % V;
    tg_tensor *x = tg_nn_embedding_forward(t, &m->table, m->ids);
    x = tg_nn_positional_forward(t, &m->positions, x, 0);
    x = tg_nn_multihead_attention_forward(t, &m->attention, tg_dropout(t, x, 0.1), NULL);
    tg_tensor *bags = tg_nn_embedding_bag_forward(t, &m->bag, m->ids, NULL, NULL);
    x = tg_add(t, x, tg_unsqueeze(t, bags, 1));
    tg_tensor *logits = tg_linear(t, x, m->table.weight, NULL);
    tg_tensor *loss = tg_cross_entropy(t, logits, m->targets, NULL);
    if (!tg_backward(t, loss, NULL)) {
        fail_msg("%s", tg_tape_error(t)->text);
    }
    assert_true(tg_clip_grad_norm(m->params, 0.5) > 0);
    assert_true(tg_clip_grad_value(m->params, 0.25));
    assert_true(tg_optim_step(m->optim));
    tg_optim_zero_grad(m->optim);
}

/* Asserts that the third and the fourth step allocate nothing. */
static void check_steps(training *m, const char *what)
{
    counting_allocator counting;
    m->optim = m->optim ? m->optim : tg_sgd_new(m->params, NULL);
    run_step(m, 0);
    run_step(m, 1);
    allocator_install(&counting);
    run_step(m, 2);
    run_step(m, 3);
    if (counting.calls != 0) {
        fail_msg("%s: %zu allocations in two steps", what, counting.calls);
    }
    allocator_restore();
    training_free(m);
}

static void test_positions(void **state)
{
    (void)state;
    for (int kind = 0; kind <= TG_POSITION_NONE; kind++) {
        for (int i = 0; i < 4; i++) {
            tg_attention_path path = i % 2 ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED;
            training m = training_make(path, (tg_position)kind, i / 2, 0);
            check_steps(&m, tg_position_name((tg_position)kind));
        }
    }
}

static void test_max_norm(void **state)
{
    (void)state;
    training m = training_make(TG_ATTENTION_FUSED, TG_POSITION_LEARNED, true, 0.5);
    check_steps(&m, "max_norm");
}

static void test_optimizers(void **state)
{
    (void)state;
    for (size_t i = 0; i < METHODS; i++) {
        if (!methods[i].is_sparse) {
            training m = training_make(TG_ATTENTION_FUSED, TG_POSITION_LEARNED, true, 0);
            m.optim = methods[i].make(m.params);
            assert_non_null(m.optim);
            check_steps(&m, methods[i].name);
        }
    }
}

/* SparseAdam refuses dense gradients, so it has a table alone. */
static void test_sparse_adam(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding table = tg_nn_embedding_make(params, "table", V, C, NULL);
    tg_optim *optim = tg_sparse_adam_new(params, NULL);
    tg_tape *tape = tg_tape_new(run, NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(4), (int32_t[]){1, 2, 2, 5});
    counting_allocator counting;
    for (int step = 0; step < 4; step++) {
        if (step == 2) {
            allocator_install(&counting);
        }
        ((int32_t *)tg_tensor_data_mut(ids))[0] = step;
        tg_tape_reset(tape);
        tg_tensor *x = tg_nn_embedding_forward(tape, &table, ids);
        assert_true(tg_backward(tape, tg_sum(tape, x, TG_ALL_AXES, TG_DROP_AXES), NULL));
        assert_true(tg_optim_step(optim));
        tg_optim_zero_grad(optim);
    }
    assert_int_equal(counting.calls, 0);
    allocator_restore();
    tg_release(ids);
    tg_tape_free(tape);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_run_free(run);
}

/* ---- generation ---- */

static size_t allocations_of(tg_tape *tape, const tg_gpt *model, const tg_generate_config *config)
{
    int32_t prompt[] = {1, 2}, ids[16];
    counting_allocator counting;
    allocator_install(&counting);
    assert_int_equal(tg_gpt_generate(tape, model, prompt, 2, ids, config), config->max_new_tokens);
    size_t calls = counting.calls;
    allocator_restore();
    return calls;
}

/* A call allocates its text and its cache. Its tokens allocate nothing, once a text of the length was generated. */
static void test_generation(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, TG_F32);
        tg_gpt_config config = tg_gpt_config_default();
        config.vocabulary = V;
        config.context = 12; /* shorter than the text */
        config.width = C;
        config.heads = HEADS;
        config.layers = 1;
        tg_gpt *model = tg_gpt_new(params, &config);
        tg_tape *tape = tg_tape_new(run, NULL);
        tg_generate_config generate = tg_generate_config_default();
        generate.sample.greedy = i % 2;
        generate.sample.top_k = i % 2 ? TG_NO_TOP_K : 5;
        generate.use_cache = i / 2;
        generate.max_new_tokens = 16;
        allocations_of(tape, model, &generate);
        size_t many = allocations_of(tape, model, &generate);
        generate.max_new_tokens = 1;
        assert_int_equal(allocations_of(tape, model, &generate), many);
        tg_tape_free(tape);
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions),   cmocka_unit_test(test_max_norm),   cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_sparse_adam), cmocka_unit_test(test_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
