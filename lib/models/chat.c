/* chat: the texts of conversations, as the chat templates of the published families write them. */
#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad/gpt.h>

static const char call[] = "gpt_chat";

TG_CONFIG(tg_gpt_chat_config, tg_gpt_chat_config_default, mark, .mark = mark, .format = TG_GPT_CHAT_CHATML,
          .begins_answer = true, .thinks = true);

typedef enum role { SYSTEM, USER, ASSISTANT, ROLES } role;

/* What a format writes. */
typedef struct format {
    const char *markers[2];   /* special tokens that all of its vocabularies have, and no other format's */
    const char *begin;        /* before all messages */
    const char *open[ROLES];  /* before the content of a message; NULL for a system's that joins a user's */
    const char *close[ROLES]; /* after it */
    const char *system_begin; /* before the content of the first system message, which is written even without one */
    bool is_trimmed;          /* whether white space around contents is left out */
    bool joins_last;          /* whether a system's content joins the last message of the user, not the first */
    bool has_thoughts;        /* Qwen3's */
} format;

static const format formats[] = {
    [TG_GPT_CHAT_CHATML] = {.markers = {"<|im_start|>", "<|im_end|>"},
                            .begin = "",
                            .open = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
                            .close = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"}},
    [TG_GPT_CHAT_QWEN3] = {.markers = {"<|im_start|>", "<think>"},
                           .begin = "",
                           .open = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
                           .close = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
                           .has_thoughts = true},
    [TG_GPT_CHAT_LLAMA3] = {.markers = {"<|start_header_id|>", "<|eot_id|>"},
                            .begin = "<|begin_of_text|>",
                            .open = {"<|start_header_id|>system<|end_header_id|>\n\n",
                                     "<|start_header_id|>user<|end_header_id|>\n\n",
                                     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
                            .close = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
                            .system_begin = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
                            .is_trimmed = true},
    [TG_GPT_CHAT_MISTRAL] = {.markers = {"[INST]", "[/INST]"},
                             .begin = "<s>",
                             .open = {NULL, "[INST] ", " "},
                             .close = {"\n\n", "[/INST]", "</s>"},
                             .joins_last = true},
    [TG_GPT_CHAT_GEMMA] = {.markers = {"<start_of_turn>", "<end_of_turn>"},
                           .begin = "<bos>",
                           .open = {NULL, "<start_of_turn>user\n", "<start_of_turn>model\n"},
                           .close = {"\n\n", "<end_of_turn>\n", "<end_of_turn>\n"},
                           .is_trimmed = true},
};

bool tg_gpt_chat_format_find(bool (*has_token)(void *context, const char *token), void *context,
                             tg_gpt_chat_format *found, tg_error *error)
{
    /* Qwen3's vocabulary has ChatML's tokens, too */
    static const tg_gpt_chat_format order[] = {TG_GPT_CHAT_QWEN3, TG_GPT_CHAT_CHATML, TG_GPT_CHAT_LLAMA3,
                                               TG_GPT_CHAT_MISTRAL, TG_GPT_CHAT_GEMMA};
    if (!has_token || !found) {
        return tg_error_set(error, TG_ERROR_STATE, "gpt_chat_format_find: the %s is NULL",
                            has_token ? "format" : "has_token");
    }
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const format *f = &formats[order[i]];
        if (has_token(context, f->markers[0]) && has_token(context, f->markers[1])) {
            *found = order[i];
            return true;
        }
    }
    return tg_error_set(
        error, TG_ERROR_VALUE,
        "gpt_chat_format_find: the vocabulary has the special tokens of none; it must have <|im_start|> and "
        "<|im_end|>, <|start_header_id|> and <|eot_id|>, [INST] and [/INST], or <start_of_turn> and "
        "<end_of_turn>");
}

/* ---- messages ---- */

static role role_of(const tg_gpt_message *message)
{
    static const char *const names[ROLES] = {"system", "user", "assistant"};
    int found = 0;
    while (found < ROLES && strcmp(message->role, names[found]) != 0) {
        found++;
    }
    return (role)found;
}

static bool check_messages(const format *f, const tg_gpt_message *messages, int64_t count, tg_error *error)
{
    role before = ROLES;
    for (int64_t i = 0; i < count; i++) {
        if (!messages[i].role || !messages[i].content) {
            return tg_error_set(error, TG_ERROR_STATE, "%s: the %s of message %lld is NULL", call,
                                messages[i].role ? "content" : "role", (long long)i);
        }
        role now = role_of(&messages[i]);
        if (now == ROLES) {
            return tg_error_set(error, TG_ERROR_VALUE,
                                "%s: message %lld is of the role '%.*s'; it must be system, user or assistant", call,
                                (long long)i, TG_CUT(messages[i].role, 40));
        }
        if (now == SYSTEM && i > 0 && (!f->open[SYSTEM] || f->system_begin)) {
            return tg_error_set(error, TG_ERROR_VALUE, "%s: message %lld is of the system; only the first one may be",
                                call, (long long)i);
        }
        if (!f->open[SYSTEM] && now != SYSTEM && (before == USER) != (now == ASSISTANT)) {
            return tg_error_set(error, TG_ERROR_VALUE,
                                "%s: message %lld is of the %s; user and assistant must take turns in this format, and "
                                "the user begins",
                                call, (long long)i, messages[i].role);
        }
        before = now;
    }
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Adds a text without what `is_left_out` at its ends. */
static void add_without(tg_text_buffer *text, const char *from, size_t length, bool (*is_left_out)(char))
{
    while (length > 0 && is_left_out(from[0])) {
        from++;
        length--;
    }
    while (length > 0 && is_left_out(from[length - 1])) {
        length--;
    }
    tg_text_add_bytes(text, from, length);
}

static bool is_line_break(char c)
{
    return c == '\n';
}

static void add_content(tg_text_buffer *text, const format *f, const char *content, role of)
{
    if (f->is_trimmed || (of == ASSISTANT && f->joins_last)) {
        add_without(text, content, strlen(content), is_space);
    } else {
        tg_text_add(text, content);
    }
}

/* Adds an answer of Qwen3: its thoughts stay only after the last question, and the last answer has a place for them. */
static void add_thoughtful(tg_text_buffer *text, const char *content, bool is_after_question, bool is_last)
{
    static const char open[] = "<think>", close[] = "</think>";
    const char *answer = content, *thoughts = content, *end = strstr(content, close), *next;
    size_t length = end ? (size_t)(end - content) : 0;
    for (next = content; (next = strstr(next, close));) {
        answer = next += sizeof close - 1;
    }
    for (next = content; (next = strstr(next, open)) && next < content + length;) {
        thoughts = next += sizeof open - 1;
    }
    length -= (size_t)(thoughts - content);
    answer += end ? strspn(answer, "\n") : 0;
    if (is_after_question && (is_last || strspn(thoughts, "\n") < length)) {
        tg_text_add(text, "<think>\n");
        add_without(text, thoughts, length, is_line_break);
        tg_text_add(text, "\n</think>\n\n");
        answer += strspn(answer, "\n");
    }
    tg_text_add(text, answer);
}

/* ---- the call ---- */

static void add_messages(tg_text_buffer *text, const format *f, const tg_gpt_message *messages, int64_t count)
{
    int64_t question = count, joined = -1, first = count > 0 && role_of(&messages[0]) == SYSTEM;
    for (int64_t i = 0; i < count; i++) {
        if (role_of(&messages[i]) == USER) {
            question = i;
            joined = joined < 0 || f->joins_last ? i : joined;
        }
    }
    tg_text_add(text, f->begin);
    if (f->system_begin) {
        tg_text_add(text, f->open[SYSTEM]);
        tg_text_add(text, f->system_begin);
        add_content(text, f, first ? messages[0].content : "", SYSTEM);
        tg_text_add(text, f->close[SYSTEM]);
    }
    for (int64_t i = f->system_begin || !f->open[SYSTEM] ? first : 0; i < count; i++) {
        role of = role_of(&messages[i]);
        tg_text_add(text, f->open[of]);
        if (i == joined && first && !f->open[SYSTEM]) {
            tg_text_add(text, messages[0].content);
            tg_text_add(text, f->close[SYSTEM]);
        }
        if (of == ASSISTANT && f->has_thoughts) {
            add_thoughtful(text, messages[i].content, i > question, i == count - 1);
        } else {
            add_content(text, f, messages[i].content, of);
        }
        tg_text_add(text, f->close[of]);
    }
}

char *tg_gpt_chat(const tg_gpt_message *messages, int64_t count, const tg_gpt_chat_config *given, tg_error *error)
{
    if (!messages) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the messages are NULL", call);
        return NULL;
    }
    if (!tg_config_check(call, given, mark, error)) {
        return NULL;
    }
    tg_gpt_chat_config config = given ? *given : tg_gpt_chat_config_default();
    if ((unsigned)config.format > TG_GPT_CHAT_GEMMA) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: format %d does not exist; it must be 0 to %d", call,
                     (int)config.format, TG_GPT_CHAT_GEMMA);
        return NULL;
    }
    if (count < 1) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: %lld messages; it must be at least 1", call, (long long)count);
        return NULL;
    }
    const format *f = &formats[config.format];
    if (!check_messages(f, messages, count, error)) {
        return NULL;
    }
    tg_text_buffer text = {0};
    add_messages(&text, f, messages, count);
    if (config.begins_answer) {
        tg_text_add(&text, f->joins_last ? "" : f->open[ASSISTANT]);
        tg_text_add(&text, f->has_thoughts && !config.thinks ? "<think>\n\n</think>\n\n" : "");
    }
    if (text.failed) {
        tg_free(text.bytes);
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        return NULL;
    }
    return text.bytes;
}
