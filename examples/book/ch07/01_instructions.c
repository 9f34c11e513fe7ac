/* 01: How do instructions of different lengths become batches, and what counts in the loss? The instructions of
 * chapter 7: a list in JSON, as prompts, in batches in which padding does not count, and a GPT that is trained on
 * them.
 *
 *     ch07_01_instructions --book DIR --weights model.safetensors [--steps 232]
 *
 * takes the book's two passes. With the book, but without weights, it trains nothing.
 */
#include "../fine_tuning.h"

#include <stdlib.h>
#include <string.h>

/* Instructions for a run without the book. */
static const char own_instructions[] =
    "[{\"instruction\": \"Name the color of the lamp.\", \"input\": \"\", \"output\": \"The lamp is yellow.\"},\n"
    " {\"instruction\": \"Correct the spelling.\", \"input\": \"lighthuose\", \"output\": \"lighthouse\"},\n"
    " {\"instruction\": \"Who keeps the lamp?\", \"input\": \"\", \"output\": \"The keeper keeps the lamp.\"},\n"
    " {\"instruction\": \"Name the opposite.\", \"input\": \"dark\", \"output\": \"light\"},\n"
    " {\"instruction\": \"Make it a question.\", \"input\": \"The boat is late.\", \"output\": \"Is the boat "
    "late?\"},\n"
    " {\"instruction\": \"Count the words.\", \"input\": \"the wind is strong\", \"output\": \"four\"},\n"
    " {\"instruction\": \"Where is the lighthouse?\", \"input\": \"\", \"output\": \"On a rock in the sea.\"},\n"
    " {\"instruction\": \"Name the plural.\", \"input\": \"ship\", \"output\": \"ships\"},\n"
    " {\"instruction\": \"What is white?\", \"input\": \"\", \"output\": \"The lighthouse is white.\"},\n"
    " {\"instruction\": \"What is black?\", \"input\": \"\", \"output\": \"The rock is black.\"}]\n";

typedef struct entry {
    const char *instruction, *input, *output;
} entry;

static const char *text_of(const tg_json_value *object, const char *name)
{
    tg_error error = TG_NO_ERROR;
    const char *text = tg_json_value_text(tg_json_value_find(object, name, &error), &error);
    check(&error);
    return text;
}

static entry entry_at(const tg_json_value *list, int64_t i)
{
    const tg_json_value *object = tg_json_value_at(list, i);
    return (entry){text_of(object, "instruction"), text_of(object, "input"), text_of(object, "output")};
}

static tg_json_document *open_instructions(const options *o)
{
    tg_error error = TG_NO_ERROR;
    char path[4096] = "own_instructions.json";
    if (o->book) {
        snprintf(path, sizeof path, "%s/instruction-data.json", o->book);
    } else {
        FILE *file = fopen(path, "w");
        if (!file || fputs(own_instructions, file) < 0 || fclose(file) != 0) {
            perror(path);
            exit(1);
        }
    }
    tg_json_document *document = tg_json_document_open(path, &error);
    check(&error);
    if (!o->book) {
        remove(path);
    }
    return document;
}

/* Returns the prompt of an entry, with its answer or without: the chapter's format_input. Free it with free(). */
static char *format(const entry *e, bool with_response)
{
    static const char task[] = "Below is an instruction that describes a task. Write a response that appropriately "
                               "completes the request.\n\n### Instruction:\n";
    size_t size = sizeof task + strlen(e->instruction) + strlen(e->input) + strlen(e->output) + 100;
    char *text = malloc(size);
    snprintf(text, size, "%s%s%s%s%s%s", task, e->instruction, *e->input ? "\n\n### Input:\n" : "", e->input,
             with_response ? "\n\n### Response:\n" : "", with_response ? e->output : "");
    return text;
}

static void print_entry(const char *title, const entry *e)
{
    printf("%s\n", title);
    print_line(stdout, " {'instruction': '%s', 'input': '%s', 'output': '%s'}", e->instruction, e->input, e->output);
}

static void print_formatted(const entry *e)
{
    char *text = format(e, true);
    print_text(stdout, text, strlen(text));
    printf("\n");
    free(text);
}

/* Returns a loader of the entries begin .. end - 1 in batches of 8. */
static tg_loader *loader_of(const tg_json_value *list, int64_t begin, int64_t end, tg_tokenizer *bpe, tg_run *run)
{
    tg_error error = TG_NO_ERROR;
    int64_t *lengths = calloc((size_t)(end - begin), sizeof *lengths), total = 0;
    int32_t *ids = NULL;
    for (int64_t i = begin; i < end; i++) {
        entry e = entry_at(list, i);
        char *text = format(&e, true);
        tg_tokens tokens;
        tg_tokenizer_encode(bpe, text, strlen(text), false, &tokens, &error);
        check(&error);
        ids = realloc(ids, (size_t)(total + tokens.count) * sizeof *ids);
        memcpy(ids + total, tokens.ids, (size_t)tokens.count * sizeof *ids);
        lengths[i - begin] = tokens.count;
        total += tokens.count;
        tg_tokens_free(&tokens);
        free(text);
    }
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = end - begin < 8 ? end - begin : 8;
    config.pad_id = tg_tokenizer_end_of_text(bpe);
    config.max_length = 1024;
    config.shuffle = config.drop_last = true;
    tg_loader *loader = tg_loader_new_from_lists(run, ids, lengths, end - begin, &config);
    check(tg_loader_error(loader));
    free(ids);
    free(lengths);
    return loader;
}

/* Three lists in one batch. With an ignored target of pad_id nothing is ignored. */
static void print_padding(tg_run *run)
{
    const int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const int64_t lengths[] = {5, 2, 3};
    const int32_t ignored[] = {50256, -100};
    for (int i = 0; i < 2; i++) {
        tg_loader_config config = tg_loader_config_default();
        config.batch_size = 3;
        config.pad_id = 50256;
        config.ignored_target = ignored[i];
        tg_loader *loader = tg_loader_new_from_lists(run, ids, lengths, 3, &config);
        tg_batch batch = next_batch(loader);
        if (i == 0) {
            cell(36);
            print_tensor(batch.inputs);
        }
        cell(i == 0 ? 41 : 46);
        print_tensor(batch.inputs);
        print_tensor(batch.targets);
        tg_loader_free(loader);
    }
}

/* Returns the cross-entropy of rows of two logits. */
static tg_tensor *loss_of(tg_tape *t, int64_t rows, const float *logits, const int32_t *targets)
{
    return tg_cross_entropy(t, tg_constant_f32(t, TG_SHAPE(rows, 2), logits),
                            tg_constant_i32(t, TG_SHAPE(rows), targets), NULL);
}

static void print_losses(tg_tape *t)
{
    const float logits[] = {-1.0F, 1.0F, -0.5F, 1.5F, -0.5F, 1.5F};
    tg_tensor *two = loss_of(t, 2, logits, (const int32_t[]){0, 1});
    cell(48);
    print_tensor(two);
    cell(50);
    print_tensor(loss_of(t, 3, logits, (const int32_t[]){0, 1, 1}));
    tg_tensor *ignoring = loss_of(t, 3, logits, (const int32_t[]){0, 1, -100});
    cell(52);
    print_tensor(ignoring);
    printf("loss_1 == loss_3: tensor(%s)\n",
           tg_tensor_item(two, NULL) == tg_tensor_item(ignoring, NULL) ? "True" : "False");
    check(tg_tape_error(t));
}

/* Prints the sizes of all batches, and the first row of the last one. */
static void print_batches(tg_tape *t, tg_loader *train)
{
    tg_tensor *inputs = NULL, *targets = NULL;
    cell(66);
    printf("Train loader:\n");
    for (tg_batch batch; tg_loader_next(train, &batch);) {
        printf("torch.Size([%lld, %lld]) ", (long long)tg_tensor_size(batch.inputs, 0),
               (long long)tg_tensor_size(batch.inputs, 1));
        print_shape(batch.targets);
        tg_release(inputs);
        tg_release(targets);
        inputs = tg_retain(batch.inputs);
        targets = tg_retain(batch.targets);
    }
    check(tg_loader_error(train));
    cell(68);
    print_tensor(tg_select(t, inputs, 0, 0));
    cell(70);
    print_tensor(tg_select(t, targets, 0, 0));
    check(tg_tape_error(t));
    tg_release(inputs);
    tg_release(targets);
}

/* Trains the model on the instructions, prompts included, as the chapter does. */
static void train_on(tg_tape *t, const options *o, const tg_tokenizer *bpe, tg_run *run, tg_loader *loader)
{
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = gpt_to_tune(params, o, bpe, 512);
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = o->weights ? 5e-5 : 1e-3;
    config.weight_decay = 0.1;
    tg_optim *optim = tg_adamw_new(params, &config);
    check(tg_params_error(params));
    for (int64_t step = 0; step < o->steps;) {
        tg_batch batch;
        if (!tg_loader_next(loader, &batch)) {
            check(tg_loader_error(loader));
            continue; /* another pass */
        }
        tg_tape_reset(t);
        /* the targets -100 do not count */
        tg_tensor *loss = tg_gpt_loss(t, model, batch.inputs, batch.targets, NULL);
        tg_optim_zero_grad(optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(optim);
        check(tg_tape_error(t));
        check(tg_params_error(params));
        if (step++ % 5 == 0) {
            printf("(Step %06lld): Train loss %.3f\n", (long long)step - 1, tg_tensor_item(loss, NULL));
        }
    }
    tg_tape_reset(t);
    tg_optim_free(optim);
    tg_gpt_free(model);
    tg_params_free(params);
}

int main(int argc, char **argv)
{
    options o =
        begin(argc, argv, "How do instructions of different lengths become batches, and what counts in the loss?", 20);
    tg_json_document *document = open_instructions(&o);
    const tg_json_value *list = tg_json_document_root(document);
    int64_t count = tg_json_value_count(list), train_end = count * 85 / 100, test_end = train_end + count / 10;
    entry first = entry_at(list, o.book ? 50 : 1), second = entry_at(list, o.book ? 999 : 2);
    cell(10);
    printf("Number of entries: %lld\n", (long long)count);
    cell(12);
    print_entry("Example entry:", &first);
    cell(14);
    print_entry("Another example entry:", &second);
    cell(20);
    print_formatted(&first);
    cell(22);
    print_formatted(&second);
    cell(25);
    printf("Training set length: %lld\nValidation set length: %lld\nTest set length: %lld\n", (long long)train_end,
           (long long)(count - test_end), (long long)(test_end - train_end));

    tg_error error = TG_NO_ERROR;
    tg_tokenizer *bpe = tokenizer_of(&o, own_instructions);
    tg_tokens end;
    tg_tokenizer_encode(bpe, "<|endoftext|>", strlen("<|endoftext|>"), true, &end, &error);
    check(&error);
    cell(32);
    print_ids(end.ids, end.count);
    printf("\n");
    tg_tokens_free(&end);

    tg_run *run = tg_run_new(123);
    tg_tape *t = book_tape(run);
    print_padding(run);
    print_losses(t);
    tg_rng_seed(tg_run_rng(run), 123);
    tg_loader *train = loader_of(list, 0, train_end, bpe, run);
    print_batches(t, train);
    entry to_validate = entry_at(list, test_end);
    char *prompt = format(&to_validate, false);
    cell(77);
    print_text(stdout, prompt, strlen(prompt));
    printf("\n");
    cell(84);
    if (o.weights || !o.book) {
        train_on(t, &o, bpe, run, train);
    } else {
        printf("The training needs --weights FILE; --help says where to get it.\n");
    }

    free(prompt);
    tg_loader_free(train);
    tg_tape_free(t);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    tg_json_document_free(document);
    return book_end();
}
