/* c: positions. Attention adds up vectors, and a sum does not know the order. A vector for each position, added to the
 * token's, tells it. */
#include "station.h"

#include <math.h>
#include <string.h>

enum { WORDS = 6, WIDTH = 4, LENGTH = 16, MAP_WIDTH = 16, HEADS = 2 };

static bool sum(tg_tape *t, tg_error *error)
{
    /* shown: sum */
    tg_tensor *token = tg_constant_f32(t, TG_SHAPE(3), (float[]){0.5f, -0.2f, 0.1f});
    tg_tensor *position = tg_constant_f32(t, TG_SHAPE(3), (float[]){0.1f, 0.3f, -0.1f});
    tg_tensor *x = tg_add(t, token, position);
    /* end */
    if (!tape_is_good(t, error)) {
        return false;
    }
    json_key("token");
    json_tensor(token, 1);
    json_key("position");
    json_tensor(position, 1);
    json_key("sum");
    json_tensor(x, 1);
    return true;
}

/* What attention computes for each word of a sentence, (1,WORDS,WIDTH). */
static tg_tensor *read_sentence(tg_tape *t, tg_params *params, bool with_positions, const int32_t *order)
{
    tg_nn_embedding tokens = tg_nn_embedding_make(params, "tok_emb", WORDS, WIDTH, NULL);
    tg_nn_positional positions = tg_nn_positional_make(params, "pos_emb", TG_POSITION_LEARNED, WORDS, WIDTH, NULL);
    tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "att", WIDTH, WIDTH, 1, NULL);
    /* shown: sentence */
    tg_tensor *ids = tg_constant_i32(t, TG_SHAPE(1, WORDS), order);
    tg_tensor *x = tg_nn_embedding_forward(t, &tokens, ids);
    if (with_positions) {
        x = tg_nn_positional_forward(t, &positions, x, 0);
    }
    tg_tensor *y = tg_nn_multihead_attention_forward(t, &attention, x, NULL);
    /* end */
    return y;
}

static void write_rows(const char *key, const tg_tensor *y)
{
    json_key(key);
    json_open('[');
    for (int i = 0; i < WORDS; i++) {
        json_open('[');
        for (int k = 0; k < WIDTH; k++) {
            json_figure(tg_tensor_value_at(y, i * WIDTH + k), 4);
        }
        json_close(']');
    }
    json_close(']');
}

/* The sentence in both orders: "first" and "second", and how far each word's vector has moved. */
static bool sentence(tg_tape *t, tg_run *run, bool with_positions, tg_error *error)
{
    static const int32_t order[2][WORDS] = {{0, 1, 2, 3, 4, 5}, {0, 5, 2, 3, 4, 1}};
    tg_tensor *y[2];
    tg_params *params[2];
    for (int k = 0; k < 2; k++) {
        tg_rng_seed(tg_run_rng(run), 123);
        params[k] = tg_params_new(run, TG_F32);
        y[k] = read_sentence(t, params[k], with_positions, order[k]);
    }
    bool good = tape_is_good(t, error);
    if (good) {
        write_rows("first", y[0]);
        write_rows("second", y[1]);
        double most = 0;
        json_key("differs");
        json_open('[');
        for (int i = 0; i < WORDS; i++) {
            double apart = 0;
            for (int k = 0; k < WIDTH; k++) {
                apart = fmax(apart, fabs(tg_tensor_value_at(y[0], order[1][i] * WIDTH + k) -
                                         tg_tensor_value_at(y[1], i * WIDTH + k)));
            }
            json_bool(apart > 1e-5);
            most = fmax(most, apart);
        }
        json_close(']');
        json_key("difference");
        json_format("%.2g", most);
    }
    tg_tape_reset(t);
    tg_params_free(params[0]);
    tg_params_free(params[1]);
    return good;
}

/* ---- heat maps ---- */

static void write_heat(const char *key, const tg_tensor *x, int64_t values, int64_t width)
{
    json_key(key);
    json_open('[');
    for (int64_t i = 0; i < values; i++) {
        if (i % width == 0) {
            json_open('[');
        }
        json_number(tg_tensor_value_at(x, i));
        if (i % width == width - 1) {
            json_close(']');
        }
    }
    json_close(']');
}

/* c.map KIND: the weights of attention between 16 equal tokens, so that only their positions matter. */
static bool map(const request *r, tg_tape *t, tg_params *params, tg_error *error)
{
    tg_position kind = (tg_position)request_number(r, 0, TG_POSITION_LEARNED, TG_POSITION_NONE, TG_POSITION_LEARNED);
    /* shown: map */
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = HEADS;
    tg_nn_embedding tokens = tg_nn_embedding_make(params, "tok_emb", 1, MAP_WIDTH, NULL);
    tg_nn_positional positions = tg_nn_positional_make(params, "pos_emb", kind, LENGTH, MAP_WIDTH, &config);
    tg_nn_multihead_attention_config relative = tg_nn_multihead_attention_config_default();
    bool is_absolute = kind == TG_POSITION_LEARNED || kind == TG_POSITION_SINUSOIDAL || kind == TG_POSITION_NONE;
    relative.positional = is_absolute ? NULL : &positions;
    tg_nn_multihead_attention attention =
        tg_nn_multihead_attention_make(params, "att", MAP_WIDTH, MAP_WIDTH, HEADS, &relative);
    tg_tensor *weights;
    tg_nn_multihead_attention_forward_config look = tg_nn_multihead_attention_forward_config_default();
    look.weights = &weights;
    tg_tensor *ids = tg_full(t, TG_I32, TG_SHAPE(1, LENGTH), 0);
    tg_tensor *x = tg_nn_positional_forward(t, &positions, tg_nn_embedding_forward(t, &tokens, ids), 0);
    tg_nn_multihead_attention_forward(t, &attention, x, &look);
    /* end */
    if (tg_params_error(params)->code != TG_OK) {
        *error = *tg_params_error(params);
        return false;
    }
    if (!tape_is_good(t, error)) {
        return false;
    }
    json_key("name");
    json_text(tg_position_name(kind));
    write_heat("weights", weights, (int64_t)LENGTH * LENGTH, LENGTH);
    double least = 1, most = 0;
    for (int64_t i = 0; i < (int64_t)LENGTH * LENGTH; i++) {
        least = fmin(least, tg_tensor_value_at(weights, i));
        most = fmax(most, tg_tensor_value_at(weights, i));
    }
    json_key("least");
    json_figure(least, 4);
    json_key("most");
    json_figure(most, 4);
    json_key("is_flat");
    json_bool(most - least < 1e-6);
    json_key("is_absolute");
    json_bool(is_absolute && kind != TG_POSITION_NONE);
    if (is_absolute && kind != TG_POSITION_NONE) {
        write_heat("table", positions.weight, (int64_t)LENGTH * MAP_WIDTH, MAP_WIDTH);
        double largest = 0;
        for (int64_t i = 0; i < (int64_t)LENGTH * MAP_WIDTH; i++) {
            largest = fmax(largest, fabs(tg_tensor_value_at(positions.weight, i)));
        }
        json_key("table_least");
        json_figure(-largest, 2);
        json_key("table_most");
        json_figure(largest, 2);
    }
    return true;
}

bool station_positions(const request *r, tg_error *error)
{
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *t = station_tape(run);
    bool good = strcmp(r->name, "sum") == 0        ? sum(t, error)
                : strcmp(r->name, "sentence") == 0 ? sentence(t, run, request_number(r, 0, 0, 1, 0) == 1, error)
                : strcmp(r->name, "map") == 0      ? map(r, t, params, error)
                                                   : refuse(error, "c.%s: unknown request", r->name);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
    return good;
}
