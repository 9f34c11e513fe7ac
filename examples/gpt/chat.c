#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>

/* ---- the book's instructions ---- */

static char *instruction_text(const tg_gpt_message *messages, int64_t count, tg_error *error)
{
    static const char task[] = "Below is an instruction that describes a task. Write a response that appropriately "
                               "completes the request.\n\n### Instruction:\n",
                      response[] = "\n\n### Response:\n";
    bool is_one = count <= 2 && strcmp(messages[0].role, "user") == 0 &&
                  (count == 1 || strcmp(messages[1].role, "assistant") == 0);
    if (!is_one) {
        tg_error_set(
            error, TG_ERROR_VALUE,
            "the vocabulary has the tokens of no chat format; a conversation must be a question of the user and "
            "an answer of the assistant");
        return NULL;
    }
    const char *question = messages[0].content, *answer = count == 2 ? messages[1].content : "";
    size_t size = sizeof task + strlen(question) + sizeof response + strlen(answer);
    char *text = malloc(size);
    if (text) {
        snprintf(text, size, "%s%s%s%s", task, question, response, answer);
    }
    return text;
}

/* ---- both ---- */

/* Returns the text of messages, with the beginning of an answer, which may have thoughts, or without. */
static char *text_of(const chat *c, const tg_gpt_message *messages, int64_t count, bool begins, bool thinks,
                     tg_error *error)
{
    if (!c->has_format) {
        return instruction_text(messages, count, error);
    }
    tg_gpt_chat_config config = c->config;
    config.begins_answer = begins;
    config.thinks = thinks;
    char *text = tg_gpt_chat(messages, count, &config, error), *own = text ? strdup(text) : NULL;
    tg_text_free(text);
    return own;
}

/* Removes white space at the end. */
static void trim(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && strchr(" \n\r\t", text[length - 1])) {
        text[--length] = '\0';
    }
}

char *chat_text(const chat *c, const tg_gpt_message *messages, int64_t count, size_t *answer, tg_error *error)
{
    if (!answer) {
        return text_of(c, messages, count, true, true, error);
    }
    char *text = text_of(c, messages, count, false, false, error);
    bool is_found = false;
    /* an answer with thoughts begins with them */
    for (int thinks = 0; text && !is_found && thinks < 2; thinks++) {
        char *before = text_of(c, messages, count - 1, true, thinks, error);
        *answer = before ? strlen(before) : 0;
        is_found = before && strncmp(text, before, *answer) == 0;
        free(before);
    }
    if (!is_found) {
        free(text);
        return NULL;
    }
    /* what follows the end of the answer is no part of it */
    trim(text + *answer);
    return text;
}

static bool has_token(void *bpe, const char *token)
{
    return tg_tokenizer_find(bpe, token) >= 0;
}

chat chat_of(const tg_gpt *gpt, tg_tokenizer *bpe)
{
    chat c = {.config = tg_gpt_chat_config_default()};
    int64_t count;
    const int32_t *ends = tg_gpt_end_tokens(gpt, &count);
    c.has_format = tg_gpt_chat_format_find(has_token, bpe, &c.config.format, NULL);
    c.adds_end = !c.has_format;
    c.end = count > 0 ? ends[0] : tg_tokenizer_end_of_text(bpe);
    if (c.has_format) {
        static const tg_gpt_message messages[] = {{"user", "?"}, {"assistant", "!"}};
        tg_tokens tokens = {NULL, 0};
        size_t answer;
        char *text = chat_text(&c, messages, 2, &answer, NULL);
        if (text && tg_tokenizer_encode(bpe, text, strlen(text), true, &tokens, NULL) && tokens.count > 0) {
            c.end = tokens.ids[tokens.count - 1];
        }
        tg_tokens_free(&tokens);
        free(text);
    }
    return c;
}
