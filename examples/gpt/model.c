#include "model.h"

#include "../common/program.h"

bool model_configure(const options *o, tg_gpt_config *config)
{
    const char *name = o->config ? o->config : "tiny";
    if (!tg_gpt_config_from_name(name, config, NULL)) {
        return complain("--config %s: must be gpt2-small, gpt2-medium, gpt2-large, gpt2-xl or tiny", name);
    }
    if (!o->config) {
        /* for the default text, which is short: a short context is faster, with a large vocabulary most tokens are
         * words, and without dropout the model would repeat the text where it knows it and stammer elsewhere */
        config->context = 64;
        config->vocabulary = 1024;
        config->dropout = 0.1;
    }
    config->layers = o->layers == AS_CONFIGURED ? config->layers : o->layers;
    config->heads = o->heads == AS_CONFIGURED ? config->heads : o->heads;
    config->width = o->width == AS_CONFIGURED ? config->width : o->width;
    config->context = o->context == AS_CONFIGURED ? config->context : o->context;
    config->dropout = o->dropout < 0 ? config->dropout : o->dropout;
    config->vocabulary = o->vocab_size == AS_CONFIGURED ? config->vocabulary : o->vocab_size;
    if (o->position && !tg_position_from_name(o->position, &config->position, NULL)) {
        return complain("--position %s: must be learned, sinusoidal, rotary, alibi, t5, shaw, transformer-xl, "
                        "relative-key, relative-key-query, deberta or none",
                        o->position);
    }
    if (config->position == TG_POSITION_ROTARY && config->width % (2 * config->heads) != 0) {
        return complain("--position rotary: the width of a head, %lld / %lld, must be even", (long long)config->width,
                        (long long)config->heads);
    }
    config->init = TG_GPT_INIT_GPT2;
    config->activation_checkpointing = o->activation_checkpointing;
    config->tied_head = o->tied || (config->tied_head && !o->untied);
    return config->width % config->heads == 0 || complain("%lld heads: must be a divisor of the width, %lld",
                                                          (long long)config->heads, (long long)config->width);
}

bool model_make(model *m, const tg_gpt_config *config, uint64_t seed)
{
    m->run = tg_run_new(seed);
    m->params = tg_params_new(m->run, TG_F32);
    m->gpt = tg_gpt_new(m->params, config);
    m->window = config->context;
    if (m->gpt) {
        return true;
    }
    complain("%s", tg_params_error(m->params)->text);
    model_free(m);
    return false;
}

void model_free(model *m)
{
    tg_gpt_free(m->gpt);
    tg_params_free(m->params);
    tg_run_free(m->run);
    *m = (model){0};
}

tg_tensor *model_loss(tg_tape *t, const model *m, const tg_batch *batch)
{
    /* (B,T) -> (B,T,V) -> a scalar */
    return m->is_published ? tg_gpt_loss(t, m->gpt, batch->inputs, batch->targets, NULL)
                           : tg_cross_entropy(t, tg_gpt_forward(t, m->gpt, batch->inputs, NULL), batch->targets, NULL);
}

tg_tape *tape_new(tg_run *run, bool reproducible, bool recycles)
{
    tg_tape_config config = tg_tape_config_default();
    config.recycle = recycles;
    tg_tape *t = tg_tape_new(run, &config);
    tg_tape_set_reproducible(t, reproducible);
    tg_rng_set_profile(tg_run_rng(run), reproducible ? TG_RNG_PORTABLE : TG_RNG_AVX2);
    if (!t || tg_tape_error(t)->code != TG_OK) {
        complain("%s", t ? tg_tape_error(t)->text : "out of memory");
        tg_tape_free(t);
        return NULL;
    }
    return t;
}

tg_tape *quiet_tape_new(tg_run *run, bool reproducible, bool recycles)
{
    tg_tape *t = tape_new(run, reproducible, recycles);
    tg_evaluation_begin(t);
    return t;
}
