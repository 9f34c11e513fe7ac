/* Trains small models for ten steps each in the reproducible mode, and prints a checksum of each model's parameters.
 * Prints one of the logits of a text that grows token by token, too. tests/bits compares the lines with those of
 * tests/bits.txt: so they are the same on every platform. This file uses the core's public headers alone, and ids that
 * it draws.
 *
 *     bits [THREADS]    prints the lines
 *     bits --level      prints the level of the processor; fails if it or the build lacks that of TG_CPU_LEVEL
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>
#include <tapegrad/gpt.h>
#include <tapegrad/sequence.h>
#include <tapegrad/transformer.h>

#include "../../examples/train_embeddings/model.h"

enum { STEPS = 10 };

/* A training: its objects, and what a step computes. */
typedef struct training {
    tg_run *run;
    tg_params *params;
    tg_tape *t;
    tg_optim *optim;
} training;

static void check(const tg_error *error)
{
    if (error->code != TG_OK) {
        fprintf(stderr, "bits: %s\n", error->text);
        exit(1);
    }
}

/* ---- checksums ---- */

/* FNV-1a over 32 bits at a time, whatever the order of bytes in memory is. */
static uint64_t add(uint64_t sum, uint32_t bits)
{
    for (int i = 0; i < 4; i++) {
        sum = (sum ^ (bits >> 8 * i & 0xff)) * UINT64_C(0x100000001b3);
    }
    return sum;
}

/* All NaNs count as the same one. */
static uint64_t add_double(uint64_t sum, double value)
{
    union {
        double value;
        uint64_t bits;
    } number = {.value = value};
    uint64_t bits = value == value ? number.bits : UINT64_C(0x7ff8) << 48;
    return add(add(sum, (uint32_t)bits), (uint32_t)(bits >> 32));
}

#define EMPTY UINT64_C(0xcbf29ce484222325)

static uint64_t add_values(uint64_t sum, const tg_tensor *x)
{
    for (int64_t k = 0; k < tg_tensor_count(x); k++) {
        sum = add_double(sum, tg_tensor_value_at(x, k));
    }
    return sum;
}

static uint64_t checksum(const tg_params *params)
{
    uint64_t sum = EMPTY;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        sum = add_values(sum, tg_params_at(params, i).tensor);
    }
    return sum;
}

static void print_checksum(const char *name, uint64_t sum)
{
    printf("%s %016" PRIx64 "\n", name, sum);
    fflush(stdout);
}

/* ---- a training ---- */

static training begin(tg_dtype dtype)
{
    training r = {.run = tg_run_new(123)};
    tg_rng_set_profile(tg_run_rng(r.run), TG_RNG_PORTABLE);
    r.params = tg_params_new(r.run, dtype);
    r.t = tg_tape_new(r.run, NULL);
    tg_tape_set_reproducible(r.t, true);
    check(tg_tape_error(r.t));
    return r;
}

static void use_adamw(training *r)
{
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = 0.01;
    r->optim = tg_adamw_new(r->params, &config);
    check(tg_params_error(r->params));
}

/* Ends a step that has computed the loss. */
static void step(training *r, tg_tensor *loss, int number)
{
    tg_error error = TG_NO_ERROR;
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.lr = 0.01;
    schedule.warmup_steps = 3;
    schedule.total_steps = STEPS;
    tg_optim_zero_grad(r->optim);
    tg_backward(r->t, loss, NULL);
    check(tg_tape_error(r->t));
    tg_clip_grad_norm(r->params, 1);
    tg_optim_set_lr(r->optim, NULL, tg_schedule_lr(number, &schedule, &error));
    check(&error);
    tg_optim_step(r->optim);
    check(tg_params_error(r->params));
    tg_tape_reset(r->t);
}

static void release(training *r)
{
    tg_tape_free(r->t);
    tg_optim_free(r->optim);
    tg_params_free(r->params);
    tg_run_free(r->run);
}

static void end(training *r, const char *name)
{
    check(tg_params_error(r->params));
    print_checksum(name, checksum(r->params));
    release(r);
}

/* Ids that the tape owns until its reset. */
static tg_tensor *draw_ids(training *r, tg_shape shape, int64_t below)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *ids = tg_full(r->t, TG_I32, shape, 0);
    check(tg_tape_error(r->t));
    tg_tensor_fill_randint(ids, tg_run_rng(r->run), 0, below, &error);
    check(&error);
    return ids;
}

static tg_tensor *draw_normal(training *r, tg_dtype dtype, tg_shape shape)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = tg_full(r->t, dtype, shape, 0);
    check(tg_tape_error(r->t));
    tg_tensor_fill_normal(x, tg_run_rng(r->run), 0, 1, &error);
    check(&error);
    return x;
}

/* ---- the models ---- */

/* Of examples/train_embeddings. */
static void train_embeddings(void)
{
    enum { B = 8, T = 32, V = 256, WIDTH = 32 };
    training r = begin(TG_F32);
    model m = model_make(r.run, V, WIDTH, T, true);
    tg_params_free(r.params);
    r.params = m.params;
    r.optim = tg_adam_new(r.params, NULL);
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *ids = draw_ids(&r, TG_SHAPE(B, T), V), *targets = draw_ids(&r, TG_SHAPE(B, T), V);
        step(&r, tg_cross_entropy(r.t, model_forward(r.t, &m, ids), targets, NULL), i);
    }
    end(&r, "train_embeddings");
}

/* A table under row-wise Adagrad, as a table in a file is trained (tests/row_file). */
static void adagrad_by_rows(void)
{
    enum { B = 24, V = 100, WIDTH = 37 };
    training r = begin(TG_F32);
    tg_nn_embedding table = tg_nn_embedding_make(r.params, "table", V, WIDTH, NULL);
    tg_adagrad_config config = tg_adagrad_config_default();
    config.by_rows = true;
    r.optim = tg_adagrad_new(r.params, &config);
    check(tg_params_error(r.params));
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *x = tg_nn_embedding_forward(r.t, &table, draw_ids(&r, TG_SHAPE(B), V));
        step(&r, tg_mean(r.t, tg_pow_scalar(r.t, tg_sigmoid(r.t, x), 2), TG_ALL_AXES, TG_DROP_AXES), i);
    }
    end(&r, "adagrad_by_rows");
}

/* As in examples/sentences: bags of several lengths, two widths, and deferred Adam. */
static void sentences(void)
{
    enum { PAIRS = 40, TOKENS = 5, V = 150, WIDTH = 45, SLICE = 16, DOCUMENTS = 25 };
    training r = begin(TG_F32);
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(r.params, "bag", V, WIDTH, NULL);
    tg_adam_config adam = tg_adam_config_default();
    adam.deferred = true;
    r.optim = tg_adam_new(r.params, &adam);
    check(tg_params_error(r.params));
    int32_t offsets[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        offsets[i] = i * TOKENS - i % 3;
    }
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *begins = tg_constant_i32(r.t, TG_SHAPE(PAIRS), offsets), *sides[2], *loss = NULL;
        for (int side = 0; side < 2; side++) {
            tg_tensor *ids = draw_ids(&r, TG_SHAPE(PAIRS * TOKENS), V);
            sides[side] = tg_nn_embedding_bag_forward(r.t, &bag, ids, begins, NULL);
        }
        tg_contrastive_loss_config config = tg_contrastive_loss_config_default();
        config.groups = draw_ids(&r, TG_SHAPE(PAIRS), DOCUMENTS);
        for (int width = SLICE; width <= WIDTH; width += WIDTH - SLICE) {
            tg_tensor *part = tg_contrastive_loss(r.t, tg_slice(r.t, sides[0], 1, 0, width, 1),
                                                  tg_slice(r.t, sides[1], 1, 0, width, 1), NULL, &config);
            loss = loss ? tg_add(r.t, loss, part) : part;
        }
        step(&r, loss, i);
    }
    tg_optim_flush(r.optim);
    end(&r, "sentences");
}

static void gpt(const char *name, tg_position position, tg_dtype dtype, bool is_checkpointed)
{
    enum { B = 2, T = 40, V = 200 };
    training r = begin(dtype);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = T;
    config.width = 48;
    config.heads = 4;
    config.layers = 2;
    config.dropout = 0.1;
    config.tied_head = true;
    config.position = position;
    config.init = TG_GPT_INIT_GPT2;
    config.activation_checkpointing = is_checkpointed;
    tg_gpt *network = tg_gpt_new(r.params, &config);
    check(tg_params_error(r.params));
    use_adamw(&r);
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *ids = draw_ids(&r, TG_SHAPE(B, T), V), *targets = draw_ids(&r, TG_SHAPE(B, T), V);
        step(&r, tg_cross_entropy(r.t, tg_gpt_forward(r.t, network, ids, NULL), targets, NULL), i);
    }
    tg_gpt_free(network);
    end(&r, name);
}

static void recurrent(const char *name, tg_dtype dtype, bool is_lstm)
{
    enum { B = 3, T = 20, V = 27, WIDTH = 40 };
    training r = begin(dtype);
    tg_nn_embedding table = tg_nn_embedding_make(r.params, "table", V, 8, NULL);
    tg_nn_gru gru = {0};
    tg_nn_lstm lstm = {0};
    if (is_lstm) {
        lstm = tg_nn_lstm_make(r.params, "lstm", 8, WIDTH, NULL);
    } else {
        gru = tg_nn_gru_make(r.params, "gru", 8, WIDTH, NULL);
    }
    tg_nn_linear head = tg_nn_linear_make(r.params, "head", WIDTH, V, TG_BIAS);
    use_adamw(&r);
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *ids = draw_ids(&r, TG_SHAPE(B, T), V), *targets = draw_ids(&r, TG_SHAPE(B, T), V);
        tg_tensor *x = tg_nn_embedding_forward(r.t, &table, ids);
        tg_tensor *y =
            is_lstm ? tg_nn_lstm_forward(r.t, &lstm, x, NULL, NULL, NULL) : tg_nn_gru_forward(r.t, &gru, x, NULL, NULL);
        step(&r, tg_cross_entropy(r.t, tg_nn_linear_forward(r.t, &head, y), targets, NULL), i);
    }
    end(&r, name);
}

/* As in examples/cookbook/bag_classifier.c. */
static void bag_classifier(void)
{
    enum { TEXTS = 60, LENGTH = 6, WORDS = 30, TOPICS = 3 };
    training r = begin(TG_F32);
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(r.params, "bag", WORDS, 8, NULL);
    tg_nn_linear head = tg_nn_linear_make(r.params, "head", 8, TOPICS, TG_BIAS);
    use_adamw(&r);
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *texts = draw_ids(&r, TG_SHAPE(TEXTS, LENGTH), WORDS),
                  *topics = draw_ids(&r, TG_SHAPE(TEXTS), TOPICS);
        tg_tensor *vectors = tg_nn_embedding_bag_forward(r.t, &bag, texts, NULL, NULL);
        step(&r, tg_cross_entropy(r.t, tg_nn_linear_forward(r.t, &head, vectors), topics, NULL), i);
    }
    end(&r, "bag_classifier");
}

/* As in examples/cookbook/recommender.c. */
static void recommender(void)
{
    enum { USERS = 30, ITEMS = 20, BATCH = 50, WIDTH = 4 };
    training r = begin(TG_F32);
    tg_nn_embedding users = tg_nn_embedding_make(r.params, "users", USERS, WIDTH, NULL);
    tg_nn_embedding items = tg_nn_embedding_make(r.params, "items", ITEMS, WIDTH, NULL);
    use_adamw(&r);
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *user = draw_ids(&r, TG_SHAPE(BATCH), USERS), *item = draw_ids(&r, TG_SHAPE(BATCH), ITEMS);
        tg_tensor *products =
            tg_mul(r.t, tg_nn_embedding_forward(r.t, &users, user), tg_nn_embedding_forward(r.t, &items, item));
        tg_tensor *ratings = tg_sum(r.t, products, TG_AXES(-1), TG_DROP_AXES);
        step(&r, tg_mse_loss(r.t, ratings, draw_normal(&r, TG_F32, TG_SHAPE(BATCH)), TG_REDUCTION_MEAN), i);
    }
    end(&r, "recommender");
}

/* As in examples/cookbook/word2vec.c. */
static void word2vec(void)
{
    enum { WORDS = 200, WIDTH = 24, BATCH = 32, NEGATIVES = 5 };
    training r = begin(TG_F32);
    tg_nn_embedding words = tg_nn_embedding_make(r.params, "words", WORDS, WIDTH, NULL);
    tg_nn_embedding contexts = tg_nn_embedding_make(r.params, "contexts", WORDS, WIDTH, NULL);
    use_adamw(&r);
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *center = tg_nn_embedding_forward(r.t, &words, draw_ids(&r, TG_SHAPE(BATCH), WORDS));
        tg_tensor *others = tg_nn_embedding_forward(r.t, &contexts, draw_ids(&r, TG_SHAPE(BATCH, NEGATIVES), WORDS));
        tg_tensor *scores = tg_squeeze(r.t, tg_matmul(r.t, others, tg_unsqueeze(r.t, center, -1)), -1);
        step(&r, tg_neg(r.t, tg_mean_all(r.t, tg_log_sigmoid(r.t, scores))), i);
    }
    end(&r, "word2vec");
}

/* As in examples/cookbook/encoder_classifier.c. */
static void encoder_classifier(void)
{
    enum { WORDS = 20, TEXTS = 24, LENGTH = 8, WIDTH = 16, HEADS = 2 };
    training r = begin(TG_F32);
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = 2 * WIDTH;
    tg_nn_embedding words = tg_nn_embedding_make(r.params, "words", WORDS, WIDTH, NULL);
    tg_nn_transformer_encoder_layer layer =
        tg_nn_transformer_encoder_layer_make(r.params, "layer", WIDTH, HEADS, &config);
    tg_nn_linear head = tg_nn_linear_make(r.params, "head", WIDTH, 2, TG_BIAS);
    use_adamw(&r);
    for (int i = 0; i < STEPS; i++) {
        tg_tensor *x = tg_nn_embedding_forward(r.t, &words, draw_ids(&r, TG_SHAPE(TEXTS, LENGTH), WORDS));
        tg_tensor *y = tg_nn_transformer_encoder_layer_forward(r.t, &layer, x, NULL);
        tg_tensor *logits = tg_nn_linear_forward(r.t, &head, tg_select(r.t, y, 1, 0));
        step(&r, tg_cross_entropy(r.t, logits, draw_ids(&r, TG_SHAPE(TEXTS), 2), NULL), i);
    }
    end(&r, "encoder_classifier");
}

/* A convolution, and layers that are large enough for every kind of tile, and for several blocks of terms. The first
 * step of a warm-up has the learning rate 0, so there must be a second one. */
static void wide_layers(const char *name, tg_dtype dtype)
{
    enum { B = 50, IN = 30, T = 32, MIDDLE = 900, OUT = 70 };
    training r = begin(dtype);
    tg_nn_conv1d conv = tg_nn_conv1d_make(r.params, "conv", IN, IN, 3, NULL);
    tg_nn_linear first = tg_nn_linear_make(r.params, "first", IN * (T - 2), MIDDLE, TG_BIAS);
    tg_nn_linear second = tg_nn_linear_make(r.params, "second", MIDDLE, OUT, TG_BIAS);
    use_adamw(&r);
    for (int i = 0; i < (dtype == TG_F64 ? 2 : 3); i++) {
        tg_tensor *x = tg_nn_conv1d_forward(r.t, &conv, draw_normal(&r, dtype, TG_SHAPE(B, IN, T)));
        x = tg_gelu(r.t, tg_nn_linear_forward(r.t, &first, tg_reshape(r.t, x, TG_SHAPE(B, IN * (T - 2)))));
        step(&r, tg_cross_entropy(r.t, tg_nn_linear_forward(r.t, &second, x), draw_ids(&r, TG_SHAPE(B), OUT), NULL), i);
    }
    end(&r, name);
}

/* The products of one row, and of a few. */
static void generation(const char *name, tg_dtype dtype)
{
    enum { T = 12, FIRST = 5, V = 500 };
    training r = begin(dtype);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = T;
    config.width = 200;
    config.heads = 4;
    config.layers = 1;
    config.dropout = 0;
    tg_gpt *network = tg_gpt_new(r.params, &config);
    check(tg_params_error(r.params));
    tg_error error = TG_NO_ERROR;
    tg_kv_cache *cache = tg_kv_cache_new(dtype, config.layers, 1, config.heads, T, config.width, NULL, &error);
    check(&error);
    tg_gpt_forward_config forward = tg_gpt_forward_config_default();
    forward.cache = cache;
    tg_tape_set_recording(r.t, false);
    uint64_t sum = EMPTY;
    for (int length = FIRST; length <= T; length++) {
        tg_tensor *ids = draw_ids(&r, TG_SHAPE(1, length == FIRST ? FIRST : 1), V);
        tg_tensor *logits = tg_gpt_forward(r.t, network, ids, &forward);
        check(tg_tape_error(r.t));
        sum = add_values(sum, logits);
        tg_tape_reset(r.t);
    }
    tg_kv_cache_free(cache);
    tg_gpt_free(network);
    print_checksum(name, sum);
    release(&r);
}

int main(int argc, char **argv)
{
    tg_error error = TG_NO_ERROR;
    if (argc > 1 && strcmp(argv[1], "--level") == 0) {
        tg_tape *t = tg_tape_new(NULL, NULL);
        check(tg_tape_error(t));
        puts(tg_cpu_level_name(tg_get_cpu_level()));
        tg_tape_free(t);
        return 0;
    }
    if (argc > 1) {
        tg_set_threads(atoi(argv[1]), &error);
        check(&error);
    }
    static const struct {
        const char *name;
        tg_position position;
    } kinds[] = {{"gpt learned", TG_POSITION_LEARNED},
                 {"gpt sinusoidal", TG_POSITION_SINUSOIDAL},
                 {"gpt rotary", TG_POSITION_ROTARY},
                 {"gpt alibi", TG_POSITION_ALIBI},
                 {"gpt t5", TG_POSITION_T5},
                 {"gpt shaw", TG_POSITION_SHAW},
                 {"gpt transformer_xl", TG_POSITION_TRANSFORMER_XL},
                 {"gpt relative_key", TG_POSITION_RELATIVE_KEY},
                 {"gpt relative_key_query", TG_POSITION_RELATIVE_KEY_QUERY},
                 {"gpt deberta", TG_POSITION_DEBERTA},
                 {"gpt none", TG_POSITION_NONE}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        gpt(kinds[i].name, kinds[i].position, TG_F32, i == 0);
    }
    gpt("gpt f64", TG_POSITION_ROTARY, TG_F64, false);
    generation("generation", TG_F32);
    generation("generation f64", TG_F64);
    train_embeddings();
    adagrad_by_rows();
    sentences();
    recurrent("gru", TG_F32, false);
    recurrent("gru f64", TG_F64, false);
    recurrent("lstm", TG_F32, true);
    bag_classifier();
    recommender();
    word2vec();
    encoder_classifier();
    wide_layers("wide", TG_F32);
    wide_layers("wide f64", TG_F64);
    return fflush(stdout) == 0 ? 0 : 1;
}
