#include <stdio.h>
#include <string.h>
#include <tapegrad.h>
#include <tapegrad/ledger.h>

#include "../tape.h"

#define VOCABULARY 11
#define TIME 6
#define WIDTH 8
#define LEDGER 32768

typedef struct gpt {
    tg_nn_embedding tokens;
    tg_nn_positional positions;
    tg_nn_transformer_block blocks[2];
    int block_count;
    tg_nn_layer_norm norm;
    tg_nn_linear head;
} gpt;

/* The same parameters as those of tg_gpt_new, with random norms, so that each layer matters. */
static gpt make_gpt(tg_params *params, tg_rng *rng)
{
    gpt g = {.block_count = 2};
    g.tokens = tg_nn_embedding_make(params, "tok_emb", VOCABULARY, WIDTH, NULL);
    g.positions = tg_nn_positional_make(params, "pos_emb", TG_POSITION_LEARNED, TIME, WIDTH, NULL);
    g.blocks[0] = tg_nn_transformer_block_make(params, "trf_blocks.0", WIDTH, 2, NULL);
    g.blocks[1] = tg_nn_transformer_block_make(params, "trf_blocks.1", WIDTH, 2, NULL);
    g.norm = tg_nn_layer_norm_make(params, "final_norm", WIDTH, NULL);
    g.head = tg_nn_linear_make(params, "out_head", WIDTH, VOCABULARY, TG_NO_BIAS);
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor_fill_normal(tg_params_at(params, i).tensor, rng, 0, 0.7, NULL);
    }
    return g;
}

#ifdef COURSE_WORKER
#include "../worker.h"

tg_tensor *gpt_forward(tg_tape *t, const gpt *g, tg_tensor *ids);

/* seed, ids (2,TIME) -> logits, the ledger of the ops */
static void run(void **a)
{
    const int *seed = a[0];
    double *logits = a[2];
    char *text = a[3];
    tg_run *shared_run = tg_run_new((uint64_t)*seed);
    tg_params *params = tg_params_new(shared_run, TG_F64);
    gpt g = make_gpt(params, tg_run_rng(shared_run));
    tg_tape *t = careful_tape(shared_run);
    tg_tensor *ids = tg_constant_i32(t, TG_SHAPE(2, TIME), a[1]);
    FILE *file = fmemopen(text, LEDGER, "w");
    tg_ledger *ledger = tg_ledger_open(t, file);
    tg_tensor *y = gpt_forward(t, &g, ids);
    tg_ledger_close(ledger, NULL);
    fclose(file);
    for (int64_t i = 0; i < tg_tensor_count(y) && i < (int64_t)2 * TIME * VOCABULARY; i++) {
        logits[i] = tg_tensor_value_at(y, i);
    }
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(shared_run);
}

const course_call course_calls[] = {{"gpt", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    static char got[LEDGER], expected[LEDGER];
    static double logits[2 * TIME * VOCABULARY];
    int ids[2 * TIME], seed = draw_int(1, 1000000);
    draw_ids(ids, 2 * TIME, VOCABULARY);
    check("model");
    describe("2 texts of 6 tokens, 2 blocks of width 8");
    call("gpt", LIST(IN(&seed, 1), IN(ids, 2 * TIME), OUT(logits, 2 * TIME * VOCABULARY), OUT(got, LEDGER)));
    got[LEDGER - 1] = 0;
    tg_run *shared_run = tg_run_new((uint64_t)seed);
    tg_params *params = tg_params_new(shared_run, TG_F64);
    gpt g = make_gpt(params, tg_run_rng(shared_run));
    FILE *file = fmemopen(expected, sizeof expected, "w");
    tg_tape *t = careful_tape(shared_run);
    tg_ledger *ledger = tg_ledger_open(t, file);
    tg_tensor *x = tg_nn_embedding_forward(t, &g.tokens, ids_tensor(ids, TG_SHAPE(2, TIME)));
    x = tg_nn_positional_forward(t, &g.positions, x, 0);
    x = tg_nn_transformer_block_forward(t, &g.blocks[0], x, NULL);
    x = tg_nn_transformer_block_forward(t, &g.blocks[1], x, NULL);
    x = tg_nn_linear_forward(t, &g.head, tg_nn_layer_norm_forward(t, &g.norm, x));
    tg_ledger_close(ledger, NULL);
    fclose(file);
    expect_ledger(got, expected);

    check("library");
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = VOCABULARY, config.context = TIME, config.width = WIDTH, config.heads = 2, config.layers = 2;
    tg_run *other = tg_run_new_stream(shared_run, (uint64_t)seed);
    tg_params *whole = tg_params_new(other, TG_F64);
    tg_gpt *model = tg_gpt_new(whole, &config);
    for (int64_t i = 0; i < tg_params_count(whole); i++) {
        tg_tensor_copy_from(tg_params_at(whole, i).tensor, tg_params_at(params, i).tensor, NULL);
    }
    describe("the logits of tg_gpt_forward");
    expect_tensor("logits", logits, tg_gpt_forward(tape(), model, ids_tensor(ids, TG_SHAPE(2, TIME)), NULL));
}
#endif
