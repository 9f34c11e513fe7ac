/* import: reads the weights of a GPT-2 that another program has written, and writes them as a checkpoint. */
#include <string.h>

#include "../common/program.h"
#include "../common/terminal.h"
#include "commands.h"

static bool save(const model *m, const tg_tokenizer *bpe, const char *folder)
{
    tg_error error = TG_NO_ERROR;
    char config[CONFIG_TEXT];
    size_t length = 0;
    char *vocabulary = bpe ? tg_tokenizer_text(bpe, &length, &error) : NULL;
    const tg_checkpoint_part parts[] = {
        tg_checkpoint_params(MODEL_PART, m->params),
        tg_checkpoint_text(CONFIG_PART, config_text(tg_gpt_get_config(m->gpt), config)),
        tg_checkpoint_bytes(VOCABULARY_PART, vocabulary, (int64_t)length),
    };
    bool is_ready = (vocabulary || !bpe) && folder_make(folder);
    tg_checkpoint_folder *checkpoints = is_ready ? tg_checkpoint_folder_open(folder, NULL, &error) : NULL;
    bool is_saved = checkpoints && tg_checkpoint_folder_save(checkpoints, 0, false, parts, bpe ? 3 : 2, &error);
    tg_checkpoint_folder_free(checkpoints);
    tg_text_free(vocabulary);
    return is_saved || error.code == TG_OK ? is_saved : complain("%s", error.text);
}

/* Returns whether a checkpoint can describe the model. */
static bool is_describable(const model *m, const char *from)
{
    const tg_gpt_config *c = tg_gpt_get_config(m->gpt);
    return (c->position == TG_POSITION_LEARNED && c->hidden == 4 * c->width && c->eps == 1e-5) ||
           complain(
               "--from %s: is no GPT-2 of the usual sizes; the other commands take the folder itself, gpt train too",
               from);
}

/* Reads the model and its vocabulary. */
static bool read_model(const options *o, model *m, tg_tokenizer **bpe)
{
    tg_error error = TG_NO_ERROR;
    tg_gpt_open_config config = tg_gpt_open_config_default();
    config.names = strcmp(o->layout, "course") == 0 ? TG_GPT_NAMES_COURSE : TG_GPT_NAMES_TRANSFORMERS;
    config.heads = o->heads == AS_CONFIGURED ? TG_HEADS_OF_FILE : o->heads;
    m->run = tg_run_new(0);
    m->params = tg_params_new(m->run, TG_F32);
    m->gpt = tg_gpt_open(m->params, o->from, &config);
    if (!m->gpt) {
        return complain("%s", tg_params_error(m->params)->text);
    }
    if (!is_describable(m, o->from)) {
        return false;
    }
    const char *vocabulary = o->vocab || !has_vocabulary(o->from) ? o->vocab : o->from;
    *bpe = vocabulary ? tg_tokenizer_open(vocabulary, NULL, &error) : NULL;
    if (vocabulary && !*bpe) {
        return complain("%s", error.text);
    }
    return vocabulary_fits(*bpe, m);
}

static void show(const model *m, const tg_tokenizer *bpe, const char *folder)
{
    const tg_gpt_config *c = tg_gpt_get_config(m->gpt);
    printf("%lld layers, %lld heads, width %lld, context %lld, vocabulary %lld, head %s: %lld parameters\n",
           (long long)c->layers, (long long)c->heads, (long long)c->width, (long long)c->context,
           (long long)c->vocabulary, c->tied_head ? "tied" : "untied", (long long)tg_params_value_count(m->params));
    print_line(stdout, "Written to %s%s", folder, bpe ? ", with the vocabulary" : "; no vocabulary was found");
}

int import(const options *o)
{
    model m = {0};
    tg_tokenizer *bpe = NULL;
    if (!o->from || !o->out) {
        complain("import: the options must have --from FILE and --out DIR");
        return 2;
    }
    char *trained = tg_checkpoint_find(o->out, TG_CHECKPOINT_LAST, NULL);
    tg_text_free(trained);
    if (trained) {
        complain("--out %s: has a trained model", o->out);
        return 2;
    }
    bool is_imported = read_model(o, &m, &bpe) && save(&m, bpe, o->out);
    if (is_imported) {
        show(&m, bpe, o->out);
    }
    tg_tokenizer_free(bpe);
    model_free(&m);
    return is_imported ? 0 : 2;
}
