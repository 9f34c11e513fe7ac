#include "options.h"

#include <tapegrad.h>

#include "../common/command_line.h"
#include "../common/program.h"

#define AT(field) offsetof(options, field)
#define COUNT "[1,1000000000]"
#define SIZE "[1,1000000]"

static const command_line_option table[] = {
    {"config", "NAME", VALUE_TEXT, AT(config), NULL,
     "gpt2-small, gpt2-medium, gpt2-large, gpt2-xl, tiny; without: tiny with a context of 64", TRAIN | INFO},
    {"layers", "N", VALUE_INTEGER, AT(layers), "[1,1000]", "transformer blocks, instead of the configuration's",
     TRAIN | INFO},
    {"heads", "N", VALUE_INTEGER, AT(heads), "[1,65536]", "attention heads; they divide the width", TRAIN | INFO},
    {"width", "N", VALUE_INTEGER, AT(width), "[1,65536]", "channels", TRAIN | INFO},
    {"context", "N", VALUE_INTEGER, AT(context), SIZE, "the longest sequence", TRAIN | INFO},
    {"position", "KIND", VALUE_TEXT, AT(position), NULL,
     "learned, sinusoidal, rotary, alibi, t5, shaw, transformer-xl or none", TRAIN | INFO},
    {"dropout", "P", VALUE_NUMBER, AT(dropout), "[0,1)", "of embeddings, attention weights and shortcuts",
     TRAIN | INFO},
    {"tied", NULL, VALUE_FLAG, AT(tied), NULL, "the head's weight is the token table, as in GPT-2", TRAIN | INFO},
    {"untied", NULL, VALUE_FLAG, AT(untied), NULL, "the head has a weight of its own", TRAIN | INFO},
    {"model", "DIR", VALUE_TEXT, AT(model), NULL, "a folder that gpt train wrote", EVAL | GENERATE | INFO},

    {"text", "FILE", VALUE_TEXT, AT(text), NULL, "UTF-8; its last tenth is for validation (examples/lighthouse.txt)",
     TRAIN | EVAL},
    {"text", "FILE", VALUE_TEXT, AT(text), NULL, "what to tokenize, UTF-8", TOKENIZE},
    {"tokens", "FILE", VALUE_TEXT, AT(tokens), NULL, "ids as gpt tokenize writes them, instead of a text", TRAIN},
    {"val-tokens", "FILE", VALUE_TEXT, AT(val_tokens), NULL, "and the ids for validation; without, there is none",
     TRAIN},
    {"tokens", "FILE", VALUE_TEXT, AT(val_tokens), NULL, "ids as gpt tokenize writes them, instead of a text", EVAL},
    {"vocab", "FILE", VALUE_TEXT, AT(vocab), NULL, "a vocab.bpe; without, one is trained on the text", TRAIN},
    {"vocab", "FILE", VALUE_TEXT, AT(vocab), NULL, "a vocab.bpe; without, the model's", EVAL | GENERATE},
    {"vocab", "FILE", VALUE_TEXT, AT(vocab), NULL, "a vocab.bpe", TOKENIZE},
    {"vocab-size", "N", VALUE_INTEGER, AT(vocab_size), "[257,1000000]",
     "ids, where no vocab.bpe is given; the configuration's", TRAIN | INFO},

    {"steps", "N", VALUE_INTEGER, AT(steps), "[1,10000000]", "steps of training", TRAIN},
    {"batch", "N", VALUE_INTEGER, AT(batch), SIZE, "windows a forward pass", TRAIN | EVAL | INFO},
    {"accumulate", "N", VALUE_INTEGER, AT(accumulate), SIZE, "passes whose gradients make one step", TRAIN},
    {"stride", "N", VALUE_INTEGER, AT(stride), COUNT,
     "tokens from one window to the next; 1 in a text, the context in token files", TRAIN},
    {"lr", "X", VALUE_NUMBER, AT(lr), "(0,inf)",
     "the largest learning rate, from which it falls to a tenth; 0.384 / width", TRAIN},
    {"warmup", "N", VALUE_INTEGER, AT(warmup), "[0,10000000]", "steps in which it rises; a twentieth of all", TRAIN},
    {"weight-decay", "X", VALUE_NUMBER, AT(weight_decay), "[0,inf)", "of matrices; nothing else decays", TRAIN},
    {"clip", "X", VALUE_NUMBER, AT(clip), "(0,inf]", "the largest norm that gradients keep; inf: any", TRAIN},
    {"eval-every", "N", VALUE_INTEGER, AT(eval_every), COUNT, "steps from one validation to the next", TRAIN},
    {"eval-batches", "N", VALUE_INTEGER, AT(eval_batches), COUNT, "of a validation, at most", TRAIN},
    {"eval-batches", "N", VALUE_INTEGER, AT(eval_batches), COUNT, "batches to measure, at most; all", EVAL},
    {"sample-every", "N", VALUE_INTEGER, AT(sample_every), COUNT, "steps from one sample of text to the next", TRAIN},

    {"prompt", "TEXT", VALUE_TEXT, AT(prompt), NULL, "what the text begins with", TRAIN | GENERATE},
    {"prompt", "TEXT", VALUE_TEXT, AT(prompt), NULL, "prints the ids and pieces of this text instead", TOKENIZE},
    {"max-new-tokens", "N", VALUE_INTEGER, AT(max_new_tokens), COUNT, "the text's length", TRAIN | GENERATE},
    {"greedy", NULL, VALUE_FLAG, AT(greedy), NULL, "always the likeliest token; nothing is drawn", GENERATE},
    {"temperature", "X", VALUE_NUMBER, AT(temperature), "(0,inf)", "below 1 bolder, above 1 wilder", TRAIN | GENERATE},
    {"top-k", "K", VALUE_INTEGER, AT(top_k), COUNT, "only the K likeliest tokens; all", TRAIN | GENERATE},
    {"top-p", "P", VALUE_NUMBER, AT(top_p), "(0,1]", "only the likeliest that together have probability P",
     TRAIN | GENERATE},
    {"end-of-text", NULL, VALUE_FLAG, AT(end_of_text), NULL, "stop where the model ends the text", GENERATE},
    {"end-of-text", NULL, VALUE_FLAG, AT(end_of_text), NULL, "read <|endoftext|> as that one id", TOKENIZE},
    {"no-cache", NULL, VALUE_FLAG, AT(no_cache), NULL, "compute every position again for each token", GENERATE},

    {"ledger", "FILE", VALUE_TEXT, AT(ledger), NULL, "what each op of the training did, for gpt compare", TRAIN},
    {"ledger", "FILE", VALUE_TEXT, AT(ledger), NULL, "a ledger, of gpt train or of PyTorch", COMPARE},
    {"with", "FILE", VALUE_TEXT, AT(with), NULL, "another one", COMPARE},
    {"tolerance", "X", VALUE_NUMBER, AT(tolerance), "[0,1)", "how far sums may differ, in parts; 0 asks for equal bits",
     COMPARE},
    {"names", NULL, VALUE_FLAG, AT(names), NULL, "list every parameter", INFO},
    {"seed", "N", VALUE_INTEGER, AT(seed), "[0,4294967295]", "of all random numbers", TRAIN | GENERATE},
    {"threads", "N", VALUE_INTEGER, AT(threads), "[0,256]", "0: all processors", TRAIN | EVAL | GENERATE},
    {"out", "DIR", VALUE_TEXT, AT(out), NULL, "where the results go", TRAIN},
    {"out", "FILE", VALUE_TEXT, AT(out), NULL, "where the ids go: 2 bytes each, 4 in vocabularies above 65536",
     TOKENIZE},
};

/* Options that exclude each other. */
static bool agree(const options *o, command which)
{
    if (o->tied && o->untied) {
        return complain("--tied and --untied exclude each other");
    }
    if (o->text && (o->tokens || o->val_tokens)) {
        return complain("--text and token files exclude each other");
    }
    bool sized = o->config || o->layers != AS_CONFIGURED || o->heads != AS_CONFIGURED || o->width != AS_CONFIGURED ||
                 o->context != AS_CONFIGURED || o->vocab_size != AS_CONFIGURED || o->dropout >= 0 || o->tied ||
                 o->untied || o->position;
    if (which == INFO && o->model && sized) {
        return complain("--model %s has a configuration of its own", o->model);
    }
    if (which == TRAIN && o->val_tokens && !o->tokens) {
        return complain("--val-tokens %s: --tokens is wanted with it", o->val_tokens);
    }
    if (o->vocab && o->vocab_size != AS_CONFIGURED) {
        return complain("--vocab-size %lld: --vocab %s has its own size", (long long)o->vocab_size, o->vocab);
    }
    if (o->warmup >= o->steps && o->warmup > 0) {
        return complain("--warmup %lld: less than the %lld steps is wanted", (long long)o->warmup, (long long)o->steps);
    }
    return !o->prompt || *o->prompt || complain("--prompt '': at least one character is wanted");
}

int options_read(options *o, command which, const char *introduction, int argc, char **argv)
{
    *o = (options){
        .model = which == INFO ? NULL : "out/gpt",
        .layers = AS_CONFIGURED,
        .heads = AS_CONFIGURED,
        .width = AS_CONFIGURED,
        .context = AS_CONFIGURED,
        .dropout = AS_CONFIGURED,
        .vocab_size = AS_CONFIGURED,
        .steps = 600,
        .batch = 16,
        .accumulate = 1,
        .stride = AS_CONFIGURED,
        .warmup = AS_CONFIGURED,
        .seed = 123,
        .lr = AS_CONFIGURED,
        .weight_decay = 0.1,
        .clip = 1,
        .eval_every = 100,
        .eval_batches = which == TRAIN ? 20 : AS_CONFIGURED,
        .sample_every = 200,
        .out = which == TRAIN ? "out/gpt" : NULL,
        .prompt = which == TOKENIZE ? NULL : "The keeper",
        .max_new_tokens = which == TRAIN ? 80 : 200,
        .temperature = 0.8,
        .top_k = TG_NO_TOP_K,
        .top_p = 0.9,
        .tolerance = 1e-5,
    };
    int status = command_line_read(table, sizeof table / sizeof *table, which, introduction, o, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (!agree(o, which)) {
        return 2;
    }
    if (o->threads > 0) {
        tg_set_threads((int)o->threads);
    }
    return -1;
}
