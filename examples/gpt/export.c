/* export: writes a trained model for other programs: as a folder that Hugging Face's transformers reads, or as the
 * state dict of the book's GPTModel. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/program.h"
#include "../common/terminal.h"
#include "commands.h"

static tg_save_floats floats_of(const options *o)
{
    return strcmp(o->floats, "f16") == 0    ? TG_SAVE_FLOATS_F16
           : strcmp(o->floats, "bf16") == 0 ? TG_SAVE_FLOATS_BF16
                                            : TG_SAVE_FLOATS_KEEP;
}

/* ---- the book ---- */

static bool write_params(const options *o, const model *m)
{
    tg_error error = TG_NO_ERROR;
    tg_params_save_config config = tg_params_save_config_default();
    config.floats = floats_of(o);
    return tg_params_save(m->params, o->out, &config, &error) || complain("%s", error.text);
}

/* ---- transformers ---- */

/* The number of bytes that are written as themselves; they are the ids from 0 on. The other bytes follow, written as
 * U+0100, U+0101, ... in the order of their ids. */
#define PRINTABLE_BYTES 188
#define BYTES 256

/* Writes the characters of a token, escaped for JSON. */
static void write_token(FILE *file, const tg_tokenizer *bpe, int32_t id, const int character_of_byte[BYTES])
{
    size_t length = 0;
    const char *bytes = tg_tokenizer_bytes(bpe, id, &length);
    for (size_t i = 0; i < length; i++) {
        int c = character_of_byte[(unsigned char)bytes[i]];
        if (c >= 0x80) {
            /* UTF-8 of two bytes: no character is above U+07FF */
            fputc(0xc0 | c >> 6, file);
            fputc(0x80 | (c & 0x3f), file);
        } else {
            fprintf(file, "%s%c", c == '"' || c == '\\' ? "\\" : "", c);
        }
    }
}

/* Writes vocab.json, the ids of all tokens: {"!":0,...,"<|endoftext|>":50256}. */
static bool write_ids(const tg_tokenizer *bpe, const char *path)
{
    int character_of_byte[BYTES];
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    for (int32_t id = 0; id < BYTES; id++) {
        int byte = (unsigned char)*tg_tokenizer_bytes(bpe, id, NULL);
        character_of_byte[byte] = id < PRINTABLE_BYTES ? byte : BYTES + id - PRINTABLE_BYTES;
    }
    int32_t last = tg_tokenizer_vocabulary(bpe) - 1;
    for (int32_t id = 0; id < last; id++) {
        fputs(id == 0 ? "{\"" : ",\"", file);
        write_token(file, bpe, id, character_of_byte);
        fprintf(file, "\":%d", (int)id);
    }
    fprintf(file, ",\"<|endoftext|>\":%d}\n", (int)last);
    return file_end(file, path);
}

static bool write_vocabulary(const char *folder, const tg_tokenizer *bpe)
{
    tg_error error = TG_NO_ERROR;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", folder_file(folder, "vocab.json"));
    return write_ids(bpe, path) &&
           (tg_tokenizer_save(bpe, folder_file(folder, "merges.txt"), TG_VOCABULARY_MERGES, &error) ||
            complain("%s", error.text));
}

static bool write_files(const options *o, const model *m, const tg_tokenizer *bpe, const char *folder)
{
    tg_error error = TG_NO_ERROR;
    tg_gpt_save_config config = tg_gpt_save_config_default();
    config.floats = floats_of(o);
    config.end_token = m->is_published ? -1 : tg_tokenizer_end_of_text(bpe);
    return (tg_gpt_save(m->gpt, folder, &config, &error) || complain("%s", error.text)) &&
           (m->is_published ? published_copy_vocabulary(o->model, folder) : !bpe || write_vocabulary(folder, bpe));
}

static void remove_folder(const char *folder)
{
    for (const char *const *name = published_vocabulary; *name; name++) {
        remove(folder_file(folder, *name));
    }
    remove(folder_file(folder, "model.safetensors"));
    remove(folder_file(folder, "config.json"));
    rmdir(folder);
}

/* Writes OUT.part, and renames it to OUT when it is complete. */
static bool write_folder(const options *o, const model *m, const tg_tokenizer *bpe)
{
    char folder[PATH_BYTES];
    int length = snprintf(folder, sizeof folder, "%s", o->out);
    while (length > 1 && folder[length - 1] == '/') {
        folder[--length] = '\0';
    }
    if (length > PATH_BYTES - 64) {
        return complain("--out %.60s...: must be shorter", o->out);
    }
    strcpy(folder + length, ".part");
    bool is_written = folder_make(folder) && write_files(o, m, bpe, folder) &&
                      (rename(folder, o->out) == 0 || complain("writing '%s': %s", o->out, strerror(errno)));
    if (!is_written) {
        remove_folder(folder);
    }
    return is_written;
}

/* ---- the command ---- */

int export(const options *o)
{
    model m;
    tg_tokenizer *bpe;
    struct stat status;
    if (!o->out) {
        complain("export: the options must have --out PATH");
        return 2;
    }
    if (stat(o->out, &status) == 0) {
        complain("--out %s: must not exist", o->out);
        return 2;
    }
    if (!model_load(&m, o->model, &(model_use){.choice = TG_CHECKPOINT_BEST, .is_f32 = true, .adapter = o->adapter},
                    &bpe)) {
        return 2;
    }
    tg_gpt_merge_lora(m.gpt);
    bool is_course = strcmp(o->layout, "course") == 0;
    bool is_written = is_course ? write_params(o, &m) : write_folder(o, &m, bpe);
    if (is_written) {
        print_line(stdout, "Written to %s", o->out);
    }
    tg_tokenizer_free(bpe);
    model_free(&m);
    return is_written ? 0 : 2;
}
