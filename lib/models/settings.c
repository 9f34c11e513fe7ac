/* settings: the config of a model from the settings of a config.json, and back.
 *
 * Back, a family keeps only the settings that its tables have. So a config that does not survive the way to the
 * settings and back is one that no model of that family has.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/family.h"
#include "models/gpt.h"

const tg_family *tg_family_at(int index)
{
    static const tg_family *const families[] = {&tg_gpt2_family,  &tg_llama_family, &tg_mistral_family,
                                                &tg_qwen2_family, &tg_qwen3_family, &tg_gemma3_family};
    return index < (int)(sizeof families / sizeof *families) ? families[index] : NULL;
}

/* ---- keys ---- */

bool tg_setting_is_replaced(const tg_family *f, const tg_setting *table, const char *key)
{
    const tg_setting *own = f->more_settings;
    while (own && own != table && own->kind != TG_SETTING_END && strcmp(own->key, key) != 0) {
        own++;
    }
    return own && own != table && own->kind != TG_SETTING_END;
}

/* Returns the key of a size or a number in a family's config.json. All families have one for each field that is
 * refused but these two. */
static const char *setting_of(const tg_family *f, size_t at)
{
    const tg_setting *tables[] = {f->more_settings, f->settings};
    for (int i = 0; i < 2; i++) {
        for (const tg_setting *row = tables[i]; row && row->kind != TG_SETTING_END; row++) {
            if (row->at == at && (row->kind == TG_SETTING_SIZE || row->kind == TG_SETTING_NUMBER)) {
                return row->key;
            }
        }
    }
    return at == TG_SETTING_AT(head_width) ? "head_dim" : "a dropout without a key";
}

/* Writes a problem about the value of a key. Returns false. */
static bool refuse(const tg_family *f, char problem[TG_GPT_PROBLEM], size_t at, double value, const char *rule)
{
    snprintf(problem, TG_GPT_PROBLEM, "%s is %.15g; it must %s", setting_of(f, at), value, rule);
    return false;
}

#define AT TG_SETTING_AT

/* The largest whole number that is found again in the scale of attention. */
#define MOST_SCALAR 1000000000

bool tg_settings_check(const tg_family *f, const tg_settings *s, char problem[TG_GPT_PROBLEM])
{
    const struct {
        size_t at;
        int64_t value, most;
    } sizes[] = {{AT(vocabulary), s->vocabulary, INT32_MAX},
                 {AT(context), s->context, INT64_MAX},
                 {AT(width), s->width, INT64_MAX},
                 {AT(layers), s->layers, TG_MOST_LAYERS},
                 {AT(heads), s->heads, INT64_MAX}};
    char rule[100];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most) {
            snprintf(rule, sizeof rule, "be from 1 to %lld", (long long)sizes[i].most);
            return refuse(f, problem, sizes[i].at, (double)sizes[i].value, rule);
        }
    }
    if (s->head_width == 0 && s->width % s->heads != 0) {
        snprintf(rule, sizeof rule, "divide %s, %lld", setting_of(f, AT(width)), (long long)s->width);
        return refuse(f, problem, AT(heads), (double)s->heads, rule);
    }
    if (s->key_heads > 0 && s->heads % s->key_heads != 0) {
        snprintf(rule, sizeof rule, "divide %s, %lld", setting_of(f, AT(heads)), (long long)s->heads);
        return refuse(f, problem, AT(key_heads), (double)s->key_heads, rule);
    }
    int64_t head_width = s->head_width > 0 ? s->head_width : s->width / s->heads;
    if (f->position == TG_POSITION_ROTARY && head_width % 2 != 0) {
        return refuse(f, problem, AT(head_width), (double)head_width, "be even");
    }
    if (s->query_scalar > MOST_SCALAR) {
        snprintf(rule, sizeof rule, "be null, or from 1 to %d", MOST_SCALAR);
        return refuse(f, problem, AT(query_scalar), (double)s->query_scalar, rule);
    }
    if (!(s->eps > 0)) {
        return refuse(f, problem, AT(eps), s->eps, "be above 0");
    }
    return (s->dropout[0] >= 0 && s->dropout[0] < 1) ||
           refuse(f, problem, AT(dropout), s->dropout[0], "be at least 0 and below 1");
}

/* ---- layers ---- */

/* Returns whether layer number `i` has a window. */
static bool slides(const tg_settings *s, int64_t i)
{
    if (s->layer_types > 0) {
        return s->is_sliding[i];
    }
    return s->has_window && s->window > 0 && i >= s->first_window_layer &&
           (s->window_pattern == 0 || (i + 1) % s->window_pattern != 0);
}

static bool repeats(const tg_settings *s, int64_t period)
{
    int64_t i = period;
    while (i < s->layers && slides(s, i) == slides(s, i - period)) {
        i++;
    }
    return i >= s->layers;
}

static bool rope_to_config(const tg_rope *rope, int64_t context, tg_rotary_config *rotary, char problem[TG_GPT_PROBLEM])
{
    *rotary = tg_rotary_config_default();
    rotary->base = rope->theta;
    rotary->float_angles = true;
    bool is_llama3 = rope->type == TG_ROPE_LLAMA3;
    if (rope->type != TG_ROPE_DEFAULT && !(rope->factor >= 1)) {
        snprintf(problem, TG_GPT_PROBLEM, "factor is %g; with this rope_type it must be at least 1", rope->factor);
        return false;
    }
    if (!(rope->theta > 1)) {
        snprintf(problem, TG_GPT_PROBLEM, "rope_theta is %g; it must be above 1", rope->theta);
        return false;
    }
    if (is_llama3 && !(rope->low > 0 && rope->low < rope->high)) {
        snprintf(problem, TG_GPT_PROBLEM,
                 "low_freq_factor is %g and high_freq_factor %g; the first one must be above 0 and below the other",
                 rope->low, rope->high);
        return false;
    }
    if (is_llama3) {
        rotary->llama3_factor = rope->factor;
        rotary->low_frequency_factor = rope->low;
        rotary->high_frequency_factor = rope->high;
        rotary->original_context = rope->original > 0 ? rope->original : context;
    } else if (rope->type == TG_ROPE_LINEAR) {
        rotary->position_scale = rope->factor;
    }
    return true;
}

static void rope_from_config(const tg_rotary_config *rotary, tg_rope *rope)
{
    bool is_llama3 = rotary->llama3_factor > 1, is_linear = rotary->position_scale > 1;
    *rope = (tg_rope){.type = is_llama3   ? TG_ROPE_LLAMA3
                              : is_linear ? TG_ROPE_LINEAR
                                          : TG_ROPE_DEFAULT,
                      .theta = rotary->base};
    if (is_llama3) {
        rope->factor = rotary->llama3_factor;
        rope->low = rotary->low_frequency_factor;
        rope->high = rotary->high_frequency_factor;
        rope->original = rotary->original_context;
    } else if (is_linear) {
        rope->factor = rotary->position_scale;
    }
}

static bool layers_to_config(const tg_family *f, const tg_settings *s, tg_gpt_config *c, char problem[TG_GPT_PROBLEM])
{
    if (s->layers < 1 || s->layers > TG_MOST_LAYERS) {
        snprintf(problem, TG_GPT_PROBLEM, "%lld layers; it must be 1 to %d", (long long)s->layers, TG_MOST_LAYERS);
        return false;
    }
    if (s->layer_types > 0 && s->layer_types != s->layers) {
        snprintf(problem, TG_GPT_PROBLEM, "layer_types has %lld layers; the model has %lld", (long long)s->layer_types,
                 (long long)s->layers);
        return false;
    }
    c->period = 1;
    while (c->period <= TG_GPT_PERIOD && !repeats(s, c->period)) {
        c->period++;
    }
    if (c->period > TG_GPT_PERIOD) {
        snprintf(problem, TG_GPT_PROBLEM, "the types of the layers do not repeat after 1 to %d of them", TG_GPT_PERIOD);
        return false;
    }
    for (int64_t i = 0; i < c->period; i++) {
        tg_gpt_layer *layer = &c->layers_of_period[i];
        layer->window = slides(s, i) ? s->window : 0;
        if (slides(s, i) && (!s->has_window || s->window < 1)) {
            snprintf(problem, TG_GPT_PROBLEM, "layer_types has sliding_attention, but no sliding_window is set");
            return false;
        }
        bool is_local = slides(s, i) && f->standard->sliding_rope.theta > 0;
        if (c->position == TG_POSITION_ROTARY &&
            !rope_to_config(is_local ? &s->sliding_rope : &s->rope, s->context, &layer->rotary, problem)) {
            return false;
        }
    }
    return true;
}

/* ---- both ways ---- */

bool tg_settings_to_config(const tg_family *f, const tg_settings *s, tg_gpt_config *c, char problem[TG_GPT_PROBLEM])
{
    *c = tg_gpt_config_default();
    c->vocabulary = s->vocabulary;
    c->context = s->context;
    c->width = s->width;
    c->hidden = s->hidden;
    c->layers = s->layers;
    c->heads = s->heads;
    c->key_heads = s->key_heads;
    c->head_width = s->head_width;
    c->eps = s->eps;
    c->dropout = s->dropout[0];
    c->tied_head = s->tied_head;
    c->qkv_bias = s->attention_bias;
    c->out_bias = s->attention_bias && f->has_out_bias;
    c->feed_forward_bias = s->feed_forward_bias ? TG_BIAS : TG_NO_BIAS;
    c->position = f->position;
    c->norm = f->norm;
    c->norm_after = f->norm_after;
    c->query_key_norm = f->query_key_norm;
    c->feed_forward = f->feed_forward;
    c->embedding_scale = f->scales_embeddings ? (float)sqrt((double)s->width) : 1;
    c->attention_scale = s->query_scalar > 0 ? 1 / sqrt((double)s->query_scalar) : TG_SCALE_OF_WIDTH;
    if (s->dropout[0] != s->dropout[1] || s->dropout[0] != s->dropout[2]) {
        snprintf(problem, TG_GPT_PROBLEM,
                 "%s is %g, %s %g and %s %g; it must be one probability in [0,1), the same for all three",
                 setting_of(f, AT(dropout[0])), s->dropout[0], setting_of(f, AT(dropout[1])), s->dropout[1],
                 setting_of(f, AT(dropout[2])), s->dropout[2]);
        return false;
    }
    return layers_to_config(f, s, c, problem) && tg_gpt_config_complete(c, problem);
}

/* Copies the fields that the rows of a family's table are. */
static void copy_fields(const tg_family *f, const tg_setting *table, const tg_settings *from, tg_settings *to)
{
    const tg_setting *first = table;
    static const size_t sizes[] = {[TG_SETTING_SIZE] = sizeof(int64_t),         [TG_SETTING_NUMBER] = sizeof(double),
                                   [TG_SETTING_SWITCH] = sizeof(bool),          [TG_SETTING_CHOICE] = sizeof(int64_t),
                                   [TG_SETTING_ROPE] = sizeof(tg_rope),         [TG_SETTING_ROPES] = 0,
                                   [TG_SETTING_TOKENS] = sizeof(tg_special_ids)};
    for (; table && table->kind != TG_SETTING_END; table++) {
        if (tg_setting_is_replaced(f, first, table->key)) {
            continue;
        }
        size_t size = table->kind < sizeof sizes / sizeof *sizes ? sizes[table->kind] : 0;
        memcpy((char *)to + table->at, (const char *)from + table->at, size);
        if (table->kind == TG_SETTING_TYPES) {
            to->layer_types = from->layer_types;
            memcpy(to->is_sliding, from->is_sliding, sizeof to->is_sliding);
        } else if (table->kind == TG_SETTING_ROPES) {
            to->rope = from->rope;
            to->sliding_rope = from->sliding_rope;
        }
    }
}

/* Returns whether two numbers are one, up to roundings. */
static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(a);
}

static bool same_rotary(const tg_rotary_config *a, const tg_rotary_config *b)
{
    return a->base == b->base && a->pairing == b->pairing && a->position_scale == b->position_scale &&
           a->ntk_factor == b->ntk_factor && a->llama3_factor == b->llama3_factor &&
           (a->llama3_factor == 1 ||
            (a->low_frequency_factor == b->low_frequency_factor &&
             a->high_frequency_factor == b->high_frequency_factor && a->original_context == b->original_context));
}

/* Returns the name of a setting that two complete configs do not share; NULL if they are of one model, of which `b` may
 * have more biases if `has_more_biases`. */
static const char *difference(const tg_gpt_config *a, const tg_gpt_config *b, bool has_more_biases)
{
    bool has_bias = a->feed_forward_bias == TG_BIAS, other_has = b->feed_forward_bias == TG_BIAS;
    const struct {
        const char *name;
        bool is_same;
    } fields[] = {
        {"position", a->position == b->position},
        {"norm", a->norm == b->norm},
        {"norm_after", a->norm_after == b->norm_after},
        {"query_key_norm", a->query_key_norm == b->query_key_norm},
        {"feed_forward", a->feed_forward == b->feed_forward},
        {"vocabulary", a->vocabulary == b->vocabulary},
        {"context", a->context == b->context},
        {"width", a->width == b->width},
        {"hidden", a->hidden == b->hidden},
        {"layers", a->layers == b->layers},
        {"heads", a->heads == b->heads},
        {"key_heads", a->key_heads == b->key_heads},
        {"head_width", a->head_width == b->head_width},
        {"eps", is_near(a->eps, b->eps)},
        {"tied_head", a->tied_head == b->tied_head},
        {"qkv_bias", a->qkv_bias == b->qkv_bias || (has_more_biases && b->qkv_bias)},
        {"out_bias", a->out_bias == b->out_bias || (has_more_biases && b->out_bias)},
        {"feed_forward_bias", has_bias == other_has || (has_more_biases && other_has)},
        {"embedding_scale", (float)a->embedding_scale == (float)b->embedding_scale},
        {"attention_scale", is_near(a->attention_scale, b->attention_scale)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!fields[i].is_same) {
            return fields[i].name;
        }
    }
    for (int64_t i = 0; i < a->layers; i++) {
        const tg_gpt_layer *x = &a->layers_of_period[i % a->period], *y = &b->layers_of_period[i % b->period];
        if (x->window != y->window) {
            return "window";
        }
        if (a->position == TG_POSITION_ROTARY && !same_rotary(&x->rotary, &y->rotary)) {
            return "rotary";
        }
    }
    return NULL;
}

bool tg_settings_from_config(const tg_family *f, const tg_gpt_config *c, bool has_more_biases, tg_settings *s,
                             char problem[TG_GPT_PROBLEM])
{
    double scalar = 1 / (c->attention_scale * c->attention_scale);
    tg_settings all = {.vocabulary = c->vocabulary,
                       .context = c->context,
                       .width = c->width,
                       .hidden = c->hidden,
                       .layers = c->layers,
                       .heads = c->heads,
                       .key_heads = c->key_heads,
                       .head_width = c->head_width,
                       .eps = c->eps,
                       .dropout = {c->dropout, c->dropout, c->dropout},
                       .tied_head = c->tied_head,
                       .attention_bias = c->qkv_bias || c->out_bias,
                       .feed_forward_bias = c->feed_forward_bias == TG_BIAS,
                       .query_scalar = scalar >= 1 && scalar < MOST_SCALAR + 0.5 ? (int64_t)floor(scalar + 0.5) : 0,
                       .first_window_layer = c->layers,
                       .layer_types = c->layers <= TG_MOST_LAYERS ? c->layers : 0};
    for (int64_t i = 0; i < all.layer_types; i++) {
        const tg_gpt_layer *layer = &c->layers_of_period[i % c->period];
        all.is_sliding[i] = layer->window > 0;
        all.has_window = all.has_window || layer->window > 0;
        all.window = layer->window > 0 ? layer->window : all.window;
        rope_from_config(&layer->rotary, layer->window > 0 ? &all.sliding_rope : &all.rope);
    }
    if (all.rope.theta == 0) { /* all layers have a window */
        all.rope = all.sliding_rope;
    } else if (all.sliding_rope.theta == 0) {
        all.sliding_rope = all.rope;
    }
    *s = *f->standard;
    copy_fields(f, f->settings, &all, s);
    copy_fields(f, f->more_settings, &all, s);
    tg_gpt_config again;
    if (!tg_settings_to_config(f, s, &again, problem)) {
        return false;
    }
    const char *name = difference(c, &again, has_more_biases);
    if (name) {
        snprintf(problem, TG_GPT_PROBLEM, "no model of the type %s has this %s", f->name, name);
    }
    return !name;
}

/* Returns the family with this name, or NULL. */
static const tg_family *family_named(const char *name)
{
    int i = 0;
    const tg_family *f;
    while ((f = tg_family_at(i)) && f->name != name) {
        i++;
    }
    return f;
}

const tg_family *tg_family_of(const char *call, const tg_gpt *model, tg_settings *settings, tg_error *error)
{
    char problem[TG_GPT_PROBLEM], first[TG_GPT_PROBLEM] = "";
    const tg_gpt_config *c = &model->config;
    const tg_family *f = family_named(model->family);
    bool is_found = f != NULL;
    if (f && tg_settings_from_config(f, c, true, settings, first)) {
        return f;
    }
    for (int more_biases = 0; more_biases < 2; more_biases++) {
        for (int i = 0; (f = tg_family_at(i)); i++) {
            if (tg_settings_from_config(f, c, more_biases, settings, problem)) {
                return f;
            }
            /* why it is no model of GPT-2, or rather of the first family of its positions and norms */
            bool is_like = f->position == c->position && f->norm == c->norm;
            if (is_like ? !is_found : !*first) {
                memcpy(first, problem, sizeof first);
                is_found = is_like;
            }
        }
    }
    tg_error_set(error, TG_ERROR_VALUE,
                 "%s: no family of published models has such a model: %s; tg_params_save writes every model", call,
                 first);
    return NULL;
}
