/* sentences: vectors of sentences on the command line: trains them on pairs of texts, and searches with them.
 *
 *   main.c     the commands and their options
 *   texts.c    pairs of texts from files
 *   model.c    the table, its tokenizer, and their folder
 *   train.c    the training loop
 *   search.c   eval, search, similar and export
 *   map.c      a picture of the vectors: pca.c and tsne.c place them
 */
#include <string.h>

#include "../common/command_line.h"
#include "../common/nearest.h"
#include "sentences.h"

const char program_name[] = "sentences";

typedef enum command { TRAIN = 1, EVAL = 2, SEARCH = 4, SIMILAR = 8, MAP = 16, EXPORT = 32 } command;

#define AT(field) offsetof(options, field)
#define SIZE "[1,1000000]"
#define USES (EVAL | SEARCH | SIMILAR | MAP | EXPORT)

static const command_line_option table[] = {
    {"pairs", "FILES", VALUE_TEXT, AT(pairs), NULL,
     "pairs of a query and a document: .tsv, .csv or .jsonl, with commas between their paths", TRAIN | EVAL},
    {"documents", "FILES", VALUE_TEXT, AT(documents), NULL, "documents, as in --pairs", SEARCH | SIMILAR | MAP},
    {"more-documents", "FILES", VALUE_TEXT, AT(documents), NULL,
     "documents among which those of the pairs are searched, too (default none)", EVAL},
    {"columns", "NAMES", VALUE_TEXT, AT(columns), NULL,
     "the columns of the query, the document, and its name if it has one, with commas between them, or of the document "
     "alone (default the first three; after a training with --columns, its own)",
     TRAIN | EVAL | SEARCH | SIMILAR | MAP},
    {"held-out", "FILES", VALUE_TEXT, AT(held_out), NULL, "pairs that the recall is measured with (default none)",
     TRAIN},
    {"tokenizer", "FOLDER", VALUE_TEXT, AT(tokenizer), NULL,
     "a published tokenizer, such as a folder with tokenizer.json (default byte pairs, trained on the texts)", TRAIN},
    {"vocab-size", "N", VALUE_INTEGER, AT(vocab_size), "[257,1000000]", "size of the trained vocabulary", TRAIN},
    {"out", "DIR", VALUE_TEXT, AT(out), NULL, "folder for the model", TRAIN},
    {"width", "N", VALUE_INTEGER, AT(width), "[1,65536]", "values of a vector", TRAIN},
    {"widths", "LIST", VALUE_TEXT, AT(widths), NULL,
     "smaller widths, with commas between them: the first values of a vector are trained as vectors, too (default "
     "none)",
     TRAIN},
    {"widths", "LIST", VALUE_TEXT, AT(widths), NULL, "measures the first values of the vectors, too (default none)",
     EVAL},
    {"batch", "N", VALUE_INTEGER, AT(batch), "[2,1000000]", "pairs of a step", TRAIN},
    {"epochs", "N", VALUE_INTEGER, AT(epochs), SIZE, "passes over the pairs", TRAIN},
    {"lr", "X", VALUE_NUMBER, AT(lr), "(0,inf)", "largest learning rate; it falls to 0 linearly", TRAIN},
    {"warmup", "X", VALUE_NUMBER, AT(warmup), "[0,1]", "share of the steps in which the learning rate rises", TRAIN},
    {"scale", "X", VALUE_NUMBER, AT(scale), "(0,inf)", "factor of the cosines in the loss", TRAIN},
    {"seed", "N", VALUE_INTEGER, AT(seed), "[0,4294967295]", "seed of all random numbers", TRAIN},
    {"checkpoint-minutes", "X", VALUE_NUMBER, AT(minutes), "[0,inf)", "minutes from one checkpoint to the next", TRAIN},
    {"resume", NULL, VALUE_FLAG, AT(resume), NULL, "continue a training in --out that was stopped or killed", TRAIN},
    {"overwrite", NULL, VALUE_FLAG, AT(overwrite), NULL, "replace a model in --out", TRAIN | EXPORT},
    {"model", "DIR", VALUE_TEXT, AT(model), NULL, "a trained model, or a StaticEmbedding of sentence-transformers",
     USES},
    {"query", "TEXT", VALUE_TEXT, AT(query), NULL, "searches for this text alone (default lines of the input)", SEARCH},
    {"name", "NAME", VALUE_TEXT, AT(name), NULL, "name of the document to which the others are similar", SIMILAR},
    {"top", "N", VALUE_INTEGER, AT(top), SIZE, "number of answers", SEARCH | SIMILAR},
    {"method", "NAME", VALUE_TEXT, AT(method), NULL, "pca or tsne", MAP},
    {"most", "N", VALUE_INTEGER, AT(most), "[3,1000000]", "most documents; of more, some that are evenly spread", MAP},
    {"seed", "N", VALUE_INTEGER, AT(seed), "[0,4294967295]", "seed of t-SNE", MAP},
    {"out", "DIR", VALUE_TEXT, AT(out), NULL, "folder for map.svg and map.html (default --model)", MAP},
    {"out", "DIR", VALUE_TEXT, AT(out), NULL, "folder for the copy", EXPORT},
    {"width", "N", VALUE_INTEGER, AT(width), "[1,65536]", "first values of a vector that are kept (default all)",
     EXPORT},
    {"threads", "N", VALUE_INTEGER, AT(threads), "[1,256]", "threads (default one per processor)",
     TRAIN | EVAL | SEARCH | SIMILAR | MAP},
};

static const struct {
    const char *name;
    command which;
    int (*run)(const options *o);
    const char *introduction;
    options defaults;
} commands[] = {
    {"train",
     TRAIN,
     train,
     "sentences train: trains vectors of sentences: each query has to find its document among those of a batch.\n"
     "It writes a folder that sentence-transformers opens. Ctrl-C stops the training and saves what it has learned.\n",
     {.out = "out/sentences",
      .vocab_size = 8000,
      .width = 256,
      .batch = 1024,
      .epochs = 3,
      .lr = 0.2,
      .warmup = 0.1,
      .scale = 20,
      .seed = 1,
      .minutes = 1}},
    {"eval", EVAL, eval, "sentences eval: measures how many queries of pairs find their documents.\n", {0}},
    {"search",
     SEARCH,
     search,
     "sentences search: prints the documents that are nearest to a query, with their cosines.\n",
     {.top = 10}},
    {"similar",
     SIMILAR,
     similar,
     "sentences similar: prints the documents that are nearest to a document.\n",
     {.top = 10}},
    {"map",
     MAP,
     map,
     "sentences map: draws the documents, near to each other if their vectors are.\n",
     {.method = "tsne", .most = 2000, .seed = 1}},
    {"export", EXPORT, export, "sentences export: writes a model with fewer values of each vector.\n", {0}},
};

#define COMMANDS (sizeof commands / sizeof *commands)
#define NAMES "train, eval, search, similar, map or export"

static int explain(int argc, char **argv)
{
    static const char introduction[] =
        "sentences: trains vectors of sentences on pairs of texts, and searches with them.\n"
        "sentences train|eval|search|similar|map|export --help lists the options.\n";
    if (argc > 1 && argv[1][0] != '-') {
        nearest n = {.word = argv[1]};
        char text[NEAREST_TEXT];
        for (size_t i = 0; i < COMMANDS; i++) {
            nearest_try(&n, commands[i].name);
        }
        complain("'%s' is not a command%s; must be " NAMES, argv[1], nearest_text(&n, "", text));
        return 2;
    }
    int status = command_line_refuse_options(introduction, argc, argv);
    if (status >= 0) {
        return status;
    }
    complain("a command is missing: " NAMES);
    return 2;
}

/* Returns whether the options have those that must be given: texts whose help names no default. */
static bool has_all(command which, const options *o)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if ((table[i].commands & which) && table[i].kind == VALUE_TEXT && !strstr(table[i].help, "(default") &&
            !*(const char *const *)((const char *)o + table[i].offset)) {
            return complain("the options must have --%s %s", table[i].name, table[i].argument);
        }
    }
    return true;
}

static int run(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            options o = commands[i].defaults;
            o.model = "out/sentences";
            o.columns = "";
            int status = command_line_read(table, sizeof table / sizeof *table, commands[i].which,
                                           commands[i].introduction, &o, argc - 1, argv + 1);
            if (status >= 0 || !has_all(commands[i].which, &o)) {
                return status >= 0 ? status : 2;
            }
            tg_error error = TG_NO_ERROR;
            if (o.threads > 0 && !tg_set_threads((int)o.threads, &error)) {
                complain("%s", error.text);
                return 2;
            }
            return commands[i].run(&o);
        }
    }
    return explain(argc, argv);
}

int main(int argc, char **argv)
{
    program_begin();
    return program_end(run(argc, argv));
}
