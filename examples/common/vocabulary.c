#include "vocabulary.h"

#include "program.h"

#include <tapegrad/extend.h>

/* Texts of less than 16 MB take no time worth a line. */
#define LONG_TEXT (16 << 20)

typedef struct watch {
    double start;
    int32_t size;   /* of the vocabulary that is trained; 0: a text is encoded */
    int64_t length; /* of the text */
} watch;

static bool on_progress(void *context, const tg_text_progress *now)
{
    watch *w = context;
    w->length = now->all_bytes;
    if (now->all_bytes >= LONG_TEXT) {
        double done = (double)now->bytes / (double)now->all_bytes, spent = seconds() - w->start;
        long long megabytes = (long long)now->all_bytes >> 20;
        if (now->vocabulary > 256) {
            progress_of("ids", now->vocabulary, w->size - 1, "%lld different words", (long long)now->words);
        } else if (w->size > 0) {
            progress_of("MB", now->bytes >> 20, megabytes, "%lld different words  %.0f s left", (long long)now->words,
                        spent / done - spent);
        } else {
            progress_of("MB", now->bytes >> 20, megabytes, "%lld tokens  %.0f s left", (long long)now->tokens,
                        spent / done - spent);
        }
    }
    return !interrupted();
}

/* Ends the watch after a call, and replaces its error after Ctrl-C. */
static void watch_end(bool is_done, const char *what, tg_error *error)
{
    progress_break();
    interrupt_release();
    if (!is_done && interrupted() && error->code == TG_ERROR_STATE) {
        snprintf(error->text, sizeof error->text, "interrupted; %s is not written", what);
    }
}

tg_tokenizer *vocabulary_train(const char *const *paths, int count, int64_t size, tg_error *error)
{
    watch w = {seconds(), (int32_t)size, 0};
    tg_tokenizer_train_files_config config = tg_tokenizer_train_files_config_default();
    config.on_progress = on_progress;
    config.context = &w;
    interrupt_catch();
    tg_tokenizer *bpe = tg_tokenizer_train_files(paths, count, (int32_t)size, &config, error);
    watch_end(bpe, "the vocabulary", error);
    return bpe;
}

int64_t vocabulary_encode(const tg_tokenizer *bpe, const char *path, const char *out, int bytes, bool special,
                          int64_t *length, tg_error *error)
{
    watch w = {seconds(), 0, 0};
    tg_tokenizer_encode_files_config config = tg_tokenizer_encode_files_config_default();
    config.special = special;
    config.on_progress = on_progress;
    config.context = &w;
    interrupt_catch();
    int64_t count = tg_tokenizer_encode_files(bpe, &path, 1, out, bytes, &config, error);
    watch_end(count >= 0, out, error);
    *length = w.length;
    return count;
}

const char *token_text(const tg_tokenizer *bpe, int32_t id, char text[TOKEN_TEXT])
{
    size_t length;
    const char *bytes = tg_tokenizer_bytes(bpe, id, &length);
    char shown[TOKEN_TEXT] = "";
    for (size_t i = 0, used = 0; i < length && used + sizeof "\\x00" <= sizeof shown; i++) {
        used += (size_t)snprintf(shown + used, sizeof shown - used, bytes[i] ? "%c" : "\\x00",
                                 bytes[i] == ' ' ? '_' : bytes[i]);
    }
    tg_escape(text, TOKEN_TEXT, shown);
    return text;
}
