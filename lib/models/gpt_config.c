/* gpt_config: the configs of models. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "models/gpt.h"

#include <tapegrad/extend.h>

const char tg_gpt_config_mark[] = "tg_gpt_config_default";

tg_gpt_config tg_gpt_config_default(void)
{
    tg_gpt_config config = {.mark = tg_gpt_config_mark,
                            .norm = TG_NORM_LAYER,
                            .eps = 1e-5,
                            .feed_forward = TG_FEED_FORWARD_GELU,
                            .feed_forward_bias = TG_BIAS_OF_KIND,
                            .out_bias = true,
                            .embedding_scale = 1,
                            .attention_scale = TG_SCALE_OF_WIDTH,
                            .period = 1,
                            .position = TG_POSITION_LEARNED,
                            .path = TG_ATTENTION_FUSED};
    for (int i = 0; i < TG_GPT_PERIOD; i++) {
        config.layers_of_period[i].rotary = tg_rotary_config_default();
    }
    return config;
}

bool tg_gpt_config_from_name(const char *name, tg_gpt_config *config, tg_error *error)
{
    static const char call[] = "gpt_config_from_name";
    static const struct {
        const char *name;
        int64_t vocabulary, context, width, heads, layers;
        double dropout;
        bool tied_head;
    } named[] = {
        {"gpt2-small", 50257, 1024, 768, 12, 12, 0.1, false},
        {"gpt2-medium", 50257, 1024, 1024, 16, 24, 0.1, false},
        {"gpt2-large", 50257, 1024, 1280, 20, 36, 0.1, false},
        {"gpt2-xl", 50257, 1024, 1600, 25, 48, 0.1, false},
        {"tiny", 512, 128, 128, 4, 4, 0, true},
    };
    if (!name || !config) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, name ? "config" : "name");
    }
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (strcmp(name, named[i].name) == 0) {
            *config = tg_gpt_config_default();
            config->vocabulary = named[i].vocabulary;
            config->context = named[i].context;
            config->width = named[i].width;
            config->heads = named[i].heads;
            config->layers = named[i].layers;
            config->dropout = named[i].dropout;
            config->tied_head = named[i].tied_head;
            config->init = named[i].tied_head ? TG_GPT_INIT_GPT2 : TG_GPT_INIT_MODULES;
            return true;
        }
    }
    return tg_error_set(error, TG_ERROR_VALUE,
                        "%s: '%.*s'; it must be gpt2-small, gpt2-medium, gpt2-large, gpt2-xl or tiny", call,
                        TG_CUT(name, 40));
}

/* ---- checks ---- */

static bool found(char problem[TG_GPT_PROBLEM], const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* Writes a problem. Returns false. */
static bool found(char problem[TG_GPT_PROBLEM], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, TG_GPT_PROBLEM, format, arguments);
    va_end(arguments);
    return false;
}

static bool check_sizes(const tg_gpt_config *c, char problem[TG_GPT_PROBLEM])
{
    const struct {
        const char *name, *rule;
        int64_t value, least, largest;
    } sizes[] = {{"vocabulary", "must be set, from", c->vocabulary, 1, INT32_MAX},
                 {"context", "must be set, from", c->context, 1, INT64_MAX},
                 {"width", "must be set, from", c->width, 1, INT64_MAX},
                 {"heads", "must be set, from", c->heads, 1, INT64_MAX},
                 {"layers", "must be set, from", c->layers, 1, 100000},
                 {"key_heads", "must be 0, or from", c->key_heads, 0, c->heads},
                 {"head_width", "must be 0, or from", c->head_width, 0, INT64_MAX / (c->heads > 0 ? c->heads : 1)},
                 {"hidden", "must be 0, or from", c->hidden, 0, INT64_MAX},
                 {"period", "must be", c->period, 1, TG_GPT_PERIOD}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].largest) {
            return found(problem, "%s %lld; it %s 1 to %lld", sizes[i].name, (long long)sizes[i].value, sizes[i].rule,
                         (long long)sizes[i].largest);
        }
    }
    if (c->head_width == 0 && c->width % c->heads != 0) {
        return found(problem, "heads %lld do not divide width %lld", (long long)c->heads, (long long)c->width);
    }
    if (c->key_heads > 0 && c->heads % c->key_heads != 0) {
        return found(problem, "key_heads %lld do not divide heads %lld", (long long)c->key_heads, (long long)c->heads);
    }
    return c->hidden > 0 || c->width <= INT64_MAX / 4 ||
           found(problem, "width %lld; 4 times that is more than 2^63 - 1", (long long)c->width);
}

static bool check_kinds(const tg_gpt_config *c, char problem[TG_GPT_PROBLEM])
{
    const struct {
        const char *name;
        int value, largest;
    } kinds[] = {{"position", (int)c->position, TG_POSITION_NONE},
                 {"path", (int)c->path, TG_ATTENTION_ELEMENTARY},
                 {"init", (int)c->init, TG_GPT_INIT_GPT2},
                 {"norm", (int)c->norm, TG_NORM_RMS_PLUS_ONE},
                 {"feed_forward", (int)c->feed_forward, TG_FEED_FORWARD_GEGLU},
                 {"feed_forward_bias", (int)c->feed_forward_bias, TG_BIAS_OF_KIND}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].value < 0 || kinds[i].value > kinds[i].largest) {
            return found(problem, "%s %d does not exist; it must be 0 to %d", kinds[i].name, kinds[i].value,
                         kinds[i].largest);
        }
    }
    return true;
}

static bool check_numbers(const tg_gpt_config *c, char problem[TG_GPT_PROBLEM])
{
    if (!(c->dropout >= 0 && c->dropout < 1)) {
        return found(problem, "dropout %g is outside [0,1)", c->dropout);
    }
    if (!(c->eps > 0 && isfinite(c->eps))) {
        return found(problem, "eps %g; it must be finite and above 0", c->eps);
    }
    if (!isfinite(c->embedding_scale)) {
        return found(problem, "embedding_scale %g; it must be finite", c->embedding_scale);
    }
    if (c->attention_scale != TG_SCALE_OF_WIDTH && !(c->attention_scale >= 0 && isfinite(c->attention_scale))) {
        return found(problem, "attention_scale %g; it must be finite and at least 0, or TG_SCALE_OF_WIDTH",
                     c->attention_scale);
    }
    for (int64_t i = 0; i < c->period; i++) {
        if (c->layers_of_period[i].window < 0) {
            return found(problem, "layers_of_period[%lld] has window %lld; it must be at least 0", (long long)i,
                         (long long)c->layers_of_period[i].window);
        }
    }
    return true;
}

bool tg_gpt_config_complete(tg_gpt_config *c, char problem[TG_GPT_PROBLEM])
{
    if (!check_sizes(c, problem) || !check_kinds(c, problem) || !check_numbers(c, problem)) {
        return false;
    }
    bool has_bias = c->feed_forward_bias == TG_BIAS_OF_KIND ? c->feed_forward == TG_FEED_FORWARD_GELU
                                                            : c->feed_forward_bias == TG_BIAS;
    c->feed_forward_bias = has_bias ? TG_BIAS : TG_NO_BIAS;
    c->key_heads = c->key_heads > 0 ? c->key_heads : c->heads;
    c->head_width = c->head_width > 0 ? c->head_width : c->width / c->heads;
    c->hidden = c->hidden > 0 ? c->hidden : 4 * c->width;
    c->attention_scale = c->attention_scale == TG_SCALE_OF_WIDTH ? 1 / sqrt((double)c->head_width) : c->attention_scale;
    return true;
}
