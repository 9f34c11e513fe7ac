#include "book.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/nearest.h"
#include "own_text.h"

/* The number of tokens of the tokenizer for the own text: 256 bytes, the end of a text, and merges. */
#define OWN_VOCABULARY 400

static const char files[] =
    "\nThe files of \"Build a Large Language Model From Scratch\" in DIR:\n"
    "  the-verdict.txt  a short story of 1908, github.com/rasbt/LLMs-from-scratch, ch02/01_main-chapter-code\n"
    "    SHA-256 b41e41a68f0398a3154ae69e2e4c0e2694e17fe0d66730536837f1b01935b31f\n"
    "  vocab.bpe        GPT-2's merges, openaipublic.blob.core.windows.net/gpt-2/models/124M/vocab.bpe\n"
    "    SHA-256 1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5\n";

static bool is_reproducible, has_own_text;

void book_refuse(const char *argument, const char *option, const char *other)
{
    const char *const names[] = {"help", "version", "book", "reproducible", option, other};
    nearest n = {.word = argument};
    char text[NEAREST_TEXT];
    for (int i = 0; i < 6; i++) {
        if (names[i]) {
            nearest_try(&n, names[i]);
        }
    }
    if (n.name && strncmp(argument, "--", 2) == 0 && strcmp(argument + 2, n.name) == 0) {
        print_line(stderr, "--%s: must be followed by a value", n.name);
    } else {
        print_line(stderr, "'%s' is not an option%s; --help lists the options", argument, nearest_text(&n, "--", text));
    }
    exit(2);
}

/* Returns the folder of --book, or NULL. --steps is an option only if `steps` is not NULL. */
static const char *read_command_line(int argc, char **argv, int64_t *steps)
{
    const char *folder = NULL, *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            printf(
                "%s [--book DIR] [--reproducible]%s: a part of \"Build a Large Language Model From Scratch\"\n\n"
                "  --book DIR   folder with the-verdict.txt and vocab.bpe; without it, programs that need them read a\n"
                "               short text of their own\n"
                "  --reproducible\n"
                "               compute the same bits on every processor and with any number of threads\n%s%s",
                name, steps ? " [--steps N]" : "", steps ? "  --steps N    stop after N training steps\n" : "", files);
            exit(book_end());
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("%s (tapegrad) %s\n", name, tg_version());
            exit(book_end());
        }
        if (strcmp(argv[i], "--book") == 0 && i + 1 < argc) {
            folder = argv[++i];
        } else if (strcmp(argv[i], "--reproducible") == 0) {
            is_reproducible = true;
        } else if (steps && strcmp(argv[i], "--steps") == 0 && i + 1 < argc) {
            char *end;
            errno = 0;
            *steps = strtoll(argv[++i], &end, 10);
            if (errno || *end || *steps < 1) {
                print_line(stderr, "--steps %s: must be a whole number, at least 1", argv[i]);
                exit(2);
            }
        } else {
            book_refuse(argv[i], steps ? "steps" : NULL, NULL);
        }
    }
    return folder;
}

void book_begin(int argc, char **argv)
{
    read_command_line(argc, argv, NULL);
}

const char *book_folder(int argc, char **argv, int64_t *steps)
{
    const char *folder = read_command_line(argc, argv, steps);
    has_own_text = !folder || !*folder;
    return has_own_text ? NULL : folder;
}

void question(const char *text)
{
    printf("Question: %s\n", text);
    if (has_own_text) {
        printf("Without --book DIR this reads a short text of its own, and the figures are not the book's; --help says "
               "what "
               "DIR needs.\n");
    }
}

tg_tape *book_tape(tg_run *run)
{
    tg_tape_config config = tg_tape_config_default();
    config.detect_freed_results = true;
    tg_tape *t = tg_tape_new(run, &config);
    tg_rng_set_profile(tg_run_rng(run), is_reproducible ? TG_RNG_PORTABLE : TG_RNG_AVX2);
    tg_tape_set_reproducible(t, is_reproducible);
    return t;
}

void check(const tg_error *error)
{
    if (error->code != TG_OK) {
        fprintf(stderr, "%s\n", error->text);
        exit(1);
    }
}

int book_end(void)
{
    bool is_printed = fflush(stdout) == 0;
    int cause = errno;
    is_printed = is_printed && !ferror(stdout);
    if (!is_printed) {
        fprintf(stderr, "not all of the output could be written to stdout: %s\n", strerror(cause));
    }
    return is_printed ? 0 : 1;
}

/* ---- the book's files ---- */

static void path_of(const char *folder, const char *name, char path[4096])
{
    snprintf(path, 4096, "%s/%s", folder, name);
}

/* Returns a copy of the programs' own text, which tg_text_free frees. */
static char *copy_own_text(size_t *length)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    tg_tokenizer *bpe = book_tokenizer(NULL);
    tg_tokenizer_encode(bpe, own_text, strlen(own_text), false, &tokens, &error);
    check(&error);
    char *text = tg_tokenizer_decode(bpe, tokens.ids, tokens.count, length, &error);
    check(&error);
    tg_tokens_free(&tokens);
    tg_tokenizer_free(bpe);
    return text;
}

char *book_text(const char *folder, size_t *length)
{
    char path[4096];
    tg_error error = TG_NO_ERROR;
    if (!folder) {
        return copy_own_text(length);
    }
    path_of(folder, "the-verdict.txt", path);
    char *text = tg_text_read(path, length, &error);
    check(&error);
    return text;
}

tg_tokenizer *book_tokenizer(const char *folder)
{
    char path[4096] = "";
    tg_error error = TG_NO_ERROR;
    if (folder) {
        path_of(folder, "vocab.bpe", path);
    }
    tg_tokenizer *bpe = folder ? tg_tokenizer_open(path, NULL, &error)
                               : tg_tokenizer_train(own_text, strlen(own_text), OWN_VOCABULARY, &error);
    check(&error);
    return bpe;
}

tg_loader *book_loader(const char *folder, int64_t batch_size, int64_t context, int64_t stride, tg_run *run)
{
    tg_error error = TG_NO_ERROR;
    size_t length;
    char *text = book_text(folder, &length);
    tg_tokenizer *bpe = book_tokenizer(folder);
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, length, false, &tokens, &error);
    check(&error);
    tg_loader_config config = tg_loader_config_default();
    config.context = context;
    config.stride = stride;
    config.batch_size = batch_size;
    config.drop_last = true;
    tg_loader *loader = tg_loader_new(run, tokens.ids, tokens.count, &config);
    check(tg_loader_error(loader));
    tg_tokens_free(&tokens);
    tg_tokenizer_free(bpe);
    tg_text_free(text);
    return loader;
}

tg_batch next_batch(tg_loader *loader)
{
    tg_batch batch;
    tg_loader_next(loader, &batch);
    check(tg_loader_error(loader));
    return batch;
}

tg_tensor *book_batch_of_two(const char *folder)
{
    const char *sentences[] = {"Every effort moves you", "Every day holds a"};
    tg_tokenizer *bpe = book_tokenizer(folder);
    tg_error error = TG_NO_ERROR;
    tg_tensor *batch = tg_tensor_new(TG_I32, TG_SHAPE(2, 4), &error);
    check(&error);
    for (int i = 0; i < 2; i++) {
        tg_tokens tokens;
        tg_tokenizer_encode(bpe, sentences[i], strlen(sentences[i]), false, &tokens, &error);
        check(&error);
        memcpy((int32_t *)tg_tensor_data_mut(batch) + 4 * i, tokens.ids, 4 * sizeof *tokens.ids);
        tg_tokens_free(&tokens);
    }
    tg_tokenizer_free(bpe);
    return batch;
}

/* ---- output in Python's format ---- */

void cell(int number)
{
    printf("\n[cell %d]\n", number);
}

void print_ids(const int32_t *ids, int64_t count)
{
    printf("[");
    for (int64_t i = 0; i < count; i++) {
        printf(i ? ", %d" : "%d", ids[i]);
    }
    printf("]");
}

void print_shape(const tg_tensor *x)
{
    printf("torch.Size([");
    for (int axis = 0; axis < tg_tensor_rank(x); axis++) {
        printf(axis ? ", %lld" : "%lld", (long long)tg_tensor_size(x, axis));
    }
    printf("])\n");
}

void print_tensor(const tg_tensor *x)
{
    tg_tensor_print(x, stdout, NULL, NULL);
}

void print_named(const char *name, const tg_tensor *x)
{
    printf("%s ", name);
    print_tensor(x);
}
