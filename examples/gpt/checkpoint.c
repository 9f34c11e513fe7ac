/* checkpoint: the configuration of a model as a text in its checkpoint, and the loading of a trained model. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/program.h"
#include "model.h"

const char *config_text(const tg_gpt_config *c, char text[CONFIG_TEXT])
{
    snprintf(text, CONFIG_TEXT,
             "vocabulary %" PRId64 " context %" PRId64 " width %" PRId64 " heads %" PRId64 " layers %" PRId64
             " dropout %.17g qkv_bias %d tied_head %d position %s",
             c->vocabulary, c->context, c->width, c->heads, c->layers, c->dropout, c->qkv_bias, c->tied_head,
             tg_position_name(c->position));
    return text;
}

/* Reads a configuration. Returns false if the text is invalid, or if the weights of such a model are larger than the
 * file, so that a damaged file cannot allocate more than a few times its size. */
static bool parse_config(const char *text, int64_t bytes, tg_gpt_config *c)
{
    char position[20];
    int qkv_bias, tied;
    *c = tg_gpt_config_default();
    if (sscanf(text,
               "vocabulary %10" SCNd64 " context %7" SCNd64 " width %5" SCNd64 " heads %5" SCNd64 " layers %4" SCNd64
               " dropout %40lf qkv_bias %1d tied_head %1d position %19s",
               &c->vocabulary, &c->context, &c->width, &c->heads, &c->layers, &c->dropout, &qkv_bias, &tied,
               position) != 9 ||
        !tg_position_from_name(position, &c->position, NULL)) {
        return false;
    }
    c->qkv_bias = qkv_bias != 0;
    c->tied_head = tied != 0;
    int64_t table = c->position <= TG_POSITION_SINUSOIDAL ? c->context : 0;
    /* the numbers of digits in sscanf keep the product below 2^63 */
    return c->vocabulary > 0 && c->context > 0 && c->width > 0 && c->layers > 0 &&
           (c->vocabulary + table + 12 * c->layers * c->width) * c->width <= bytes / (int64_t)sizeof(float);
}

bool vocabulary_load(const char *path, tg_tokenizer **bpe)
{
    tg_error error = TG_NO_ERROR;
    int64_t length = 0;
    *bpe = NULL;
    char *text = tg_checkpoint_read_bytes(path, VOCABULARY_PART, &length, &error);
    if (!text && error.code == TG_ERROR_VALUE) {
        return true;
    }
    *bpe = text ? tg_tokenizer_new_from_text(text, (size_t)length, &error) : NULL;
    tg_text_free(text);
    return *bpe || complain("%s: %s", path, error.text);
}

static bool load_weights(model *m, const char *path)
{
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_part part = tg_checkpoint_params(MODEL_PART, m->params);
    return tg_checkpoint_load(path, &part, 1, &error) || complain("%s", error.text);
}

static bool load_file(model *m, const char *path, bool activation_checkpointing, tg_tokenizer **bpe)
{
    struct stat status;
    tg_gpt_config config;
    tg_error error = TG_NO_ERROR;
    char *text = tg_checkpoint_read_text(path, CONFIG_PART, &error);
    if (!text) {
        return complain("%s", error.text);
    }
    bool is_valid = stat(path, &status) == 0 && parse_config(text, status.st_size, &config);
    tg_text_free(text);
    if (!is_valid) {
        return complain("'%s': its configuration is damaged, or gpt train has not written it", path);
    }
    config.activation_checkpointing = activation_checkpointing;
    return model_make(m, &config, 0) && load_weights(m, path) && (!bpe || vocabulary_load(path, bpe));
}

/* Returns whether a folder is missing, or has no checkpoint. */
static bool is_without_model(const char *folder)
{
    tg_error error = TG_NO_ERROR;
    char *found = tg_checkpoint_find(folder, TG_CHECKPOINT_LAST, &error);
    tg_text_free(found);
    return error.code == TG_ERROR_FILE && (access(folder, R_OK | X_OK) == 0 || errno == ENOENT);
}

bool model_find(const char *option, const char *model_path, tg_checkpoint_choice choice, char path[PATH_BYTES])
{
    struct stat status;
    if (stat(model_path, &status) == 0 && S_ISREG(status.st_mode)) {
        snprintf(path, PATH_BYTES, "%s", model_path);
        return true;
    }
    return model_find_in(option, model_path, choice, path);
}

bool model_find_in(const char *option, const char *folder, tg_checkpoint_choice choice, char path[PATH_BYTES])
{
    tg_error error = TG_NO_ERROR;
    char *found = tg_checkpoint_find(folder, choice, &error);
    if (!found) {
        return is_without_model(folder)
                   ? complain("there is no model in %s: run `gpt train` first, or give %s", folder, option)
                   : complain("%s", error.text);
    }
    snprintf(path, PATH_BYTES, "%s", found);
    tg_text_free(found);
    return true;
}

#define PUBLISHED_WINDOW 1024

int64_t model_window(const tg_gpt_config *config, bool is_published, int64_t given)
{
    int64_t standard = is_published && config->context > PUBLISHED_WINDOW ? PUBLISHED_WINDOW : config->context;
    return given >= 1 ? given : standard;
}

/* Sets the window of the model. */
static bool set_window(model *m, int64_t given)
{
    int64_t context = tg_gpt_get_config(m->gpt)->context;
    m->window = model_window(tg_gpt_get_config(m->gpt), m->is_published, given);
    return m->window <= context || complain("--context %lld: must be at most %lld, the context of the model",
                                            (long long)m->window, (long long)context);
}

bool model_load(model *m, const char *model_path, const model_use *use, tg_tokenizer **bpe)
{
    char path[PATH_BYTES];
    *m = (model){0};
    if (bpe) {
        *bpe = NULL;
    }
    bool is_loaded = false;
    if (is_published(model_path)) {
        is_loaded = published_load(m, model_path, use, bpe);
    } else if (is_adapter(model_path)) {
        complain("%s is an adapter; its model's folder must be given, and --adapter %s", model_path, model_path);
    } else if (use->adapter) {
        complain("--adapter %s: must be used with a published folder; %s is none", use->adapter, model_path);
    } else {
        is_loaded = model_find("--model", model_path, use->choice, path) &&
                    load_file(m, path, use->activation_checkpointing, bpe);
    }
    if (is_loaded && set_window(m, use->window)) {
        return true;
    }
    if (bpe) {
        tg_tokenizer_free(*bpe);
        *bpe = NULL;
    }
    model_free(m);
    return false;
}

bool vocabulary_fits(const tg_tokenizer *bpe, const model *m)
{
    int64_t rows = tg_gpt_get_config(m->gpt)->vocabulary, ids = tg_tokenizer_vocabulary(bpe);
    return !bpe || ids == rows || (m->is_published && ids < rows) ||
           complain("the vocabulary has %lld ids, the model's table %lld rows; --vocab must be the model's vocabulary",
                    (long long)ids, (long long)rows);
}

bool model_tokenizer(tg_tokenizer **bpe, const char *path, const options *o)
{
    tg_error error = TG_NO_ERROR;
    if (o->vocab) {
        tg_tokenizer_free(*bpe);
        *bpe = tg_tokenizer_open(o->vocab, NULL, &error);
        return *bpe || complain("%s", error.text);
    }
    return *bpe || complain("'%s' has no vocabulary; --vocab names one", path);
}
