/* gpt: GPT-2 on the command line: trains a model, measures its loss, and generates text.
 *
 *   main.c      the list of commands
 *   options.c   the options of each command
 *   corpus.c    token ids for training and validation
 *   model.c     a GPT and its initial values
 *   weights.c   the file format of a model
 *   history.c   losses and their curves
 *   parallel.h  several processes: parallel_none.c in gpt, parallel_mpi.c in gpt_mpi
 *
 * Each command is in a file of its name: train.c, eval.c, generate.c, tokenize.c, info.c, compare.c.
 */
#include <string.h>

#include "../common/program.h"
#include "commands.h"
#include "parallel.h"

const char program_name[] = "gpt";

static const struct {
    const char *name;
    command which;
    int (*run)(const options *o);
    const char *introduction;
} commands[] = {
    {"train", TRAIN, train,
     "gpt train: trains a GPT on a text or on token files. It writes a folder with the weights, the vocabulary,\n"
     "the losses, their curve and a sample. The weights are saved at each validation and at the end. Ctrl-C stops\n"
     "after the current step; the same files are written.\n"},
    {"eval", EVAL, eval, "gpt eval: prints the loss and the perplexity of a trained model.\n"},
    {"generate", GENERATE, generate, "gpt generate: continues a text with a trained model.\n"},
    {"tokenize", TOKENIZE, tokenize, "gpt tokenize: converts a text to token ids, in a file or on the terminal.\n"},
    {"info", INFO, info, "gpt info: prints the size of a model, and the memory that training it takes.\n"},
    {"compare", COMPARE, compare,
     "gpt compare: prints the first op in which two runs differ, from the ledgers of gpt train --ledger.\n"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void explain(void)
{
    printf("gpt: trains a GPT, measures its loss, and generates text.\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *text = strchr(commands[i].introduction, ':') + 2;
        printf("  gpt %-10s %.*s\n", commands[i].name, (int)strcspn(text, ".\n"), text);
    }
    printf("\ngpt COMMAND --help lists the command's options.\n");
}

static int run(int argc, char **argv)
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
    complain("'%s' is not a command; must be train, eval, generate, tokenize, info or compare", argv[1]);
    return 2;
}

int main(int argc, char **argv)
{
    return parallel_end(parallel_begin() ? run(argc, argv) : 1);
}
