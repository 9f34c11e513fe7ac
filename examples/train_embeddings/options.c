#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "train_embeddings: trains token and position embeddings on a text, and shows what they learned.\n"
    "\n"
    "  --text FILE        the text, UTF-8             (examples/lighthouse.txt)\n"
    "  --vocab FILE       a vocab.bpe, GPT-2's say    (a vocabulary is trained on the text)\n"
    "  --vocab-size N     ids of that vocabulary      (600)\n"
    "  --dim N            width of the embeddings     (48)\n"
    "  --context N        tokens that a prediction sees (8)\n"
    "  --batch N          windows a step              (64)\n"
    "  --steps N          steps of training           (2500)\n"
    "  --lr X             learning rate               (0.004)\n"
    "  --optimizer NAME   adamw, adam or sgd          (adamw)\n"
    "  --seed N           of all random numbers       (123)\n"
    "  --threads N        0: all processors           (0)\n"
    "  --out DIR          where the results go        (out)\n";

static bool read_integer(const char *name, const char *text, int64_t least, int64_t most, int64_t *value)
{
    char *end;
    errno = 0;
    long long read = strtoll(text, &end, 10);
    if (errno || end == text || *end || read < least || read > most) {
        fprintf(stderr, "train_embeddings: --%s %s: a whole number from %lld to %lld is wanted\n", name, text,
                (long long)least, (long long)most);
        return false;
    }
    *value = read;
    return true;
}

static bool read_rate(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !(*value > 0) || !isfinite(*value)) {
        fprintf(stderr, "train_embeddings: --lr %s: a number above 0 is wanted\n", text);
        return false;
    }
    return true;
}

int options_read(options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"text", required_argument, NULL, 't'},
        {"vocab", required_argument, NULL, 'v'},
        {"vocab-size", required_argument, NULL, 'V'},
        {"dim", required_argument, NULL, 'd'},
        {"context", required_argument, NULL, 'c'},
        {"batch", required_argument, NULL, 'b'},
        {"steps", required_argument, NULL, 's'},
        {"lr", required_argument, NULL, 'l'},
        {"optimizer", required_argument, NULL, 'o'},
        {"seed", required_argument, NULL, 'S'},
        {"threads", required_argument, NULL, 'T'},
        {"out", required_argument, NULL, 'O'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    *o = (options){.text = "examples/lighthouse.txt",
                   .out = "out",
                   .vocab_size = 600,
                   .dim = 48,
                   .context = 8,
                   .batch = 64,
                   .steps = 2500,
                   .lr = 0.004,
                   .optimizer = "adamw",
                   .seed = 123};
    int64_t number = 0;
    bool good = true;
    for (int c; good && (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        switch (c) {
        case 't': o->text = optarg; break;
        case 'v': o->vocab = optarg; break;
        case 'O': o->out = optarg; break;
        case 'o': o->optimizer = optarg; break;
        case 'V': good = read_integer("vocab-size", optarg, 257, 1000000, &o->vocab_size); break;
        case 'd': good = read_integer("dim", optarg, 1, 65536, &o->dim); break;
        case 'c': good = read_integer("context", optarg, 1, 65536, &o->context); break;
        case 'b': good = read_integer("batch", optarg, 1, 1000000, &o->batch); break;
        case 's': good = read_integer("steps", optarg, 1, 1000000000, &o->steps); break;
        case 'l': good = read_rate(optarg, &o->lr); break;
        case 'S':
            good = read_integer("seed", optarg, 0, INT64_MAX, &number);
            o->seed = (uint64_t)number;
            break;
        case 'T':
            good = read_integer("threads", optarg, 0, 256, &number);
            o->threads = (int)number;
            break;
        case 'h': fputs(usage, stdout); return 0;
        default: fprintf(stderr, "train_embeddings --help lists the options\n"); return 2;
        }
    }
    if (good && optind < argc) {
        fprintf(stderr, "train_embeddings: '%s' is not an option; train_embeddings --help lists them\n", argv[optind]);
        return 2;
    }
    if (good && strcmp(o->optimizer, "adamw") && strcmp(o->optimizer, "adam") && strcmp(o->optimizer, "sgd")) {
        fprintf(stderr, "train_embeddings: --optimizer %s: adamw, adam or sgd is wanted\n", o->optimizer);
        return 2;
    }
    return good ? -1 : 2;
}
