#include "checkpoint.h"

#include <string.h>

#include "../common/program.h"
#include "../common/terminal.h"

enum { PARTS = 9, OPTIONS_TEXT = 1000 };

/* Writes the options that the numbers depend on. */
static const char *options_text(const options *o, char text[OPTIONS_TEXT])
{
    snprintf(text, OPTIONS_TEXT,
             "vocab_size %lld dim %lld context %lld batch %lld steps %lld lr %.17g optimizer %s momentum %.17g seed "
             "%lld text %s",
             (long long)o->vocab_size, (long long)o->dim, (long long)o->context, (long long)o->batch,
             (long long)o->steps, o->lr, o->optimizer, o->momentum, (long long)o->seed, o->text);
    return text;
}

/* Returns a copy of a table as a part; before the table is copied, no bytes. */
static tg_checkpoint_part table_part(const char *name, const tg_tensor *table)
{
    return tg_checkpoint_bytes(name, tg_tensor_data(table), tg_tensor_count(table) * (int64_t)sizeof(float));
}

static void list_parts(training *t, const char *settings, tg_checkpoint_part parts[PARTS])
{
    const tg_checkpoint_part list[] = {
        tg_checkpoint_params("model", t->params),
        tg_checkpoint_optim("optimizer", t->optim),
        tg_checkpoint_rng("generator", tg_run_rng(t->run)),
        tg_checkpoint_loader("windows", t->loader),
        tg_checkpoint_integer("step", &t->step),
        tg_checkpoint_expect_text("options", settings),
        tg_checkpoint_bytes("losses", t->losses, t->step * (int64_t)sizeof *t->losses),
        table_part("before", t->before),
        table_part("halfway", t->halfway),
    };
    memcpy(parts, list, sizeof list);
}

bool checkpoint_save(tg_checkpoint_folder *folder, const options *o, training *t)
{
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_part parts[PARTS];
    char settings[OPTIONS_TEXT];
    list_parts(t, options_text(o, settings), parts);
    return tg_checkpoint_folder_save(folder, t->step, false, parts, PARTS, &error) || complain("%s", error.text);
}

/* Reads at most `size` bytes of a part to `out`. Returns the number of bytes, or -1 after an error. */
static int64_t read_bytes(const char *path, const char *name, void *out, int64_t size, tg_error *error)
{
    int64_t found = 0;
    char *bytes = tg_checkpoint_read_bytes(path, name, &found, error);
    if (!bytes) {
        return -1;
    }
    found = found > size ? size : found;
    memcpy(out, bytes, (size_t)found);
    tg_text_free(bytes);
    return found;
}

/* Reads the copy of the token table halfway, if the checkpoint has it. */
static bool read_halfway(const char *path, training *t, tg_error *error)
{
    t->halfway = tg_tensor_new_copy(t->before, error);
    int64_t size = tg_tensor_count(t->before) * (int64_t)sizeof(float);
    int64_t found = t->halfway ? read_bytes(path, "halfway", tg_tensor_data_mut(t->halfway), size, error) : -1;
    if (found == 0) {
        tg_release(t->halfway);
        t->halfway = NULL;
    }
    return found >= 0;
}

static bool load(const char *path, const options *o, training *t)
{
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_part parts[PARTS];
    char settings[OPTIONS_TEXT];
    list_parts(t, options_text(o, settings), parts);
    int64_t losses = o->steps * (int64_t)sizeof *t->losses;
    int64_t table = tg_tensor_count(t->before) * (int64_t)sizeof(float);
    if (!tg_checkpoint_load(path, parts, PARTS, &error) || read_bytes(path, "losses", t->losses, losses, &error) < 0 ||
        read_bytes(path, "before", tg_tensor_data_mut(t->before), table, &error) < 0 ||
        !read_halfway(path, t, &error)) {
        return complain("%s", error.text);
    }
    print_line(stdout, "continues after step %lld: %s", (long long)t->step, path);
    return true;
}

bool checkpoint_exists(const options *o, const char *name)
{
    char *found = tg_checkpoint_find(folder_file(o->out, name), TG_CHECKPOINT_LAST, NULL);
    tg_text_free(found);
    return found != NULL;
}

tg_checkpoint_folder *checkpoint_open(const options *o, const char *name, training *t)
{
    tg_error error = TG_NO_ERROR;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", folder_file(o->out, name));
    char *found = tg_checkpoint_find(path, TG_CHECKPOINT_LAST, NULL);
    tg_checkpoint_folder *folder = NULL;
    bool is_good = true;
    if (found && !o->resume && !o->overwrite) {
        is_good = complain("folder '%s': has a trained model; --resume continues it, --overwrite replaces it", o->out);
    }
    if (is_good && folder_make(path)) {
        folder = tg_checkpoint_folder_open(path, NULL, &error);
        is_good = folder && (o->resume || tg_checkpoint_folder_clear(folder, &error));
        is_good = is_good ? !(found && o->resume) || load(found, o, t) : complain("%s", error.text);
    }
    tg_text_free(found);
    if (is_good) {
        return folder;
    }
    tg_checkpoint_folder_free(folder);
    return NULL;
}
