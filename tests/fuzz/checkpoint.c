/* A checkpoint with every kind of part. A load that fails changes nothing: what would be saved is the same with and
 * without it. A load that succeeds gives what would be saved again, to the last bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"

enum { PARTS = 9 };

typedef struct training {
    tg_run *run;
    tg_params *params;
    tg_optim *optim;
    tg_loader *loader;
    int64_t step;
    double number;
    tg_checkpoint_part parts[PARTS];
} training;

/* One step of a small model, so that nothing is zero. */
static void train(training *w)
{
    tg_tape *t = tg_tape_new(w->run, NULL);
    tg_batch batch;
    tg_loader_next(w->loader, &batch);
    tg_tensor *rows = tg_embedding(t, batch.inputs, tg_params_find(w->params, "table"), NULL);
    tg_backward(t, tg_mean(t, tg_mul(t, rows, tg_params_find(w->params, "scale")), TG_ALL_AXES, TG_DROP_AXES), NULL);
    tg_optim_step(w->optim);
    tg_optim_zero_grad(w->optim);
    tg_tape_free(t);
}

static void begin(training *w)
{
    static const int32_t ids[] = {0, 1, 2, 3, 4, 0, 2, 4, 1, 3};
    *w = (training){.step = 5, .number = 0.5};
    w->run = tg_run_new(1);
    w->params = tg_params_new(w->run, TG_F32);
    tg_tensor *table = tg_params_add_normal(w->params, "table", TG_SHAPE(5, 2), 0, 1);
    tg_tensor_fill(tg_params_add(w->params, "scale", TG_SHAPE(2)), 3, NULL);
    tg_tensor_set_rows_frozen(table, 1, 1, true, NULL);
    tg_tensor_set_rows_watched(table, true, NULL);
    tg_adam_config adam = tg_adam_config_default();
    adam.amsgrad = true;
    w->optim = tg_adam_new(w->params, &adam);
    tg_optim_add_to_group(w->optim, "rest", "scale");
    tg_loader_config config = tg_loader_config_default();
    config.context = config.batch_size = 2;
    config.stride = 1;
    config.shuffle = config.drop_last = true;
    w->loader = tg_loader_new(w->run, ids, 10, &config);
    train(w);
    const tg_checkpoint_part parts[PARTS] = {
        tg_checkpoint_params("model", w->params), tg_checkpoint_optim("optim", w->optim),
        tg_checkpoint_rng("rng", tg_run_rng(w->run)), tg_checkpoint_loader("loader", w->loader),
        tg_checkpoint_integer("step", &w->step), tg_checkpoint_number("number", &w->number),
        tg_checkpoint_expect_text("text", "a text"), tg_checkpoint_expect_bytes("bytes", "\1\2\3", 3),
        /* the loader's part has the same key */
        tg_checkpoint_expect_integer("loader.context", 2)};
    memcpy(w->parts, parts, sizeof parts);
}

static void end(training *w)
{
    tg_loader_free(w->loader);
    tg_optim_free(w->optim);
    tg_params_free(w->params);
    tg_run_free(w->run);
}

/* Saves all parts, and returns the bytes of the file. */
static char *save(const training *w, size_t *length)
{
    tg_error error = TG_NO_ERROR;
    const char *path = fuzz_file("", 0);
    fuzz_require(tg_checkpoint_save(path, w->parts, PARTS, &error), "save: %s", error.text);
    char *bytes = tg_text_read(path, length, &error);
    fuzz_require(bytes != NULL, "%s", error.text);
    return bytes;
}

static void require_same(const training *a, const training *b, const char *what)
{
    size_t length, other_length;
    char *bytes = save(a, &length), *other = save(b, &other_length);
    fuzz_require(length == other_length && memcmp(bytes, other, length) == 0, "%s", what);
    tg_text_free(bytes);
    tg_text_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    tg_error error = TG_NO_ERROR;
    training w, other;
    fuzz_memory_begin();
    begin(&w);
    begin(&other);
    const char *path = fuzz_file(bytes, size);
    bool is_loaded = tg_checkpoint_load(path, w.parts, PARTS, &error);
    fuzz_require(is_loaded || error.code == TG_ERROR_FORMAT || error.code == TG_ERROR_VALUE, "load: code %d, \"%s\"",
                 (int)error.code, error.text);
    if (!is_loaded) {
        /* `other` loads only the parts that are whole, one by one */
        for (int i = 0; i < PARTS; i++) {
            fuzz_require(!tg_checkpoint_load(path, &w.parts[i], 1, NULL) ||
                             tg_checkpoint_load(path, &other.parts[i], 1, NULL),
                         "part %d is loaded once", i);
        }
        require_same(&w, &other, "a failed load has changed something");
    } else {
        size_t length;
        char *saved = save(&w, &length);
        fuzz_file(saved, length);
        fuzz_require(tg_checkpoint_load(path, other.parts, PARTS, &error), "load what was saved: %s", error.text);
        require_same(&w, &other, "what was loaded is saved as something else");
        tg_text_free(saved);
    }
    end(&w);
    end(&other);
    fuzz_memory_end();
    return 0;
}
