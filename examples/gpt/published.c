/* published: models of other programs, as folders of Hugging Face's transformers and of peft. */
#include <string.h>
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

bool published_load(model *m, const char *folder, const model_use *use, tg_tokenizer **bpe)
{
    tg_gpt_open_config config = tg_gpt_open_config_default();
    config.keep_bf16 = !use->is_f32;
    config.activation_checkpointing = use->activation_checkpointing;
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

/* Writes the family of a folder, as its config.json calls it. */
static void find_family(const char *folder, char family[40])
{
    tg_error error = TG_NO_ERROR;
    tg_json_document *document = tg_json_document_open(folder_file(folder, "config.json"), &error);
    const char *name =
        tg_json_value_text(tg_json_value_find(tg_json_document_root(document), "model_type", &error), &error);
    snprintf(family, 40, "%s", name ? name : "gpt2");
    tg_json_document_free(document);
}

void published_show(const model *m, const char *folder, double more)
{
    const tg_gpt_config *c = tg_gpt_get_config(m->gpt);
    double bytes = 0;
    char family[40], heads[40] = "", weights[BYTES_TEXT], all[BYTES_TEXT];
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        tg_entry entry = tg_params_at(m->params, i);
        bytes += entry.kind == TG_ENTRY_ALIAS
                     ? 0
                     : (double)tg_tensor_count(entry.tensor) * (double)tg_dtype_size(tg_tensor_dtype(entry.tensor));
    }
    if (c->key_heads != c->heads) {
        snprintf(heads, sizeof heads, " and %lld of keys", (long long)c->key_heads);
    }
    find_family(folder, family);
    print_line(
        stdout,
        "%s: %s, %lld layers, %lld heads%s, width %lld, context %lld, vocabulary %lld: %lld parameters of %s; with all "
        "else about %s",
        folder, family, (long long)c->layers, (long long)c->heads, heads, (long long)c->width, (long long)c->context,
        (long long)c->vocabulary, (long long)tg_params_value_count(m->params), bytes_text(bytes, weights),
        bytes_text(bytes + sizeof(float) * more, all));
    fflush(stdout);
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

bool published_add_lora(const model *m, const options *o)
{
    static char blocks[] = "trf_blocks.*", projections[] = "*.out_proj", feed_forward[] = "*.ff.*";
    static char *all[] = {blocks}, *of_gpt2[] = {projections, feed_forward};
    bool is_gpt2 = tg_gpt_get_config(m->gpt)->position == TG_POSITION_LEARNED;
    text_list patterns = o->lora_layers.count > 0 ? o->lora_layers
                         : is_gpt2                ? (text_list){of_gpt2, 2}
                                                  : (text_list){all, 1};
    tg_lora_config config = tg_lora_config_default();
    config.rank = o->lora;
    config.alpha = o->lora_alpha == AS_CONFIGURED ? 2 * (double)o->lora : o->lora_alpha;
    bool is_added = tg_params_set_frozen(m->params, "*", true);
    for (int i = 0; is_added && i < patterns.count; i++) {
        is_added = tg_gpt_add_lora(m->gpt, patterns.values[i], &config);
    }
    return is_added ? !is_gpt2 || has_places(m) : complain("--lora-layers: %s", tg_params_error(m->params)->text);
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
