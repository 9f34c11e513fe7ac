/* gpt_json: reads and writes config.json, the configuration of a GPT-2 in transformers. What it does not have is as in
 * transformers' GPT2Config. */
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "models/gpt_files.h"

/* ---- reading ---- */

/* Sets a VALUE error about a setting. Returns false. */
static bool refuse(tg_json *j, const char *key, const char *value, const char *rule)
{
    j->failed = true;
    return tg_error_set(j->error, TG_ERROR_VALUE, "%s: '%s': %s is %s; it must be %s", j->call, j->path, key, value,
                        rule);
}

static bool read_bool(tg_json *j, bool *value)
{
    *value = tg_json_word(j, "true");
    return *value || tg_json_word(j, "false") || tg_json_expected(j, "true or false");
}

/* Reads a text, which must be one of two. */
static bool expect_text(tg_json *j, const char *key, const char *a, const char *b)
{
    tg_json_text text;
    if (!tg_json_string(j, &text)) {
        return false;
    }
    if (strcmp(text.text, a) == 0 || strcmp(text.text, b) == 0) {
        return true;
    }
    char value[64], rule[64];
    snprintf(value, sizeof value, "'%.*s'", TG_CUT(text.text, 40));
    snprintf(rule, sizeof rule, a == b ? "%s" : "%s or %s", a, b);
    return refuse(j, key, value, rule);
}

static bool expect_bool(tg_json *j, const char *key, bool expected)
{
    bool value;
    return read_bool(j, &value) &&
           (value == expected || refuse(j, key, value ? "true" : "false", expected ? "true" : "false"));
}

static bool expect_epsilon(tg_json *j, const char *key)
{
    double value;
    char text[32];
    if (!tg_json_number(j, &value)) {
        return false;
    }
    snprintf(text, sizeof text, "%g", value);
    return value == 1e-5 || refuse(j, key, text, "1e-05");
}

static bool read_member(tg_json *j, const char *key, tg_gpt_json *c)
{
    const struct {
        const char *key;
        int64_t *size;
    } sizes[] = {{"vocab_size", &c->vocabulary},
                 {"n_positions", &c->context},
                 {"n_embd", &c->width},
                 {"n_layer", &c->layers},
                 {"n_head", &c->heads}};
    static const char *const dropouts[] = {"embd_pdrop", "attn_pdrop", "resid_pdrop"};
    static const struct {
        const char *key;
        bool value;
    } switches[] = {
        {"scale_attn_weights", true}, {"scale_attn_by_inverse_layer_idx", false}, {"add_cross_attention", false}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(key, sizes[i].key) == 0) {
            return tg_json_uint(j, sizes[i].size);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(key, dropouts[i]) == 0) {
            return tg_json_number(j, &c->dropout[i]);
        }
    }
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        if (strcmp(key, switches[i].key) == 0) {
            return expect_bool(j, key, switches[i].value);
        }
    }
    if (strcmp(key, "n_inner") == 0) {
        c->inner = -1;
        return tg_json_word(j, "null") || tg_json_uint(j, &c->inner);
    }
    if (strcmp(key, "model_type") == 0) {
        return expect_text(j, key, "gpt2", "gpt2");
    }
    if (strcmp(key, "activation_function") == 0) {
        return expect_text(j, key, "gelu_new", "gelu_pytorch_tanh");
    }
    if (strcmp(key, "layer_norm_epsilon") == 0) {
        return expect_epsilon(j, key);
    }
    return strcmp(key, "tie_word_embeddings") == 0 ? read_bool(j, &c->tied_head) : tg_json_skip(j);
}

/* Checks what several settings mean together. */
static bool check_gpt_json(tg_json *j, const tg_gpt_json *c)
{
    char value[96];
    const double *d = c->dropout;
    if (d[0] != d[1] || d[0] != d[2] || !(d[0] >= 0 && d[0] < 1)) {
        snprintf(value, sizeof value, "%g, attn_pdrop %g and resid_pdrop %g", d[0], d[1], d[2]);
        return refuse(j, "embd_pdrop", value, "one probability in [0,1), the same for all three");
    }
    if (c->inner >= 0 && (c->width < 0 || c->inner % 4 != 0 || c->inner / 4 != c->width)) {
        snprintf(value, sizeof value, "%lld", (long long)c->inner);
        return refuse(j, "n_inner", value, "null or 4 n_embd");
    }
    return true;
}

bool tg_gpt_json_read(const char *call, const char *path, tg_gpt_json *c, tg_error *error)
{
    *c = (tg_gpt_json){.vocabulary = -1,
                       .context = -1,
                       .width = -1,
                       .layers = -1,
                       .heads = 12,
                       .inner = -1,
                       .dropout = {0.1, 0.1, 0.1},
                       .tied_head = true};
    tg_json j = {.call = call, .path = path, .error = error};
    j.text = tg_file_read_text(call, path, &j.length, error);
    size_t members = 0;
    tg_json_text key;
    bool is_read = j.text && tg_json_check_utf8(&j) && tg_json_begin(&j, '{');
    while (is_read && tg_json_key(&j, &members, &key)) {
        is_read = read_member(&j, key.text, c);
    }
    is_read = is_read && !j.failed && tg_json_end(&j) && check_gpt_json(&j, c);
    tg_free(j.text);
    return is_read;
}

/* ---- writing ---- */

bool tg_gpt_json_write(const char *call, const char *path, const tg_gpt_config *c, int32_t end_token, tg_error *error)
{
    char text[1000], dropout[24], end[16] = "null";
    /* decimals of an integer: a double's point depends on the locale */
    double decimals = c->dropout * 1e15;
    snprintf(dropout, sizeof dropout, "0.%015lld",
             decimals < 999999999999999 ? (long long)(decimals + 0.5) : 999999999999999);
    if (end_token >= 0) {
        snprintf(end, sizeof end, "%d", (int)end_token);
    }
    int length = snprintf(text, sizeof text,
                          "{\n"
                          "  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                          "  \"model_type\": \"gpt2\",\n"
                          "  \"vocab_size\": %lld,\n"
                          "  \"n_positions\": %lld,\n"
                          "  \"n_embd\": %lld,\n"
                          "  \"n_layer\": %lld,\n"
                          "  \"n_head\": %lld,\n"
                          "  \"activation_function\": \"gelu_new\",\n"
                          "  \"layer_norm_epsilon\": 1e-05,\n"
                          "  \"tie_word_embeddings\": %s,\n"
                          "  \"attn_pdrop\": %s,\n"
                          "  \"embd_pdrop\": %s,\n"
                          "  \"resid_pdrop\": %s,\n"
                          "  \"bos_token_id\": %s,\n"
                          "  \"eos_token_id\": %s\n"
                          "}\n",
                          (long long)c->vocabulary, (long long)c->context, (long long)c->width, (long long)c->layers,
                          (long long)c->heads, c->tied_head ? "true" : "false", dropout, dropout, dropout, end, end);
    return tg_file_replace(call, path, text, (size_t)length, error);
}
