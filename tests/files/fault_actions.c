#include "fault_actions.h"

#include <tapegrad_tools.h>
#include <tapegrad_text.h>

#include "base/file.h"

bool save_params(world *w, bool is_old, tg_error *error)
{
    return tg_params_save(is_old ? w->old : w->new, FOLDER "model.safetensors", NULL, error);
}

static bool save_params_as_f16(world *w, bool is_old, tg_error *error)
{
    tg_params_save_config config = tg_params_save_config_default();
    config.floats = TG_SAVE_FLOATS_F16;
    return tg_params_save(is_old ? w->old : w->new, FOLDER "half.safetensors", &config, error);
}

bool load_params(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_params(w, true, error) : tg_params_load(w->loaded, FOLDER "model.safetensors", NULL, error);
}

static bool load_params_from_f16(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_params_as_f16(w, true, error)
                  : tg_params_load(w->loaded, FOLDER "half.safetensors", NULL, error);
}

bool save_npy(world *w, bool is_old, tg_error *error)
{
    return tg_tensor_save_npy(is_old ? w->x : tg_params_at(w->new, 0).tensor, FOLDER "x.npy", error);
}

static bool load_npy(world *w, bool is_old, tg_error *error)
{
    if (is_old) {
        return save_npy(w, true, error);
    }
    tg_tensor *x = tg_tensor_new_from_npy(FOLDER "x.npy", error);
    tg_release(x);
    return x != NULL;
}

static bool load_npz(world *w, bool is_old, tg_error *error)
{
    (void)w;
    tg_tensor *x = is_old ? NULL : tg_tensor_new_from_npz(TG_TEST_GOLDENS "/io/arrays.npz", "i8_be_f", error);
    tg_release(x);
    return x != NULL || is_old;
}

static bool load_shards(world *w, bool is_old, tg_error *error)
{
    (void)w;
    tg_tensor *x =
        is_old ? NULL
               : tg_tensor_new_from_safetensors(TG_TEST_GOLDENS "/io/sharded.safetensors.index.json", "c", error);
    tg_release(x);
    return x != NULL || is_old;
}

static bool write_tokens(world *w, bool is_old, tg_error *error)
{
    (void)w;
    const int32_t ids[] = {1, 2, 3, 4};
    return tg_token_file_write(FOLDER "ids", 2, ids, is_old ? 4 : 3, error);
}

static bool read_text(world *w, bool is_old, tg_error *error)
{
    if (is_old) {
        return write_tokens(w, true, error);
    }
    char *text = tg_text_read(FOLDER "ids", NULL, error);
    tg_text_free(text);
    return text != NULL;
}

static bool save_list(world *w, bool is_old, tg_error *error)
{
    const tg_named_tensor tensors[] = {{"x", w->x, NULL}, {"y", tg_params_at(w->new, 0).tensor, "F16"}};
    return tg_safetensors_save(FOLDER "list.safetensors", tensors, is_old ? 1 : 2, error);
}

static bool list_tensors(world *w, bool is_old, tg_error *error)
{
    if (is_old) {
        return save_list(w, true, error);
    }
    tg_safetensors_list *list = tg_safetensors_list_new(FOLDER "list.safetensors", error);
    tg_safetensors_list_free(list);
    return list != NULL;
}

/* Saves or loads a checkpoint of params, their optimizer, a generator and a number. */
static bool use_checkpoint(tg_params *params, bool saves, tg_error *error)
{
    static int64_t step = 5;
    tg_adam_config config = tg_adam_config_default();
    config.amsgrad = true;
    tg_rng *rng = tg_rng_new(4);
    tg_optim *optim = tg_adam_new(params, &config);
    const tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params), tg_checkpoint_optim("optim", optim),
                                        tg_checkpoint_rng("rng", rng), tg_checkpoint_expect_text("text", "a text"),
                                        tg_checkpoint_integer("step", &step)};
    bool is_done = saves ? tg_checkpoint_save(FOLDER "checkpoint", parts, 5, error)
                         : tg_checkpoint_load(FOLDER "checkpoint", parts, 5, error);
    tg_optim_free(optim);
    tg_rng_free(rng);
    return is_done;
}

static bool save_checkpoint(world *w, bool is_old, tg_error *error)
{
    return use_checkpoint(is_old ? w->old : w->new, true, error);
}

static bool load_checkpoint(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_checkpoint(w, true, error) : use_checkpoint(w->loaded, false, error);
}

static bool read_checkpoint_text(world *w, bool is_old, tg_error *error)
{
    if (is_old) {
        return save_checkpoint(w, true, error);
    }
    char *text = tg_checkpoint_read_text(FOLDER "checkpoint", "text", error);
    tg_text_free(text);
    return text != NULL;
}

static bool save_vocabulary(world *w, bool is_old, const char *path, tg_vocabulary_format format, tg_error *error)
{
    return !w->old_bpe || tg_tokenizer_save(is_old ? w->old_bpe : w->new_bpe, path, format, error);
}

static bool open_vocabulary(world *w, const char *path, const char *ids, tg_error *error)
{
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.ids = ids;
    tg_tokenizer *bpe = w->old_bpe ? tg_tokenizer_open(path, &config, error) : NULL;
    tg_tokenizer_free(bpe);
    return bpe || !w->old_bpe;
}

static bool save_merges(world *w, bool is_old, tg_error *error)
{
    return save_vocabulary(w, is_old, FOLDER "vocab.bpe", TG_VOCABULARY_MERGES, error);
}

static bool save_json(world *w, bool is_old, tg_error *error)
{
    return save_vocabulary(w, is_old, FOLDER "tokenizer.json", TG_VOCABULARY_JSON, error);
}

static bool save_ranks(world *w, bool is_old, tg_error *error)
{
    return save_vocabulary(w, is_old, FOLDER "vocab.tiktoken", TG_VOCABULARY_RANKS, error);
}

static bool open_merges(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_merges(w, true, error) : open_vocabulary(w, FOLDER "vocab.bpe", NULL, error);
}

static bool open_json(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_json(w, true, error) : open_vocabulary(w, FOLDER "tokenizer.json", NULL, error);
}

static bool open_ranks(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_ranks(w, true, error) : open_vocabulary(w, FOLDER "vocab.tiktoken", NULL, error);
}

static bool open_merges_and_ids(world *w, bool is_old, tg_error *error)
{
    return is_old || open_vocabulary(w, TG_TEST_GOLDENS "/data/vocabulary/vocab.bpe",
                                     TG_TEST_GOLDENS "/data/vocabulary/encoder.json", error);
}

static bool read_tokens(world *w, bool is_old, tg_error *error)
{
    int32_t ids[4];
    if (is_old) {
        return write_tokens(w, true, error);
    }
    tg_token_file *file = tg_token_file_open(FOLDER "ids", 2, error);
    bool is_read = file && tg_token_file_read(file, 0, 4, ids, error);
    tg_token_file_free(file);
    return is_read;
}

static bool open_csv(world *w, bool is_old, tg_error *error)
{
    (void)w;
    if (is_old) {
        return tg_file_replace("test", FOLDER "table.csv", "a,b\n1,2\n", 8, error);
    }
    tg_csv *csv = tg_csv_open(FOLDER "table.csv", NULL, error);
    tg_csv_free(csv);
    return csv != NULL;
}

/* Encodes a text into a file of ids: the old one has them twice. */
static bool encode_file(world *w, bool is_old, tg_error *error)
{
    static const char *const texts[] = {FOLDER "table.csv", FOLDER "table.csv"};
    return !w->old_bpe ||
           ((!is_old || open_csv(w, true, error)) &&
            tg_tokenizer_encode_files(w->old_bpe, texts, is_old ? 2 : 1, FOLDER "encoded", 2, NULL, error) >= 0);
}

/* What writing a file takes at least. */
#define ONE_FILE(writes)                                                                     \
    {                                                                                        \
        [OPEN] = 2, [WRITE] = (writes), [FSYNC] = 2, [FCHMOD] = 1, [CLOSE] = 2, [RENAME] = 1 \
    }

const action actions[] = {
    {FOLDER "model.safetensors",
     1,
     save_params,
     {[OPEN] = 1, [WRITE] = 4, [FSYNC] = 2, [FCHMOD] = 1, [CLOSE] = 1, [RENAME] = 1}},
    {FOLDER "half.safetensors",
     1,
     save_params_as_f16,
     {[OPEN] = 1, [WRITE] = 4, [FSYNC] = 2, [CLOSE] = 1, [RENAME] = 1}},
    {FOLDER "model.safetensors", 0, load_params, {[OPEN] = 1, [PREAD] = 5}},
    {FOLDER "half.safetensors", 0, load_params_from_f16, {[OPEN] = 1, [PREAD] = 5}},
    {FOLDER "x.npy", 1, save_npy, {[OPEN] = 1, [WRITE] = 2, [FSYNC] = 2, [FCHMOD] = 1, [CLOSE] = 1, [RENAME] = 1}},
    {FOLDER "x.npy", 0, load_npy, {[OPEN] = 1, [PREAD] = 3}},
    {NULL, 0, load_npz, {[OPEN] = 1, [PREAD] = 6}},
    {NULL, 0, load_shards, {[OPEN] = 3, [PREAD] = 7}},
    {FOLDER "ids", 1, write_tokens, {[OPEN] = 1, [WRITE] = 1, [FSYNC] = 2, [FCHMOD] = 1, [CLOSE] = 1, [RENAME] = 1}},
    {FOLDER "ids", 0, read_text, {[OPEN] = 1, [PREAD] = 2}},
    {FOLDER "list.safetensors", 1, save_list, ONE_FILE(3)},
    {FOLDER "list.safetensors", 0, list_tensors, {[OPEN] = 1, [PREAD] = 2}},
    {FOLDER "checkpoint", 1, save_checkpoint, ONE_FILE(14)},
    {FOLDER "checkpoint", 0, load_checkpoint, {[OPEN] = 1, [PREAD] = 15}},
    {FOLDER "checkpoint", 0, read_checkpoint_text, {[OPEN] = 1, [PREAD] = 2}},
    {FOLDER "ids", 0, read_tokens, {[OPEN] = 1, [PREAD] = 1}},
    {FOLDER "table.csv", 0, open_csv, {[OPEN] = 1, [PREAD] = 2}},
    /* from here on those that need the tokenizer */
    {FOLDER "encoded", 3, encode_file, ONE_FILE(1)},
    {FOLDER "vocab.bpe", 1, save_merges, ONE_FILE(1)},
    {FOLDER "tokenizer.json", 1, save_json, ONE_FILE(1)},
    {FOLDER "vocab.tiktoken", 1, save_ranks, ONE_FILE(1)},
    {FOLDER "vocab.bpe", 0, open_merges, {[OPEN] = 1, [PREAD] = 2}},
    {FOLDER "tokenizer.json", 0, open_json, {[OPEN] = 1, [PREAD] = 2}},
    {FOLDER "vocab.tiktoken", 0, open_ranks, {[OPEN] = 1, [PREAD] = 2}},
    {NULL, 0, open_merges_and_ids, {[OPEN] = 2, [PREAD] = 4}},
};
const size_t action_count = sizeof actions / sizeof *actions;
