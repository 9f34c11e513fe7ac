#include "fine_tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    " [--book DIR] [--weights FILE] [--steps N] [--reproducible]:\n"
    "a part of \"Build a Large Language Model From Scratch\"\n\n"
    "  --book DIR      a folder with the files of github.com/rasbt/LLMs-from-scratch that the program reads:\n"
    "                  sms_spam_collection.tsv (chapter 6: the file SMSSpamCollection of\n"
    "                  archive.ics.uci.edu/dataset/228), instruction-data.json (ch07/01_main-chapter-code),\n"
    "                  the-verdict.txt, and vocab.bpe (openaipublic.blob.core.windows.net/gpt-2/models/124M).\n"
    "                  Without it the program reads a few texts of its own\n"
    "  --weights FILE  the published GPT-2: huggingface.co/openai-community/gpt2, model.safetensors. Without it the\n"
    "                  model begins with weights as drawn\n"
    "  --steps N       stop after N training steps\n"
    "  --reproducible  compute the same bits on every processor and with any number of threads\n";

static int64_t read_steps(const char *text)
{
    char *end;
    errno = 0;
    int64_t steps = strtoll(text, &end, 10);
    if (errno || *end || steps < 1) {
        print_line(stderr, "--steps %s: must be a whole number, at least 1", text);
        exit(2);
    }
    return steps;
}

options begin(int argc, char **argv, const char *question, int64_t usual_steps)
{
    options o = {.steps = usual_steps};
    char *left[4] = {argv[0]};
    int count = 1;
    for (int i = 1; i < argc; i++) {
        const char *slash = strrchr(argv[0], '/');
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            printf("%s%s", slash ? slash + 1 : argv[0], help);
            exit(book_end());
        } else if (strcmp(argv[i], "--book") == 0 && has_value) {
            o.book = argv[++i];
        } else if (strcmp(argv[i], "--weights") == 0 && has_value) {
            o.weights = argv[++i];
        } else if (strcmp(argv[i], "--steps") == 0 && has_value) {
            o.steps = read_steps(argv[++i]);
        } else if (strcmp(argv[i], "--version") != 0 && strcmp(argv[i], "--reproducible") != 0) {
            book_refuse(argv[i], "weights", "steps");
        } else if (count < 3) {
            left[count++] = argv[i];
        }
    }
    book_begin(count, left);
    printf("Question: %s\n", question);
    if (!o.book) {
        printf("Without --book DIR this reads a few texts of its own, and the figures are not the book's; --help says "
               "what DIR has.\n");
    }
    return o;
}

int64_t *pandas_permutation(uint64_t seed, int64_t count)
{
    /* numpy's generator is torch's, so a draw below a power of two is the same; larger draws are repeated */
    tg_rng *rng = tg_rng_new(seed);
    int64_t *order = malloc((size_t)count * sizeof *order);
    for (int64_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t range = 1, other;
        while (range <= i) {
            range *= 2;
        }
        do {
            other = tg_rng_randint(rng, 0, range, NULL);
        } while (other > i);
        int64_t held = order[i];
        order[i] = order[other];
        order[other] = held;
    }
    tg_rng_free(rng);
    return order;
}

tg_tokenizer *tokenizer_of(const options *o, const char *texts)
{
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *bpe = o->book ? book_tokenizer(o->book) : tg_tokenizer_train(texts, strlen(texts), 300, &error);
    check(&error);
    return bpe;
}

/* ---- the model ---- */

tg_gpt *gpt_to_tune(tg_params *params, const options *o, const tg_tokenizer *bpe, int64_t context)
{
    tg_gpt *model;
    if (o->weights) {
        model = tg_gpt_open(params, o->weights, NULL);
    } else {
        tg_gpt_config config;
        tg_gpt_config_from_name("gpt2-small", &config, NULL);
        config.dropout = 0;
        config.qkv_bias = true;
        if (!o->book) {
            config.vocabulary = tg_tokenizer_vocabulary(bpe);
            config.context = context;
            config.width = 32;
            config.heads = 4;
            config.layers = 2;
        }
        model = tg_gpt_new(params, &config);
    }
    check(tg_params_error(params));
    return model;
}

/* Returns the tensor of "<name><end>", where `name` has `length` characters; NULL if there is none. */
static const tg_tensor *sibling(const tg_params *params, const char *name, size_t length, const char *end)
{
    char full[300];
    snprintf(full, sizeof full, "%.*s%s", (int)length, name, end);
    return tg_params_find(params, full);
}

void print_layers(const tg_params *params)
{
    static const char end[] = ".weight";
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        size_t length = strlen(entry.name);
        if (tg_tensor_rank(entry.tensor) != 2 || strstr(entry.name, ".lora_")) {
            continue;
        }
        length -= strlen(end);
        bool is_table = strstr(entry.name, "_emb.") != NULL;
        /* torch writes a Linear's sizes as in, out */
        printf("%.*s %s %lld %lld", (int)length, entry.name, is_table ? "Embedding" : "Linear",
               (long long)tg_tensor_size(entry.tensor, is_table ? 0 : 1),
               (long long)tg_tensor_size(entry.tensor, is_table ? 1 : 0));
        if (!is_table) {
            printf(" bias=%s", sibling(params, entry.name, length, ".bias") ? "True" : "False");
        }
        printf("%s\n", sibling(params, entry.name, length, ".lora_A.weight") ? " LoRA" : "");
    }
}

void print_grouped(int64_t number)
{
    if (number >= 1000) {
        print_grouped(number / 1000);
        printf(",%03d", (int)(number % 1000));
    } else {
        printf("%d", (int)number);
    }
}

int64_t trained_values(const tg_params *params)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        count += entry.kind == TG_ENTRY_PARAMETER && tg_tensor_requires_grad(entry.tensor)
                     ? tg_tensor_count(entry.tensor)
                     : 0;
    }
    return count;
}
