#include "options.h"

#include <string.h>

#include "../common/command_line.h"
#include "../common/program.h"

static const char introduction[] =
    "train_embeddings: trains token and position embeddings on a text, and prints what they learned.\n";

#define AT(field) offsetof(options, field)

static const command_line_option table[] = {
    {"text", "FILE", VALUE_TEXT, AT(text), NULL, "UTF-8 text", 1},
    {"vocab", "FILE", VALUE_TEXT, AT(vocab), NULL, "vocab.bpe, for example GPT-2's (default trained on the text)", 1},
    {"vocab-size", "N", VALUE_INTEGER, AT(vocab_size), "[257,1000000]", "size of the trained vocabulary", 1},
    {"dim", "N", VALUE_INTEGER, AT(dim), "[1,65536]", "width of the embeddings", 1},
    {"context", "N", VALUE_INTEGER, AT(context), "[1,65536]", "maximum number of tokens for a prediction", 1},
    {"batch", "N", VALUE_INTEGER, AT(batch), "[1,1000000]", "windows per step", 1},
    {"steps", "N", VALUE_INTEGER, AT(steps), "[1,1000000000]", "training steps", 1},
    {"lr", "X", VALUE_NUMBER, AT(lr), "(0,inf)", "learning rate", 1},
    {"optimizer", "NAME", VALUE_TEXT, AT(optimizer), NULL, "adamw, adam or sgd", 1},
    {"momentum", "X", VALUE_NUMBER, AT(momentum), "[0,1)", "sgd: momentum", 1},
    {"deferred", NULL, VALUE_FLAG, AT(deferred), NULL, "rows without gradient make up their steps later", 1},
    {"seed", "N", VALUE_INTEGER, AT(seed), "[0,4294967295]", "seed of all random numbers", 1},
    {"threads", "N", VALUE_INTEGER, AT(threads), "[0,256]", "number of threads; 0: all processors", 1},
    {"reproducible", NULL, VALUE_FLAG, AT(reproducible), NULL,
     "compute the same bits on every processor and with any number of threads", 1},
    {"out", "DIR", VALUE_TEXT, AT(out), NULL, "folder for the results", 1},
    {"resume", NULL, VALUE_FLAG, AT(resume), NULL, "continue a run in --out that was stopped or killed", 1},
    {"overwrite", NULL, VALUE_FLAG, AT(overwrite), NULL, "replace a trained model in --out", 1},
};

int options_read(options *o, int argc, char **argv)
{
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
    int status = command_line_read(table, sizeof table / sizeof *table, 1, introduction, o, argc, argv);
    if (status < 0 && strcmp(o->optimizer, "adamw") && strcmp(o->optimizer, "adam") && strcmp(o->optimizer, "sgd")) {
        complain("--optimizer %s: must be adamw, adam or sgd", o->optimizer);
        return 2;
    }
    if (status < 0 && o->momentum != 0 && strcmp(o->optimizer, "sgd")) {
        complain("--momentum: must be used with --optimizer sgd");
        return 2;
    }
    if (status < 0 && o->deferred && !strcmp(o->optimizer, "sgd") && o->momentum == 0) {
        complain("--deferred: sgd without --momentum moves no row without gradient");
        return 2;
    }
    if (status < 0 && o->resume && o->overwrite) {
        complain("--resume: must not be used with --overwrite");
        return 2;
    }
    return status;
}
