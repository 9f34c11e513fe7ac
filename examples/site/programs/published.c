/* published: opens a published model, asks it, fine-tunes it by LoRA on instructions, and writes it back.
 *
 *     published MODEL ANSWERS ADAPTER MERGED
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tapegrad.h>
#include <tapegrad_text.h>
#include <tapegrad_tools.h>

/* A model, and what belongs to it. */
typedef struct bot {
    tg_run *run;
    tg_params *params;
    tg_gpt *gpt;
    tg_tokenizer *tokenizer;
    tg_gpt_chat_config chat;
    tg_tape *t;
} bot;

static void check(const tg_error *error)
{
    if (error->code != TG_OK) {
        fprintf(stderr, "%s\n", error->text);
        exit(1);
    }
}

static bool has_token(void *tokenizer, const char *token)
{
    return tg_tokenizer_find(tokenizer, token) >= 0;
}

static bot bot_open(const char *folder)
{
    tg_error error = TG_NO_ERROR;
    bot b = {.run = tg_run_new(123), .chat = tg_gpt_chat_config_default()};
    b.params = tg_params_new(b.run, TG_F32);
    b.gpt = tg_gpt_open(b.params, folder, NULL);
    b.t = tg_tape_new(b.run, NULL);
    check(tg_run_error(b.run));
    b.tokenizer = tg_tokenizer_open(folder, NULL, &error);
    /* ChatML, Qwen3's, Llama 3's ..., by the special tokens of the vocabulary */
    tg_gpt_chat_format_find(has_token, b.tokenizer, &b.chat.format, &error);
    b.chat.thinks = false;
    check(&error);
    return b;
}

static void bot_free(bot *b)
{
    tg_tape_free(b->t);
    tg_tokenizer_free(b->tokenizer);
    tg_gpt_free(b->gpt);
    tg_params_free(b->params);
    tg_run_free(b->run);
}

/* Returns the ids of a conversation, which has special tokens in its text. */
static tg_encoding encode(const bot *b, const char *text)
{
    tg_error error = TG_NO_ERROR;
    tg_encoding encoding;
    tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
    config.special = true;
    config.with_template = false;
    tg_tokenizer_encode_text(b->tokenizer, text, strlen(text), &encoding, &config, &error);
    check(&error);
    return encoding;
}

/* Returns the text of a question, and of its answer unless that is NULL. */
static char *conversation(const bot *b, const char *question, const char *answer)
{
    tg_error error = TG_NO_ERROR;
    const tg_gpt_message messages[] = {{"user", question}, {"assistant", answer}};
    tg_gpt_chat_config config = b->chat;
    config.begins_answer = answer == NULL;
    char *text = tg_gpt_chat(messages, answer ? 2 : 1, &config, &error);
    check(&error);
    return text;
}

static void ask(const bot *b, const char *question)
{
    tg_error error = TG_NO_ERROR;
    int32_t ids[40];
    char *text = conversation(b, question, NULL);
    tg_encoding prompt = encode(b, text);
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 40;
    config.end_tokens = tg_gpt_end_tokens(b->gpt, &config.end_token_count);
    int64_t count = tg_gpt_generate(b->t, b->gpt, prompt.ids, prompt.count, ids, &config);
    check(tg_run_error(b->run));
    char *answer = tg_tokenizer_decode(b->tokenizer, ids, count, NULL, &error);
    check(&error);
    printf("%s\n    %s\n", question, answer);
    tg_text_free(answer), tg_text_free(text), tg_encoding_free(&prompt);
}

/* Returns the loss of an answer, on which the optimizer has made a step. */
static double learn(const bot *b, tg_optim *optim, const char *question, const char *answer)
{
    char *before = conversation(b, question, NULL), *text = conversation(b, question, answer);
    tg_encoding all = encode(b, text);
    int64_t count = all.count - 1, context = tg_gpt_get_config(b->gpt)->context;
    int32_t *targets = malloc((size_t)count * sizeof *targets);
    count = count < context ? count : context;
    for (int64_t i = 0; i < count; i++) {
        /* -100: the loss does not count the question */
        bool is_answer = all.spans[i + 1].begin >= (int64_t)strlen(before);
        targets[i] = is_answer ? all.ids[i + 1] : -100;
    }
    tg_tape_reset(b->t);
    tg_shape shape = TG_SHAPE(1, count);
    tg_tensor *loss =
        tg_gpt_loss(b->t, b->gpt, tg_constant_i32(b->t, shape, all.ids), tg_constant_i32(b->t, shape, targets), NULL);
    tg_optim_zero_grad(optim);
    tg_backward(b->t, loss, NULL);
    tg_optim_step(optim);
    check(tg_run_error(b->run));
    double value = tg_tensor_item(loss, NULL);
    free(targets), tg_encoding_free(&all), tg_text_free(text), tg_text_free(before);
    return value;
}

/* Returns an example's question: the instruction, and behind it the input unless it is empty. */
static const char *question_of(const tg_json_value *example, char question[2000])
{
    tg_error error = TG_NO_ERROR;
    const char *task = tg_json_value_text(tg_json_value_find(example, "instruction", &error), &error);
    const char *input = tg_json_value_text(tg_json_value_find(example, "input", &error), &error);
    check(&error);
    snprintf(question, 2000, "%s%s%s", task, *input ? "\n\n" : "", input);
    return question;
}

static void learn_all(const bot *b, const tg_json_value *list, int passes)
{
    tg_error error = TG_NO_ERROR;
    char question[2000];
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = 3e-3;
    tg_optim *optim = tg_adamw_new(b->params, &config);
    for (int pass = 0; pass < passes; pass++) {
        double sum = 0;
        for (int64_t i = 0; i < tg_json_value_count(list); i++) {
            const tg_json_value *example = tg_json_value_at(list, i);
            const char *answer = tg_json_value_text(tg_json_value_find(example, "output", &error), &error);
            check(&error);
            sum += learn(b, optim, question_of(example, question), answer);
        }
        printf("pass %d: loss %.2f\n", pass + 1, sum / (double)tg_json_value_count(list));
    }
    tg_optim_free(optim);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "published MODEL ANSWERS ADAPTER MERGED\n");
        return 2;
    }
    tg_error error = TG_NO_ERROR;
    char question[2000];
    tg_json_document *answers = tg_json_document_open(argv[2], &error);
    check(&error);
    const tg_json_value *list = tg_json_document_root(answers);
    question_of(tg_json_value_at(list, 0), question);
    bot b = bot_open(argv[1]);
    ask(&b, question);

    /* the weights stay, and two thin matrices beside each layer are trained */
    tg_params_set_frozen(b.params, "*", true);
    tg_lora_config lora = tg_lora_config_default();
    lora.rank = 8;
    lora.alpha = 16;
    tg_gpt_add_lora(b.gpt, "trf_blocks.*", &lora);
    check(tg_run_error(b.run));
    learn_all(&b, list, 10);
    ask(&b, question);

    /* for peft, and the whole model for transformers, with LoRA added to its weights */
    mkdir(argv[3], 0777), mkdir(argv[4], 0777);
    tg_gpt_save_adapter(b.gpt, argv[3], &error);
    tg_gpt_save(b.gpt, argv[4], NULL, &error);
    check(&error);
    bot_free(&b);
    tg_json_document_free(answers);
}
