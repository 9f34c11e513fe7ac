#include "model.h"

#include <math.h>
#include <string.h>

#include "../common/program.h"

bool model_configure(const options *o, tg_gpt_config *config)
{
    const char *name = o->config ? o->config : "tiny";
    if (!tg_gpt_config_from_name(name, config, NULL)) {
        return complain("--config %s: must be gpt2-small, gpt2-medium, gpt2-large, gpt2-xl or tiny", name);
    }
    /* the default text is short, and training on it is faster with a short context */
    config->context = o->config ? config->context : 64;
    config->layers = o->layers == AS_CONFIGURED ? config->layers : o->layers;
    config->heads = o->heads == AS_CONFIGURED ? config->heads : o->heads;
    config->width = o->width == AS_CONFIGURED ? config->width : o->width;
    config->context = o->context == AS_CONFIGURED ? config->context : o->context;
    config->dropout = o->dropout < 0 ? config->dropout : o->dropout;
    config->vocabulary = o->vocab_size == AS_CONFIGURED ? config->vocabulary : o->vocab_size;
    if (o->position && !tg_position_from_name(o->position, &config->position, NULL)) {
        return complain("--position %s: must be learned, sinusoidal, rotary, alibi, t5, shaw, transformer-xl or none",
                        o->position);
    }
    if (config->position == TG_POSITION_ROTARY && config->width % (2 * config->heads) != 0) {
        return complain("--position rotary: the width of a head, %lld / %lld, must be even", (long long)config->width,
                        (long long)config->heads);
    }
    config->tied_head = o->tied || (config->tied_head && !o->untied);
    return config->width % config->heads == 0 || complain("--heads %lld: must be a divisor of the width, %lld",
                                                          (long long)config->heads, (long long)config->width);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Sets GPT-2's initial values. A table of N(0,1), PyTorch's default, has values too large for a tied head. */
static bool draw_as_gpt2(model *m, tg_error *error)
{
    const double std = 0.02, shortcuts = 2.0 * (double)tg_gpt_get_config(m->gpt)->layers;
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        tg_entry entry = tg_params_at(m->params, i);
        bool onto_shortcut = ends_with(entry.name, "out_proj.weight") || ends_with(entry.name, "ff.layers.2.weight");
        if (entry.kind == TG_ENTRY_PARAMETER && ends_with(entry.name, ".weight") &&
            !tg_tensor_fill_normal(entry.tensor, m->rng, 0, onto_shortcut ? std / sqrt(shortcuts) : std, error)) {
            return false;
        }
        if (entry.kind == TG_ENTRY_PARAMETER && ends_with(entry.name, ".bias") &&
            !tg_tensor_fill(entry.tensor, 0, error)) {
            return false;
        }
    }
    return true;
}

bool model_make(model *m, const tg_gpt_config *config, uint64_t seed)
{
    tg_error error = TG_NO_ERROR;
    m->rng = tg_rng_new(seed);
    m->params = tg_params_new(TG_F32, m->rng);
    m->gpt = tg_gpt_new(m->params, config);
    if (m->gpt && draw_as_gpt2(m, &error)) {
        return true;
    }
    complain("%s", m->gpt ? error.text : tg_params_error(m->params)->text);
    model_free(m);
    return false;
}

void model_free(model *m)
{
    tg_gpt_free(m->gpt);
    tg_params_free(m->params);
    tg_rng_free(m->rng);
    *m = (model){0};
}

tg_tape *quiet_tape_new(tg_rng *rng)
{
    tg_tape *t = tg_tape_new(rng, NULL);
    if (!t) {
        complain("out of memory");
        return NULL;
    }
    tg_tape_set_recording(t, false);
    tg_tape_set_training(t, false);
    return t;
}
