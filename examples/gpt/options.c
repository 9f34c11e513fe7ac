#include "options.h"

#include <stdio.h>
#include <string.h>

#include <tapegrad.h>

#include "../common/program.h"
#include "model.h"
#include "parallel.h"

#define AT(field) offsetof(options, field)
#define COUNT "[1,1000000000]"
#define SIZE "[1,1000000]"
#define DEFAULT_STEPS 900
#define DEFAULT_STEPS_OF_DATA 200

static const command_line_option table[] = {
    {"config", "NAME", VALUE_TEXT, AT(config), NULL,
     "gpt2-small, gpt2-medium, gpt2-large, gpt2-xl or tiny (default tiny, with a context of 64, a vocabulary of 1024 "
     "and a dropout of 0.1)",
     TRAIN | INFO},
    {"layers", "N", VALUE_INTEGER, AT(layers), "[1,1000]", "transformer blocks (default from --config)", TRAIN | INFO},
    {"heads", "N", VALUE_INTEGER, AT(heads), "[1,65536]",
     "attention heads, a divisor of the width (default from --config)", TRAIN | INFO},
    {"heads", "N", VALUE_INTEGER, AT(heads), "[1,65536]",
     "attention heads (default those of config.json, or of the published GPT-2 with the same width)", IMPORT},
    {"width", "N", VALUE_INTEGER, AT(width), "[1,65536]", "width of the embeddings (default from --config)",
     TRAIN | INFO},
    {"context", "N", VALUE_INTEGER, AT(context), SIZE,
     "maximum sequence length (default from --config); with --from the tokens of a window (default that of the model, "
     "and at most 1024 of a published one)",
     TRAIN},
    {"context", "N", VALUE_INTEGER, AT(context), SIZE, "maximum sequence length (default from --config)", INFO},
    {"context", "N", VALUE_INTEGER, AT(context), SIZE,
     "tokens of a window (default that of the model, and at most 1024 of a published one)", EVAL},
    {"position", "KIND", VALUE_TEXT, AT(position), NULL,
     "learned, sinusoidal, rotary, alibi, t5, shaw, transformer-xl, relative-key, relative-key-query, deberta or none "
     "(default learned)",
     TRAIN | INFO},
    {"dropout", "P", VALUE_NUMBER, AT(dropout), "[0,1)",
     "dropout of embeddings, attention weights and shortcuts (default from --config)", TRAIN | INFO},
    {"tied", NULL, VALUE_FLAG, AT(tied), NULL, "use the token table as the weight of the head, as in GPT-2",
     TRAIN | INFO},
    {"untied", NULL, VALUE_FLAG, AT(untied), NULL, "give the head its own weight", TRAIN | INFO},
    {"model", "DIR", VALUE_TEXT, AT(model), NULL,
     "folder of gpt train, for its best checkpoint, one checkpoint, or a published folder", EVAL | EXPORT},
    {"model", "DIR", VALUE_TEXT, AT(model), NULL,
     "folder of gpt train, for its last checkpoint, one checkpoint, or a published folder", GENERATE},
    {"model", "PATH", VALUE_TEXT, AT(model), NULL,
     "folder of gpt train, a published folder, or a safetensors file; the tensors are listed if gpt has not written it",
     INFO},
    {"adapter", "DIR", VALUE_TEXT, AT(adapter), NULL,
     "folder of gpt train --lora, or of peft, for the published model of --model", EVAL | GENERATE | EXPORT},
    {"adapter", "DIR", VALUE_TEXT, AT(adapter), NULL,
     "folder of gpt train --lora, or of peft, whose LoRA is trained further, instead of --lora", TRAIN},

    {"text", "FILE", VALUE_TEXT, AT(text), NULL,
     "UTF-8 text; the last tenth is for validation (default examples/lighthouse.txt)", TRAIN},
    {"text", "FILE", VALUE_TEXT, AT(text), NULL,
     "UTF-8 text, of which the last tenth is evaluated (default the text of the model's training)", EVAL},
    {"text", "FILE", VALUE_TEXT, AT(text), NULL, "UTF-8 text to tokenize; needs --out", TOKENIZE},
    {"text", "FILE...", VALUE_LIST, AT(texts), NULL, "UTF-8 texts, one or more; required", VOCABULARY},
    {"tokens", "FILE", VALUE_TEXT, AT(tokens), NULL, "file of gpt tokenize, instead of --text", TRAIN},
    {"data", "FILE", VALUE_TEXT, AT(data), NULL,
     "file of JSON lines, or of a list, for --from of a published folder: {\"instruction\",\"input\",\"output\"}, "
     "{\"prompt\",\"completion\"} or {\"messages\"}; only answers count in the loss, and the last tenth is for "
     "validation",
     TRAIN},
    {"data", "FILE", VALUE_TEXT, AT(data), NULL,
     "file of examples, as for gpt train, of which the last tenth is evaluated, or all of fewer than 10; for a "
     "published "
     "folder",
     EVAL},
    {"val-tokens", "FILE", VALUE_TEXT, AT(val_tokens), NULL,
     "file of gpt tokenize for validation (default no validation); needs --tokens", TRAIN},
    {"tokens", "FILE", VALUE_TEXT, AT(val_tokens), NULL,
     "file of gpt tokenize, instead of --text (default --val-tokens of the training, if it had token files)", EVAL},
    {"vocab", "FILE", VALUE_TEXT, AT(vocab), NULL, "vocab.bpe (default trained on the text)", TRAIN},
    {"vocab", "FILE", VALUE_TEXT, AT(vocab), NULL, "vocab.bpe (default the model's)", EVAL | GENERATE},
    {"vocab", "FILE", VALUE_TEXT, AT(vocab), NULL, "vocab.bpe, required", TOKENIZE},
    {"vocab", "FILE", VALUE_TEXT, AT(vocab), NULL,
     "file or folder of a vocabulary (default that of the folder, if it has one)", IMPORT},
    {"vocab-size", "N", VALUE_INTEGER, AT(vocab_size), "[257,1000000]",
     "size of the vocabulary without --vocab (default from --config)", TRAIN | INFO},

    {"vocab-size", "N", VALUE_INTEGER, AT(vocab_size), "[257,1000000]",
     "largest size of the vocabulary (default 50257, that of GPT-2)", VOCABULARY},
    {"resume", "DIR", VALUE_TEXT, AT(resume), NULL,
     "continue the run in this folder, with its options; only --steps, --threads and --activation-checkpointing may be "
     "given with it",
     TRAIN},
    {"steps", "N", VALUE_INTEGER, AT(steps), "[1,10000000]",
     "training steps (default 900, with --data 200); with --resume more than the run has: it goes on at the lowest "
     "learning rate",
     TRAIN},
    {"decay-steps", "N", VALUE_INTEGER, AT(decay_steps), "[1,10000000]",
     "steps in which the learning rate falls to a tenth, where it stays (default --steps)", TRAIN},
    {"batch", "N", VALUE_INTEGER, AT(batch), SIZE, "windows per forward pass", TRAIN | EVAL | INFO},
    {"accumulate", "N", VALUE_INTEGER, AT(accumulate), SIZE, "forward passes per step; their gradients are averaged",
     TRAIN},
    {"stride", "N", VALUE_INTEGER, AT(stride), COUNT,
     "tokens from one window to the next (default 1 in a text, the context in token files)", TRAIN},
    {"lr", "X", VALUE_NUMBER, AT(lr), "(0,inf)",
     "learning rate after warmup; falls to a tenth of it (default 0.384 / width; of a published model 2e-05, with "
     "--lora "
     "0.0002)",
     TRAIN},
    {"warmup", "N", VALUE_INTEGER, AT(warmup), "[0,10000000]",
     "steps in which the learning rate rises (default a twentieth of --decay-steps, and at least 10, or half of fewer "
     "than 20)",
     TRAIN},
    {"optimizer", "NAME", VALUE_TEXT, AT(optimizer), NULL, "adamw, adam, sgd, adagrad, rmsprop or lion", TRAIN},
    {"weight-decay", "X", VALUE_NUMBER, AT(weight_decay), "[0,inf)", "weight decay; biases and norms have none", TRAIN},
    {"clip", "X", VALUE_NUMBER, AT(clip), "(0,inf]", "maximum norm of the gradients; inf: no clipping", TRAIN},
    {"reproducible", NULL, VALUE_FLAG, AT(reproducible), NULL,
     "compute the same bits on every processor and with any number of threads", TRAIN | EVAL | GENERATE},
    {"activation-checkpointing", NULL, VALUE_FLAG, AT(activation_checkpointing), NULL,
     "compute each block again in backward: the same losses in less memory and more time", TRAIN},
    {"eval-every", "N", VALUE_INTEGER, AT(eval_every), COUNT,
     "steps from one validation to the next; also saves a checkpoint", TRAIN},
    {"eval-batches", "N", VALUE_INTEGER, AT(eval_batches), COUNT, "maximum number of batches per validation", TRAIN},
    {"eval-batches", "N", VALUE_INTEGER, AT(eval_batches), COUNT, "maximum number of batches (default all)", EVAL},
    {"sample-every", "N", VALUE_INTEGER, AT(sample_every), COUNT, "steps from one generated sample to the next", TRAIN},

    {"prompt", "TEXT", VALUE_TEXT, AT(prompt), NULL,
     "beginning of the generated text (default The keeper, cut to the context)", TRAIN | GENERATE},
    {"chat", "TEXT", VALUE_TEXT, AT(chat), NULL,
     "a question instead of --prompt, in the chat format of the vocabulary, or else as an instruction of the book; "
     "only the answer is printed",
     TRAIN | GENERATE},
    {"prompt", "TEXT", VALUE_TEXT, AT(prompt), NULL, "print the ids and tokens of this text, instead of --text",
     TOKENIZE},
    {"max-new-tokens", "N", VALUE_INTEGER, AT(max_new_tokens), COUNT, "maximum number of generated tokens",
     TRAIN | GENERATE},
    {"texts", "N", VALUE_INTEGER, AT(text_count), "[1,10000]",
     "number of texts that continue the prompt, generated together; with several they are printed at the end",
     GENERATE},
    {"greedy", NULL, VALUE_FLAG, AT(greedy), NULL, "always choose the most probable token", GENERATE},
    {"temperature", "X", VALUE_NUMBER, AT(temperature), "(0,inf); --top-k 1 always chooses the most probable token",
     "divides the logits: below 1 less random, above 1 more random", TRAIN},
    {"temperature", "X", VALUE_NUMBER, AT(temperature), "(0,inf); --greedy always chooses the most probable token",
     "divides the logits: below 1 less random, above 1 more random", GENERATE},
    {"top-k", "K", VALUE_INTEGER, AT(top_k), COUNT, "sample from the K most probable tokens (default all)",
     TRAIN | GENERATE},
    {"top-p", "P", VALUE_NUMBER, AT(top_p), "(0,1]",
     "sample from the fewest tokens whose probabilities sum to at least P", TRAIN | GENERATE},
    {"min-p", "P", VALUE_NUMBER, AT(min_p), "[0,1]",
     "sample from the tokens that are at least P times as probable as the most probable one", TRAIN | GENERATE},
    {"repetition-penalty", "X", VALUE_NUMBER, AT(repetition_penalty), "(0,inf)",
     "makes tokens that the text has less probable: divides positive logits; 1: none", TRAIN | GENERATE},
    {"end-of-text", NULL, VALUE_FLAG, AT(end_of_text), NULL,
     "stop at <|endoftext|>; a published model always stops at its end tokens", GENERATE},
    {"end-of-text", NULL, VALUE_FLAG, AT(end_of_text), NULL, "encode <|endoftext|> as one id", TOKENIZE},
    {"no-cache", NULL, VALUE_FLAG, AT(no_cache), NULL, "compute all positions again for each token", GENERATE},

    {"from", "PATH", VALUE_TEXT, AT(from), NULL,
     "begin with this model: a folder of gpt train or gpt import, one checkpoint, or a published folder (default new "
     "initial values)",
     TRAIN},
    {"lora", "RANK", VALUE_INTEGER, AT(lora), "[1,65536]",
     "train LoRA of this rank beside the frozen weights of a published model (default all weights)", TRAIN},
    {"lora-alpha", "X", VALUE_NUMBER, AT(lora_alpha), "(0,inf)", "the scale is X / RANK (default 2 RANK)", TRAIN},
    {"lora-layers", "PATTERN...", VALUE_LIST, AT(lora_layers), NULL,
     "layers with LoRA, by their names in gpt info --names, such as *.W_query (default those of all blocks, of a GPT-2 "
     "*.out_proj *.ff.*)",
     TRAIN},
    {"from", "PATH", VALUE_TEXT, AT(from), NULL,
     "safetensors file of F32, F16 or BF16, an .index.json of several, or a folder with either", IMPORT},
    {"layout", "NAME", VALUE_TEXT, AT(layout), NULL,
     "names of the tensors: hugging-face (GPT2LMHeadModel, GPT2Model) or course (GPTModel)", IMPORT | EXPORT},
    {"floats", "TYPE", VALUE_TEXT, AT(floats), NULL, "f32, f16 or bf16", EXPORT},

    {"ledger", "FILE", VALUE_TEXT, AT(ledger), NULL, "write a trace of all ops, for gpt compare", TRAIN},
    {"ledger", "FILE", VALUE_TEXT, AT(ledger), NULL, "first ledger, from gpt train or from PyTorch", COMPARE},
    {"with", "FILE", VALUE_TEXT, AT(with), NULL, "second ledger", COMPARE},
    {"tolerance", "X", VALUE_NUMBER, AT(tolerance), "[0,1)",
     "maximum relative difference of sums; 0: the bits must be equal", COMPARE},
    {"names", NULL, VALUE_FLAG, AT(names), NULL, "list every parameter", INFO},
    {"seed", "N", VALUE_INTEGER, AT(seed), "[0,4294967295]", "seed of all random numbers", TRAIN | GENERATE},
    {"threads", "N", VALUE_INTEGER, AT(threads), "[0,256]", "number of threads; 0: all processors",
     TRAIN | EVAL | GENERATE | VOCABULARY | TOKENIZE},
    {"out", "DIR", VALUE_TEXT, AT(out), NULL, "folder for the results", TRAIN},
    {"overwrite", NULL, VALUE_FLAG, AT(overwrite), NULL, "replace a trained model in --out", TRAIN},
    {"tensorboard", NULL, VALUE_FLAG, AT(tensorboard), NULL, "log losses and weights for TensorBoard in --out", TRAIN},
    {"keep", "N", VALUE_INTEGER, AT(keep), "[1,1000]", "number of last checkpoints that stay, beside the best", TRAIN},
    {"out", "FILE", VALUE_TEXT, AT(out), NULL,
     "file for the ids: 2 bytes per id, 4 if the vocabulary has more than 65536 ids", TOKENIZE},
    {"out", "FILE", VALUE_TEXT, AT(out), NULL, "file for the vocabulary, in the format of vocab.bpe; required",
     VOCABULARY},
    {"out", "DIR", VALUE_TEXT, AT(out), NULL, "folder for the model; a trained model in it is an error", IMPORT},
    {"out", "PATH", VALUE_TEXT, AT(out), NULL, "folder to create, or with --layout course the file", EXPORT},
};

/* Returns false after printing an error if an option that a continued run takes from its checkpoint is given. */
static bool resumes_alone(const options *o)
{
    for (int i = 1; i < o->argc; i++) {
        bool is_option = strncmp(o->argv[i], "--", 2) == 0;
        if (is_option && strncmp(o->argv[i], "--resume", 8) != 0 && strncmp(o->argv[i], "--threads", 9) != 0 &&
            strcmp(o->argv[i], "--steps") != 0 && strncmp(o->argv[i], "--steps=", 8) != 0 &&
            strcmp(o->argv[i], "--activation-checkpointing") != 0) {
            return complain(
                "%s: must not be used with --resume, which takes the options of the run from its checkpoint",
                o->argv[i]);
        }
    }
    return true;
}

/* Returns false after printing an error if an option is given that --greedy ignores. */
static bool chooses_alone(const options *o)
{
    static const char *const draws[] = {"--temperature", "--top-k", "--top-p", "--min-p"};
    for (int i = 1; i < o->argc; i++) {
        for (int k = 0; k < 4; k++) {
            if (strncmp(o->argv[i], draws[k], strlen(draws[k])) == 0) {
                return complain("--greedy: must not be used with %s", draws[k]);
            }
        }
    }
    return true;
}

bool options_train_lora(const options *o)
{
    return o->lora > 0 || o->adapter;
}

/* Returns false after printing an error if two options cannot be used together. */
static bool agree(const options *o, command which)
{
    if (o->resume && !resumes_alone(o)) {
        return false;
    }
    if (o->greedy && !chooses_alone(o)) {
        return false;
    }
    if (o->tied && o->untied) {
        return complain("--tied: must not be used with --untied");
    }
    if (o->text && (o->tokens || o->val_tokens)) {
        return complain("--text: must not be used with --%s", o->tokens || which == EVAL ? "tokens" : "val-tokens");
    }
    bool sized = o->config || o->layers != AS_CONFIGURED || o->heads != AS_CONFIGURED || o->width != AS_CONFIGURED ||
                 (o->context != AS_CONFIGURED && which == INFO) || o->vocab_size != AS_CONFIGURED || o->dropout >= 0 ||
                 o->tied || o->untied || o->position;
    if (sized && ((which == INFO && o->model) || (which == TRAIN && o->from))) {
        return complain("--%s %s: must not be used with --config or with other options of the configuration",
                        which == INFO ? "model" : "from", which == INFO ? o->model : o->from);
    }
    if (o->prompt && o->chat) {
        return complain("--chat: must not be used with --prompt");
    }
    if (o->data && (o->text || o->tokens || o->val_tokens)) {
        return complain("--data: must not be used with --%s", o->text ? "text" : "tokens");
    }
    const char *folder = which == TRAIN ? o->from : o->model;
    bool trains_lora = which == TRAIN && options_train_lora(o);
    if ((o->data || trains_lora) && !(folder && is_published(folder)) && !o->resume) {
        return complain("--%s: must be used with --%s and a published folder, which has a config.json",
                        o->data       ? "data"
                        : o->lora > 0 ? "lora"
                                      : "adapter",
                        which == TRAIN ? "from" : "model");
    }
    if (o->adapter && o->lora > 0) {
        return complain("--adapter: must not be used with --lora; its LoRA has a rank");
    }
    if ((o->lora_alpha != AS_CONFIGURED || o->lora_layers.count > 0) && o->lora < 1) {
        return complain("--lora-%s: must be used with --lora", o->lora_layers.count > 0 ? "layers" : "alpha");
    }
    if (which == TRAIN && o->val_tokens && !o->tokens) {
        return complain("--val-tokens %s: must be used with --tokens", o->val_tokens);
    }
    if (o->vocab && o->vocab_size != AS_CONFIGURED) {
        return complain("--vocab-size %lld: must not be used with --vocab %s", (long long)o->vocab_size, o->vocab);
    }
    if (strcmp(o->layout, "hugging-face") != 0 && strcmp(o->layout, "course") != 0) {
        return complain("--layout %s: must be hugging-face or course", o->layout);
    }
    if (strcmp(o->floats, "f32") != 0 && strcmp(o->floats, "f16") != 0 && strcmp(o->floats, "bf16") != 0) {
        return complain("--floats %s: must be f32, f16 or bf16", o->floats);
    }
    if (o->warmup >= o->decay_steps && o->warmup > 0) {
        return complain("--warmup %lld: must be less than --%s, %lld", (long long)o->warmup,
                        o->decay_steps == o->steps ? "steps" : "decay-steps", (long long)o->decay_steps);
    }
    const char *text = o->chat ? o->chat : o->prompt;
    return !text || *text || complain("--%s '': must be at least one character", o->chat ? "chat" : "prompt");
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
        .steps = AS_CONFIGURED,
        .decay_steps = AS_CONFIGURED,
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
        .optimizer = "adamw",
        .keep = 3,
        .out = which == TRAIN ? "out/gpt" : NULL,
        .max_new_tokens = which == TRAIN ? 80 : 200,
        .text_count = 1,
        .temperature = 0.8,
        .top_k = TG_NO_TOP_K,
        .top_p = 0.9,
        .min_p = 0,
        .repetition_penalty = 1,
        .lora_alpha = AS_CONFIGURED,
        .layout = "hugging-face",
        .floats = "f32",
        .tolerance = 1e-5,
        .argc = argc,
        .argv = argv,
    };
    int status = command_line_read(table, sizeof table / sizeof *table, which, introduction, o, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (!o->resume) {
        o->steps = o->steps != AS_CONFIGURED ? o->steps : o->data ? DEFAULT_STEPS_OF_DATA : DEFAULT_STEPS;
        o->decay_steps = o->decay_steps == AS_CONFIGURED ? o->steps : o->decay_steps;
    }
    if (!agree(o, which)) {
        return 2;
    }
    if (o->threads > 0) {
        tg_set_threads((int)o->threads, NULL);
    }
    return -1;
}

/* Returns the value of an option as a text, in `number` if it is none; NULL if it was not given and has no default. `i`
 * is the index in a list. */
static const char *value_text(const options *o, const command_line_option *option, int i, char number[40])
{
    const void *at = (const char *)o + option->offset;
    switch (option->kind) {
    case VALUE_TEXT: return *(const char *const *)at;
    case VALUE_LIST: return i < ((const text_list *)at)->count ? ((const text_list *)at)->values[i] : NULL;
    case VALUE_FLAG: return *(const bool *)at ? "given" : NULL;
    case VALUE_INTEGER: {
        int64_t value = *(const int64_t *)at;
        snprintf(number, 40, "%lld", (long long)value);
        return value == AS_CONFIGURED ? NULL : number;
    }
    case VALUE_NUMBER: {
        double value = *(const double *)at;
        snprintf(number, 40, "%.17g", value);
        return value == AS_CONFIGURED ? NULL : number;
    }
    }
    return NULL;
}

bool options_are_shared(const options *o, command which)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char name[40], number[40];
        snprintf(name, sizeof name, "--%s", table[i].name);
        const char *text = table[i].commands & which ? "" : NULL;
        /* the value, or the values of a list and the NULL behind them */
        for (int k = 0; text && (k == 0 || table[i].kind == VALUE_LIST); k++) {
            text = value_text(o, &table[i], k, number);
            if (!parallel_same(name, text)) {
                return false;
            }
        }
    }
    return true;
}
