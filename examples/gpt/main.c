/* gpt: GPT-2 in a terminal. Trains a model, measures it, and lets it write.
 *
 *   main.c      the commands        corpus.c     text and token files, in two parts
 *   options.c   what can be asked   model.c      a GPT and how it starts      weights.c   a model in a file
 *   train.c     history.c   eval.c   generate.c   tokenize.c   info.c   compare.c
 */
#include <string.h>

#include "../common/program.h"
#include "commands.h"

const char program_name[] = "gpt";

static const struct {
    const char *name;
    command which;
    int (*run)(const options *o);
    const char *introduction;
} commands[] = {
    {"train", TRAIN, train,
     "gpt train: trains a GPT on a text or on token files. It writes to a folder: weights (at each validation and at "
     "the\n"
     "end), the vocabulary, losses and their curve, and a sample. Ctrl-C stops after the step, and all this is "
     "written.\n"},
    {"eval", EVAL, eval, "gpt eval: the loss and the perplexity of a trained model.\n"},
    {"generate", GENERATE, generate, "gpt generate: continues a text with a trained model.\n"},
    {"tokenize", TOKENIZE, tokenize, "gpt tokenize: a text as token ids, in a file or on the terminal.\n"},
    {"info", INFO, info, "gpt info: the sizes of a model, and the memory that training it takes.\n"},
    {"compare", COMPARE, compare,
     "gpt compare: the first op in which two runs differ, from their ledgers (tapegrad/ledger.h).\n"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void explain(void)
{
    printf("gpt: trains a GPT, measures it, and lets it write.\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *text = strchr(commands[i].introduction, ':') + 2;
        printf("  gpt %-10s %.*s\n", commands[i].name, (int)strcspn(text, ".\n"), text);
    }
    printf("\ngpt COMMAND --help lists the command's options.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        explain();
        return argc < 2 ? 2 : 0;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            options o;
            int status = options_read(&o, commands[i].which, commands[i].introduction, argc - 1, argv + 1);
            return status >= 0 ? status : commands[i].run(&o);
        }
    }
    complain("'%s' is not a command; train, eval, generate, tokenize, info or compare is wanted", argv[1]);
    return 2;
}
