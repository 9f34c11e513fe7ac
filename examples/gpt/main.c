/* gpt: language models on the command line: trains and fine-tunes a model, measures its loss, and generates text.
 *
 *   main.c         the list of commands
 *   options.c      the options of each command
 *   corpus.c       token ids for training and validation
 *   model.c        a GPT and its configuration
 *   checkpoint.c   loading a trained model
 *   published.c    models of other programs, as folders
 *   examples.c     texts with answers, from JSON lines
 *   chat.c         conversations as texts
 *   memory.c       the memory that a model and its training need
 *   training.c     the checkpoints of gpt train, and --resume
 *   optimizer.c    the optimizers of gpt train
 *   history.c      losses and their curves
 *   parallel.h     several processes: parallel_none.c in gpt, parallel_mpi.c in gpt_mpi
 *
 * Each command is in a file of its name: train.c, eval.c, generate.c, vocabulary.c, tokenize.c, info.c, compare.c,
 * import.c, export.c.
 */
#include <string.h>

#include "../common/nearest.h"
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
     "gpt train: trains a GPT on a text or on token files. It writes a folder with checkpoints, the losses, their\n"
     "curve and a sample. A checkpoint is saved at each validation and at the end, and has everything that the run\n"
     "needs to continue. Ctrl-C stops after the current step, or after its validation if one is due, and saves one,\n"
     "too. --resume continues a run that was stopped or killed: its losses, validations and checkpoints are those of\n"
     "a run without an interruption, to the last bit. With more --steps it continues a run that has ended, too: the\n"
     "learning rate stays where it ended, at a tenth of --lr. --from begins with the weights and the vocabulary of\n"
     "another model, such as one of gpt import, or a published folder. Such a model is fine-tuned on a text or on "
     "--data,\n"
     "examples of which only the answers count; the folder of the results is then one for transformers, or with "
     "--lora\n"
     "one for peft. With --lora the weights of a folder of bf16 stay so, and take 2 bytes each.\n"},
    {"eval", EVAL, eval,
     "gpt eval: prints the loss and the perplexity of a trained model. Without --text and --tokens, the model is\n"
     "evaluated on the validation part of the text with which it was trained. The text must be where it was then.\n"},
    {"generate", GENERATE, generate,
     "gpt generate: continues a text with a trained model. Of a folder it takes the last checkpoint, which may know "
     "its\n"
     "text by heart; the file `best` there names the checkpoint with the lowest validation loss. A published folder is "
     "a\n"
     "model, too: a line says what it is and what memory it needs, and the text ends at its end tokens.\n"},
    {"vocabulary", VOCABULARY, vocabulary,
     "gpt vocabulary: trains a vocabulary of byte pairs on a text. The text is read in parts, so it may be larger "
     "than\n"
     "memory. Ctrl-C stops the training, and nothing is written.\n"},
    {"tokenize", TOKENIZE, tokenize,
     "gpt tokenize: converts a text to token ids, in a file or on the terminal. The file is read in parts, so it may "
     "be\n"
     "larger than memory.\n"},
    {"info", INFO, info,
     "gpt info: prints the size of a model, and the memory that training it takes. Of a safetensors file that another\n"
     "program has written it lists the tensors.\n"},
    {"compare", COMPARE, compare,
     "gpt compare: prints the first op in which two runs differ, from the ledgers of gpt train --ledger.\n"},
    {"import", IMPORT, import,
     "gpt import: converts the weights of a published GPT-2 to a model that the other commands read.\n"
     "The sizes of the model are those of the tensors. A config.json beside them is read; what the model\n"
     "cannot be is refused, by the name of the setting. Without it the model has the settings of the published ones:\n"
     "GELU's tanh form, an epsilon of 1e-5, and a dropout of 0.1. The vocabulary of the folder comes along.\n"},
    {"export", EXPORT, export,
     "gpt export: writes a trained model for other programs, such as Hugging Face's transformers.\n"
     "The layout hugging-face is a folder for GPT2LMHeadModel.from_pretrained, with the vocabulary. A model without\n"
     "biases of queries, keys and values gets zeros. The layout course is a file, the state dict of GPTModel without "
     "its\n"
     "masks; out_head.weight is not in it if the head is tied to tok_emb.weight. A published folder is written again,\n"
     "with LoRA of --adapter merged into its weights.\n"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void explain(void)
{
    printf("gpt: trains a GPT, measures its loss, and generates text.\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *text = strchr(commands[i].introduction, ':') + 2;
        printf("  gpt %-10s %.*s\n", commands[i].name, (int)strcspn(text, ".\n"), text);
    }
    printf("\nA published folder has config.json, model.safetensors and tokenizer.json. The families are GPT-2, Llama "
           "(3.2,\n"
           "SmolLM2), Mistral, Qwen2, Qwen3 and Gemma 3 without images.\n"
           "\ngpt COMMAND --help lists the command's options.\n");
}

/* Reads the command line. Returns the index of the command, with its options in `o`, or COMMANDS if the program ends
 * with `*status`. */
static size_t read_command(int argc, char **argv, options *o, int *status)
{
    *status = argc < 2 ? 2 : 0;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        explain();
        return COMMANDS;
    }
    if (argv[1][0] == '-') {
        *status = command_line_refuse_options("", 2, argv);
        return COMMANDS;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            *status = options_read(o, commands[i].which, commands[i].introduction, argc - 1, argv + 1);
            return *status < 0 ? i : COMMANDS;
        }
    }
    nearest n = {.word = argv[1]};
    char text[NEAREST_TEXT];
    for (size_t i = 0; i < COMMANDS; i++) {
        nearest_try(&n, commands[i].name);
    }
    *status = 2;
    complain("'%s' is not a command%s; must be train, eval, generate, vocabulary, tokenize, info, compare, import or "
             "export",
             argv[1], nearest_text(&n, "", text));
    return COMMANDS;
}

/* Runs the command, if all ranks have the same one with the same options. Otherwise they would wait for each other. */
static int run(int argc, char **argv)
{
    options o;
    int status;
    size_t i = read_command(argc, argv, &o, &status);
    const char *name = i < COMMANDS ? commands[i].name : status == 0 ? "--help or --version" : "wrong";
    if (!parallel_same("the command line", name) || (i < COMMANDS && !options_are_shared(&o, commands[i].which))) {
        return 2;
    }
    if (i == COMMANDS) {
        parallel_wait();
        return status;
    }
    return commands[i].run(&o);
}

int main(int argc, char **argv)
{
    program_begin();
    return program_end(parallel_end(parallel_begin() ? run(argc, argv) : 1));
}
