/* training: the checkpoints of a training run, and the command line in them. */
#include "training.h"

#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "../common/program.h"
#include "../common/terminal.h"
#include "parallel.h"

enum { MOST_PARTS = 9 };

/* The arguments that make a run longer. */
#define LONGER 4

/* The configuration of a published model is in its folder, which a run that continues reads again. */
#define PUBLISHED_CONFIG "published"

/* Lists the parts of a checkpoint: all that a run needs to continue, what must not have changed, and the losses and the
 * command line, which a load skips. Returns their number. */
static int64_t list_parts(training *r, const char *losses, size_t losses_size, char config[CONFIG_TEXT],
                          tg_checkpoint_part parts[MOST_PARTS])
{
    int64_t count = 0;
    parts[count++] = tg_checkpoint_params(MODEL_PART, r->trained);
    parts[count++] = tg_checkpoint_optim("optimizer", r->optim);
    parts[count++] = tg_checkpoint_rng("generator", tg_run_rng(r->m.run));
    parts[count++] = tg_checkpoint_loader("windows", r->windows);
    parts[count++] = tg_checkpoint_expect_text(
        CONFIG_PART, r->m.is_published ? PUBLISHED_CONFIG : config_text(tg_gpt_get_config(r->m.gpt), config));
    parts[count++] = tg_checkpoint_expect_text(DATA_PART, r->c.identity);
    if (r->vocabulary) {
        parts[count++] = tg_checkpoint_expect_bytes(VOCABULARY_PART, r->vocabulary, (int64_t)r->vocabulary_size);
    }
    parts[count++] = tg_checkpoint_bytes("losses", losses, (int64_t)losses_size);
    parts[count++] = tg_checkpoint_bytes("arguments", r->arguments, (int64_t)r->arguments_size);
    return count;
}

bool training_save(training *r)
{
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_part parts[MOST_PARTS];
    char config[CONFIG_TEXT];
    size_t size = 0;
    if (parallel_rank() > 0) {
        return true;
    }
    char *losses = history_text(&r->h, &size);
    r->is_unsaved = !losses;
    if (!losses) {
        return false;
    }
    int64_t count = list_parts(r, losses, size, config, parts);
    bool is_saved = tg_checkpoint_folder_save(r->checkpoints, r->h.steps, history_is_best(&r->h), parts, count, &error);
    free(losses);
    r->is_unsaved = !is_saved;
    return is_saved || complain("%s", error.text);
}

bool training_continue(training *r)
{
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_part parts[MOST_PARTS];
    char config[CONFIG_TEXT];
    if (!r->resumed) {
        return true;
    }
    int64_t count = list_parts(r, NULL, 0, config, parts);
    char *losses = tg_checkpoint_read_bytes(r->resumed, "losses", NULL, &error);
    bool is_loaded = losses && tg_checkpoint_load(r->resumed, parts, count, &error);
    if (!is_loaded) {
        complain("%s", error.text);
    }
    is_loaded = is_loaded && history_parse(&r->h, losses);
    tg_text_free(losses);
    r->first_step = r->h.steps;
    print_line(stdout, "%s after step %lld: %s", is_loaded ? "continues" : "does not continue", (long long)r->h.steps,
               r->resumed);
    return is_loaded;
}

/* Each argument has a NUL after it. */
bool training_join_arguments(training *r)
{
    for (int i = 1; i < r->o->argc; i++) {
        r->arguments_size += strlen(r->o->argv[i]) + 1;
    }
    r->arguments = malloc(r->arguments_size + 1);
    for (size_t i = 1, at = 0; r->arguments && i < (size_t)r->o->argc; i++) {
        size_t length = strlen(r->o->argv[i]) + 1;
        memcpy(r->arguments + at, r->o->argv[i], length);
        at += length;
    }
    return r->arguments || complain("out of memory");
}

/* Appends the options of a run with more steps to its command line, and parses it again. The learning rate falls as it
 * did, so the steps before are those of the run. */
static int extend(int64_t steps, training *r, options *o, int argc, char **argv)
{
    static char decay_name[] = "--decay-steps", steps_name[] = "--steps";
    if (steps <= o->steps) {
        complain("--steps %lld: must be more than %lld, the steps of the run", (long long)steps, (long long)o->steps);
        return 2;
    }
    snprintf(r->decay_steps, sizeof r->decay_steps, "%lld", (long long)o->decay_steps);
    snprintf(r->steps, sizeof r->steps, "%lld", (long long)steps);
    char *const longer[LONGER] = {decay_name, r->decay_steps, steps_name, r->steps};
    memcpy(argv + argc, longer, sizeof longer);
    argv[argc + LONGER] = NULL;
    return options_read(o, TRAIN, "", argc + LONGER, argv);
}

bool training_arguments(const char *path, char **arguments, char ***argv, int *argc, tg_error *error)
{
    int64_t size = 0;
    *arguments = tg_checkpoint_read_bytes(path, "arguments", &size, error);
    *argv = *arguments ? malloc(((size_t)size + 2 + LONGER) * sizeof **argv) : NULL;
    if (*arguments && !*argv) {
        tg_error_set(error, TG_ERROR_MEMORY, "out of memory");
    }
    if (!*argv) {
        return false;
    }
    static char name[] = "train";
    (*argv)[0] = name;
    *argc = 1;
    for (int64_t at = 0; at < size; at += (int64_t)strlen(*arguments + at) + 1) {
        (*argv)[(*argc)++] = *arguments + at;
    }
    (*argv)[*argc] = NULL;
    return true;
}

int training_read_arguments(const options *given, training *r, options *o, char **arguments, char ***argv)
{
    tg_error error = TG_NO_ERROR;
    int argc;
    if (!model_find_in("another --resume", given->resume, TG_CHECKPOINT_LAST, r->path)) {
        return 2;
    }
    r->resumed = r->path;
    if (!training_arguments(r->resumed, arguments, argv, &argc, &error)) {
        complain("%s", error.text);
        return 2;
    }
    int status = options_read(o, TRAIN, "", argc, *argv);
    if (status < 0 && given->steps != AS_CONFIGURED) {
        status = extend(given->steps, r, o, argc, *argv);
    }
    o->resume = o->out = given->resume;
    o->activation_checkpointing |= given->activation_checkpointing;
    if (given->threads > 0) {
        tg_set_threads((int)given->threads, NULL);
    }
    return status;
}
