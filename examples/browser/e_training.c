/* e: training. The vector of a token has to predict the token that follows. Tokens that are followed by the same ones
 * get similar gradients, and their vectors move to similar places. */
#include "station.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 600, WIDTH = 16, CONTEXT = 8, BATCH = 8, MOST_TEXT = 100000, MOST_STEPS = 64 };

/* the tokens of the map, and the number of their earlier places that a trail has */
enum { WORDS = 40, PLACES = 24 };

/* The training of a visitor, and the one before, which goes on if a new one cannot begin. */
static struct training {
    tg_tokenizer *bpe;
    bool owns_bpe;
    tg_tokens tokens;
    tg_run *run;
    tg_params *params;
    tg_nn_embedding embedding;
    tg_nn_positional positions;
    tg_nn_linear head;
    tg_optim *adam;
    tg_loader *loader;
    tg_tape *tape;
    tg_tensor *before;
    int64_t step;
    int words;
    int32_t word[WORDS];
    /* the words' vectors at earlier steps, one after every `every` steps, and the directions of the map */
    float place[(PLACES + 1) * WORDS * WIDTH];
    int places;
    int64_t every;
    float direction[WIDTH * 2];
} now, old;

static void end_training(struct training *ended)
{
    tg_tape_free(ended->tape);
    tg_loader_free(ended->loader);
    tg_optim_free(ended->adam);
    tg_params_free(ended->params);
    tg_run_free(ended->run);
    tg_release(ended->before);
    tg_tokens_free(&ended->tokens);
    if (ended->owns_bpe) {
        tg_tokenizer_free(ended->bpe);
    }
}

/* ---- the words of the map ---- */

/* Whether a token is a whole word: a space, and letters. In a text with other letters, any token of letters. */
static bool is_word(int32_t id, bool with_space)
{
    size_t length, letters = 0;
    const unsigned char *bytes = (const unsigned char *)tg_tokenizer_bytes(now.bpe, id, &length);
    size_t begin = length > 0 && bytes[0] == ' ' ? 1 : 0;
    for (size_t i = begin; i < length; i++) {
        letters += (bytes[i] >= 'a' && bytes[i] <= 'z') || (bytes[i] >= 'A' && bytes[i] <= 'Z') || bytes[i] >= 0x80;
    }
    bool is_whole = length > begin && (bytes[begin] & 0xc0) != 0x80 && (bytes[length - 1] < 0x80 || letters % 3 == 0);
    return is_whole && letters == length - begin && letters >= 3 && (begin == 1 || !with_space);
}

/* Chooses the most frequent words. */
static void choose_words(void)
{
    int32_t count = tg_tokenizer_vocabulary(now.bpe);
    int64_t *times = calloc((size_t)count, sizeof *times);
    for (int64_t i = 0; times && i < now.tokens.count; i++) {
        times[now.tokens.ids[i]]++;
    }
    for (int with_space = 1; times && with_space >= 0 && now.words < WORDS / 2; with_space--) {
        for (int32_t most = 0; now.words < WORDS && most >= 0;) {
            most = -1;
            for (int32_t id = 0; id < count; id++) {
                if (times[id] > 1 && is_word(id, with_space) && (most < 0 || times[id] > times[most])) {
                    most = id;
                }
            }
            if (most >= 0) {
                now.word[now.words++] = most;
                times[most] = 0;
            }
        }
    }
    free(times);
}

/* ---- the map ---- */

/* Copies the words' vectors behind the kept ones. */
static void copy_words(void)
{
    const float *table = tg_tensor_data(now.embedding.weight);
    for (int i = 0; i < now.words; i++) {
        memcpy(now.place + (now.places * now.words + i) * WIDTH, table + now.word[i] * WIDTH, WIDTH * sizeof *table);
    }
}

/* Keeps the words' vectors of this step. When the list is full, every other entry is dropped. */
static void keep_place(void)
{
    if (now.step % now.every != 0) {
        return;
    }
    int values = now.words * WIDTH;
    if (now.places == PLACES) {
        now.every *= 2;
        now.places = PLACES / 2;
        for (int i = 1; i < now.places; i++) {
            memcpy(now.place + i * values, now.place + 2 * i * values, (size_t)values * sizeof *now.place);
        }
        if (now.step % now.every != 0) {
            return;
        }
    }
    copy_words();
    now.places++;
}

/* Returns the two directions in which the words differ most, (WIDTH,2), by power iteration. The covariance is x^T x of
 * the centered vectors x. */
static tg_tensor *principal_directions(tg_tape *t, tg_tensor *x)
{
    /* shown: pca */
    tg_tensor *covariance = tg_matmul(t, tg_transpose(t, x, 0, 1), x);
    tg_tensor *first = tg_constant_f32(t, TG_SHAPE(WIDTH, 1), now.direction);
    tg_tensor *second = tg_constant_f32(t, TG_SHAPE(WIDTH, 1), now.direction + WIDTH);
    for (int i = 0; i < 10; i++) {
        first = tg_matmul(t, covariance, first);
        first = tg_div(t, first, tg_norm(t, first, 2, TG_ALL_AXES, TG_DROP_AXES));
        second = tg_matmul(t, covariance, second);
        second = tg_sub(t, second, tg_mul(t, first, tg_sum_all(t, tg_mul(t, first, second))));
        second = tg_div(t, second, tg_norm(t, second, 2, TG_ALL_AXES, TG_DROP_AXES));
    }
    /* end */
    tg_tensor *both[] = {first, second};
    return tg_cat(t, both, 2, 1);
}

/* Writes where the words are on the map, at each kept step and now: [place][word][x,y]. */
static bool write_map(tg_error *error)
{
    if (now.words < 3) {
        return true;
    }
    tg_tape *t = now.tape;
    tg_evaluation before = tg_evaluation_begin(t);
    tg_tape_reset(t);
    tg_tensor *ids = tg_constant_i32(t, TG_SHAPE(now.words), now.word);
    tg_tensor *vectors = tg_nn_embedding_forward(t, &now.embedding, ids);
    tg_tensor *mean = tg_mean(t, vectors, TG_AXES(0), TG_KEEP_AXES);
    tg_tensor *directions = principal_directions(t, tg_sub(t, vectors, mean));
    copy_words();
    tg_tensor *all = tg_constant_f32(t, TG_SHAPE((now.places + 1) * now.words, WIDTH), now.place);
    const float *at = tg_tensor_data(tg_matmul(t, tg_sub(t, all, mean), directions));
    json_key("map");
    json_open('[');
    for (int i = 0; at && i < (now.places + 1) * now.words; i++) {
        if (i % now.words == 0) {
            json_open('[');
        }
        json_open('[');
        /* in thousandths, because whole numbers are written much faster */
        json_int((int64_t)(1000 * at[2 * i]));
        json_int((int64_t)(1000 * at[2 * i + 1]));
        json_close(']');
        if (i % now.words == now.words - 1) {
            json_close(']');
        }
    }
    json_close(']');
    if (!tape_is_good(t, error)) {
        return false;
    }
    for (int k = 0; k < 2 * WIDTH; k++) {
        double value = tg_tensor_value_at(directions, k % WIDTH * 2 + k / WIDTH);
        now.direction[k] = isfinite(value) ? (float)value : k % WIDTH == k / WIDTH;
    }
    bool good = tape_is_good(t, error);
    tg_tape_reset(t);
    tg_evaluation_end(t, before);
    return good;
}

/* ---- requests ---- */

static int32_t id_of(const char *word)
{
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(now.bpe); id++) {
        size_t length;
        const char *bytes = tg_tokenizer_bytes(now.bpe, id, &length);
        if (length == strlen(word) && memcmp(bytes, word, length) == 0) {
            return id;
        }
    }
    return -1;
}

/* The cosine of two rows: 2 neighbors are asked for among one row. */
static double cosine(const tg_tensor *table, int32_t a, int32_t b)
{
    uint8_t among[VOCABULARY] = {0};
    tg_row_neighbor near[1] = {{0, 0}};
    among[b] = 1;
    tg_tensor_row_neighbors(table, a, among, near, 1, NULL);
    return near[0].similarity;
}

static bool write_state(tg_error *error)
{
    json_key("step");
    json_int(now.step);
    json_key("bits");
    json_bits(now.embedding.weight);
    int32_t red = id_of(" red"), blue = id_of(" blue");
    json_key("has_pair");
    json_bool(red >= 0 && blue >= 0);
    if (red >= 0 && blue >= 0) {
        json_key("pair_before");
        json_figure(cosine(now.before, red, blue), 2);
        json_key("pair_now");
        json_figure(cosine(now.embedding.weight, red, blue), 2);
    }
    return write_map(error);
}

static bool build(const char *text, size_t length, double lr, tg_error *error)
{
    if (!tg_tokenizer_encode(now.bpe, text, length, false, &now.tokens, error)) {
        return false;
    }
    int32_t vocabulary = tg_tokenizer_vocabulary(now.bpe);
    /* shown: model */
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "tok_emb", vocabulary, WIDTH, NULL);
    tg_nn_positional positions = tg_nn_positional_make(params, "pos_emb", TG_POSITION_LEARNED, CONTEXT, WIDTH, NULL);
    tg_nn_linear head = tg_nn_linear_make(params, "head", WIDTH, vocabulary, TG_BIAS);
    /* end */
    tg_adam_config config = tg_adam_config_default();
    config.lr = lr;
    tg_loader_config windows = tg_loader_config_default();
    windows.context = CONTEXT;
    windows.stride = CONTEXT;
    windows.batch_size = BATCH;
    windows.shuffle = true;
    now.run = run;
    now.params = params;
    now.embedding = embedding;
    now.positions = positions;
    now.head = head;
    now.adam = tg_adam_new(params, &config);
    now.tape = station_tape(run);
    now.loader = tg_loader_new(run, now.tokens.ids, now.tokens.count, &windows);
    now.before = tg_tensor_new_copy(embedding.weight, error);
    now.every = 1;
    now.direction[0] = now.direction[WIDTH + 1] = 1;
    choose_words();
    keep_place();
    return now.before && tape_is_good(now.tape, error);
}

/* e.reset RATE [OWN]: begins a training on the story, or on the text after the newline. */
static bool reset(const request *r, tg_error *error)
{
    static const double rates[] = {0.003, 0.01, 0.03};
    double lr = rates[request_number(r, 0, 0, 2, 1)];
    size_t length = r->length;
    const char *text = r->text;
    bool is_own = r->count > 1;
    if (is_own && (length < 200 || length > MOST_TEXT)) {
        return refuse(error, "the text has %lld bytes; it needs 200 to %d", (long long)length, MOST_TEXT);
    }
    old = now;
    memset(&now, 0, sizeof now);
    if (is_own) {
        now.owns_bpe = true;
        now.bpe = tg_tokenizer_train(text, length, VOCABULARY, error);
    } else {
        text = lighthouse_text(&length);
        now.bpe = lighthouse_tokenizer(error);
    }
    if (!now.bpe || !build(text, length, lr, error)) {
        end_training(&now);
        now = old;
        return false;
    }
    end_training(&old);
    json_key("vocabulary");
    json_int(tg_tokenizer_vocabulary(now.bpe));
    json_key("tokens");
    json_int(now.tokens.count);
    json_key("parameters");
    json_int(tg_params_value_count(now.params));
    json_key("guess");
    json_figure(log((double)tg_tokenizer_vocabulary(now.bpe)), 4);
    json_key("guess_value");
    json_number(log((double)tg_tokenizer_vocabulary(now.bpe)));
    /* the numbers beside the curve of the loss */
    json_key("ticks");
    json_open('[');
    for (int loss = 0; loss < log((double)tg_tokenizer_vocabulary(now.bpe)) - 0.5; loss += 2) {
        json_int(loss);
    }
    json_close(']');
    json_key("words");
    json_open('[');
    for (int i = 0; i < now.words; i++) {
        json_open('{');
        json_key("id");
        json_int(now.word[i]);
        json_key("token");
        json_token(now.bpe, now.word[i]);
        json_close('}');
    }
    json_close(']');
    return write_state(error);
}

/* e.train N: makes N steps. */
static bool train(const request *r, tg_error *error)
{
    tg_tape *t = now.tape;
    double value = NAN;
    json_key("losses");
    json_open('[');
    for (int64_t i = 0; i < request_number(r, 0, 1, MOST_STEPS, 1); i++) {
        tg_batch b;
        if (!tg_loader_next(now.loader, &b)) {
            tg_loader_next(now.loader, &b);
        }
        /* shown: step */
        tg_tape_reset(t);
        tg_tensor *x = tg_nn_embedding_forward(t, &now.embedding, b.inputs);
        x = tg_nn_positional_forward(t, &now.positions, x, 0);
        tg_tensor *loss = tg_cross_entropy(t, tg_nn_linear_forward(t, &now.head, x), b.targets, NULL);
        tg_optim_zero_grad(now.adam);
        tg_backward(t, loss, NULL);
        tg_optim_step(now.adam);
        /* end */
        if (!tape_is_good(t, error)) {
            return false;
        }
        now.step++;
        value = tg_tensor_item(loss, error);
        json_number(value);
        keep_place();
    }
    json_close(']');
    json_key("loss");
    json_figure(value, 4);
    return write_state(error);
}

/* e.neighbors ID: the nearest words of a word, before the training and now. */
static bool neighbors(const request *r, tg_error *error)
{
    enum { NEAREST = 5 };
    int64_t id = request_number(r, 0, 0, tg_tokenizer_vocabulary(now.bpe) - 1, now.words > 0 ? now.word[0] : 0);
    uint8_t among[VOCABULARY] = {0};
    for (int i = 0; i < now.words; i++) {
        among[now.word[i]] = 1;
    }
    json_key("token");
    json_token(now.bpe, (int32_t)id);
    for (int after = 0; after < 2; after++) {
        tg_row_neighbor near[NEAREST];
        /* shown: neighbors */
        const tg_tensor *table = after ? now.embedding.weight : now.before;
        int64_t count = tg_tensor_row_neighbors(table, id, among, near, NEAREST, error);
        /* end */
        json_key(after ? "now" : "before");
        json_open('[');
        for (int64_t i = 0; i < count; i++) {
            json_open('{');
            json_key("token");
            json_token(now.bpe, (int32_t)near[i].row);
            json_key("cosine");
            json_figure(near[i].similarity, 2);
            json_close('}');
        }
        json_close(']');
    }
    return error->code == TG_OK;
}

bool station_training(const request *r, tg_error *error)
{
    if (strcmp(r->name, "reset") == 0) {
        return reset(r, error);
    }
    if (!now.tape) {
        return refuse(error, "e.%s: e.reset has to begin a training first", r->name);
    }
    return strcmp(r->name, "train") == 0       ? train(r, error)
           : strcmp(r->name, "neighbors") == 0 ? neighbors(r, error)
                                               : refuse(error, "e.%s: unknown request", r->name);
}
