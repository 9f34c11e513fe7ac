/* published: models of other programs, as folders of Hugging Face's transformers and of peft. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tapegrad_tools.h>

#include "../common/program.h"
#include "../common/terminal.h"
#include "memory.h"
#include "model.h"

const char *const published_vocabulary[] = {
    "tokenizer.json",      "tokenizer_config.json",  "vocab.json", "merges.txt", "special_tokens_map.json",
    "chat_template.jinja", "generation_config.json", NULL};

bool is_published(const char *path)
{
    return access(folder_file(path, "config.json"), F_OK) == 0;
}

bool is_adapter(const char *path)
{
    return access(folder_file(path, "adapter_config.json"), F_OK) == 0;
}

bool has_vocabulary(const char *folder)
{
    static const char *const names[] = {"tokenizer.json", "vocab.json", "encoder.json"};
    bool has_one = false;
    for (size_t i = 0; !has_one && i < sizeof names / sizeof *names; i++) {
        has_one = access(folder_file(folder, names[i]), F_OK) == 0;
    }
    return has_one;
}

/* Returns the bytes of an adapter's weights, or 0. */
static int64_t adapter_bytes(const char *adapter)
{
    struct stat status;
    bool is_there = adapter && stat(folder_file(adapter, "adapter_model.safetensors"), &status) == 0;
    return is_there ? (int64_t)status.st_size : 0;
}

/* Prints a line about a published model: its family, its sizes, and the memory that the command needs. */
static bool show(model *m, const char *folder, const tg_gpt_open_config *config, const model_use *use)
{
    tg_error error = TG_NO_ERROR;
    tg_gpt_summary s;
    char heads[40] = "", weights[BYTES_TEXT], all[BYTES_TEXT];
    if (!tg_gpt_read_summary(folder, &s, config, &error)) {
        return complain("%s", error.text);
    }
    const tg_gpt_config *c = &s.config;
    if (c->key_heads != c->heads) {
        snprintf(heads, sizeof heads, " and %lld of keys", (long long)c->key_heads);
    }
    double more = (double)adapter_bytes(use->adapter) +
                  sizeof(float) * use->more(c, s.values, model_window(c, true, use->window), use->o);
    print_line(
        stdout,
        "%s: %s, %lld layers, %lld heads%s, width %lld, context %lld, vocabulary %lld: %lld parameters of %s; with all "
        "else at most about %s",
        folder, s.family, (long long)c->layers, (long long)c->heads, heads, (long long)c->width, (long long)c->context,
        (long long)c->vocabulary, (long long)s.values, bytes_text((double)s.bytes, weights),
        bytes_text((double)s.bytes + more, all));
    fflush(stdout);
    m->bytes = (double)s.bytes;
    return true;
}

bool published_load(model *m, const char *folder, const model_use *use, tg_tokenizer **bpe)
{
    tg_gpt_open_config config = tg_gpt_open_config_default();
    config.keep_bf16 = !use->is_f32;
    config.activation_checkpointing = use->activation_checkpointing;
    if (use->more && !show(m, folder, &config, use)) {
        return false;
    }
    m->is_published = true;
    m->run = tg_run_new(0);
    m->params = tg_params_new(m->run, TG_F32);
    m->gpt = tg_gpt_open(m->params, folder, &config);
    if (!m->gpt || (use->adapter && !tg_gpt_open_adapter(m->gpt, use->adapter))) {
        return complain("%s", tg_params_error(m->params)->text);
    }
    if (!bpe || !has_vocabulary(folder)) {
        return true;
    }
    tg_error error = TG_NO_ERROR;
    *bpe = tg_tokenizer_open(folder, NULL, &error);
    return *bpe ? vocabulary_fits(*bpe, m) : complain("%s", error.text);
}

/* Returns false after printing an error if peft has no place for the LoRA of a layer. */
static bool has_places(const model *m)
{
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        const char *name = tg_params_at(m->params, i).name;
        if (strstr(name, ".att.W_") && strstr(name, ".lora_A.")) {
            return complain(
                "--lora-layers: '%.*s' is a part of c_attn, of which peft has no LoRA; *.out_proj and *.ff.* "
                "are other layers",
                (int)(strstr(name, ".lora_A.") - name), name);
        }
    }
    return true;
}

const char *published_lora_layers(const tg_gpt_config *config, const options *o)
{
    static char patterns[1000];
    size_t length = 0;
    snprintf(patterns, sizeof patterns, "%s",
             config->position == TG_POSITION_LEARNED ? "*.out_proj *.ff.*" : "trf_blocks.*");
    for (int i = 0; i < o->lora_layers.count && length < sizeof patterns; i++) {
        length += (size_t)snprintf(patterns + length, sizeof patterns - length, "%s ", o->lora_layers.values[i]);
    }
    return patterns;
}

int64_t published_lora(const tg_gpt_config *config, const options *o, int64_t *rank)
{
    *rank = o->lora;
    if (o->adapter) {
        tg_json_document *document = tg_json_document_open(folder_file(o->adapter, "adapter_config.json"), NULL);
        const tg_json_value *r = tg_json_value_find(tg_json_document_root(document), "r", NULL);
        *rank = r ? tg_json_value_integer(r, NULL) : 8;
        tg_json_document_free(document);
        return adapter_bytes(o->adapter) / (int64_t)sizeof(float);
    }
    return tg_gpt_count_lora(published_lora_layers(config, o), o->lora, config);
}

bool published_add_lora(const model *m, const options *o)
{
    const tg_gpt_config *c = tg_gpt_get_config(m->gpt);
    tg_lora_config config = tg_lora_config_default();
    config.rank = o->lora;
    config.alpha = o->lora_alpha == AS_CONFIGURED ? 2 * (double)o->lora : o->lora_alpha;
    bool is_added = tg_params_set_frozen(m->params, "*", true) &&
                    (o->adapter ? tg_params_set_frozen(m->params, "*.lora_*", false)
                                : tg_gpt_add_lora(m->gpt, published_lora_layers(c, o), &config));
    return is_added ? c->position != TG_POSITION_LEARNED || has_places(m)
                    : complain("--lora-layers: %s", tg_params_error(m->params)->text);
}

bool published_copy_vocabulary(const char *from, const char *to)
{
    tg_error error = TG_NO_ERROR;
    for (const char *const *name = published_vocabulary; *name; name++) {
        char path[PATH_BYTES];
        size_t length;
        snprintf(path, sizeof path, "%s", folder_file(from, *name));
        if (access(path, F_OK) != 0) {
            continue;
        }
        char *text = tg_text_read(path, &length, &error);
        if (!text) {
            return complain("%s", error.text);
        }
        snprintf(path, sizeof path, "%s", folder_file(to, *name));
        FILE *file = file_begin(path);
        bool is_written = file && (fwrite(text, 1, length, file), file_end(file, path));
        tg_text_free(text);
        if (!is_written) {
            return false;
        }
    }
    return true;
}
