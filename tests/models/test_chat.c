/* tg_gpt_chat: conversations as the chat templates of the families render them (Jinja 3, with the templates of
 * Qwen2.5-0.5B-Instruct, Qwen3-0.6B, Llama-3.2-1B-Instruct, Mistral-7B-Instruct-v0.3 and gemma-3-1b-it). */
#include <string.h>

#include "support.h"

/* With a message of the system, white space around contents, and thoughts. */
static const tg_gpt_message with_system[] = {
    {"system", "Be brief."},
    {"user", " Hi "},
    {"assistant", "<think>\nhm\n</think>\n\n Hello\n"},
    {"user", "a\nb"},
    {"assistant", "<think>\nwell\n</think>\n\nc"},
};
static const tg_gpt_message without[] = {{"user", "Hi"}, {"assistant", "\nHello "}, {"user", "Bye"}};

static const struct {
    const tg_gpt_message *messages;
    int64_t count;
    tg_gpt_chat_format format;
    bool begins_answer, thinks;
    const char *text;
} cases[] = {
    {with_system, 5, TG_GPT_CHAT_CHATML, false, true,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n<think>\nhm\n"
     "</think>\n\n Hello\n<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n<think>\nwell\n"
     "</think>\n\nc<|im_end|>\n"},
    {without, 3, TG_GPT_CHAT_CHATML, true, true,
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n\nHello <|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n"},
    /* thoughts before the last question are left out */
    {with_system, 5, TG_GPT_CHAT_QWEN3, false, true,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n Hello\n"
     "<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n<think>\nwell\n</think>\n\nc<|im_end|>\n"},
    /* the last answer has a place for thoughts */
    {without, 2, TG_GPT_CHAT_QWEN3, false, true,
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nHello <|im_end|>\n"},
    {without, 3, TG_GPT_CHAT_QWEN3, true, false,
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n\nHello <|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n<think>\n\n</think>\n\n"},
    {with_system, 2, TG_GPT_CHAT_LLAMA3, true, true,
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
     "Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {without, 2, TG_GPT_CHAT_LLAMA3, false, true,
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
     "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"},
    {with_system, 4, TG_GPT_CHAT_MISTRAL, true, true,
     "<s>[INST]  Hi [/INST] <think>\nhm\n</think>\n\n Hello</s>[INST] Be brief.\n\na\nb[/INST]"},
    {without, 3, TG_GPT_CHAT_MISTRAL, true, true, "<s>[INST] Hi[/INST] Hello</s>[INST] Bye[/INST]"},
    {with_system, 4, TG_GPT_CHAT_GEMMA, true, true,
     "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n<think>\nhm\n</think>\n\n Hello"
     "<end_of_turn>\n<start_of_turn>user\na\nb<end_of_turn>\n<start_of_turn>model\n"},
    {without, 2, TG_GPT_CHAT_GEMMA, false, true,
     "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"},
};

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_error error = TG_NO_ERROR;
        tg_gpt_chat_config config = tg_gpt_chat_config_default();
        config.format = cases[i].format;
        config.begins_answer = cases[i].begins_answer;
        config.thinks = cases[i].thinks;
        char *text = tg_gpt_chat(cases[i].messages, cases[i].count, &config, &error);
        assert_string_equal(error.text, "");
        assert_string_equal(text, cases[i].text);
        tg_text_free(text);
    }
}

static void test_refused(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_gpt_chat_config config = tg_gpt_chat_config_default();
    const tg_gpt_message tool[] = {{"user", "a"}, {"tool", "b"}}, twice[] = {{"user", "a"}, {"user", "b"}};
    const tg_gpt_message late[] = {{"user", "a"}, {"system", "b"}}, first[] = {{"assistant", "a"}};
    const tg_gpt_message none[] = {{"user", NULL}};
    const struct {
        const tg_gpt_message *messages;
        int64_t count;
        tg_gpt_chat_format format;
        tg_code code;
        const char *text;
    } refused[] = {
        {tool, 2, TG_GPT_CHAT_CHATML, TG_ERROR_VALUE,
         "gpt_chat: message 1 is of the role 'tool'; it must be system, user or assistant"},
        {twice, 2, TG_GPT_CHAT_GEMMA, TG_ERROR_VALUE,
         "gpt_chat: message 1 is of the user; user and assistant must take"},
        {first, 1, TG_GPT_CHAT_MISTRAL, TG_ERROR_VALUE, "message 0 is of the assistant; user and assistant must take"},
        {late, 2, TG_GPT_CHAT_LLAMA3, TG_ERROR_VALUE, "message 1 is of the system; only the first one may be"},
        {none, 1, TG_GPT_CHAT_CHATML, TG_ERROR_STATE, "gpt_chat: the content of message 0 is NULL"},
        {tool, 0, TG_GPT_CHAT_CHATML, TG_ERROR_VALUE, "gpt_chat: 0 messages; it must be at least 1"},
        {NULL, 1, TG_GPT_CHAT_CHATML, TG_ERROR_STATE, "gpt_chat: the messages are NULL"},
        {tool, 1, (tg_gpt_chat_format)5, TG_ERROR_VALUE, "gpt_chat: format 5 does not exist; it must be 0 to 4"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        config.format = refused[i].format;
        assert_null(tg_gpt_chat(refused[i].messages, refused[i].count, &config, &error));
        assert_error(&error, refused[i].code, refused[i].text);
    }
    config.format = TG_GPT_CHAT_CHATML;
    char *text = tg_gpt_chat(late, 2, &config, &error); /* which has no rule for it */
    assert_non_null(text);
    tg_text_free(text);
}

static bool has_token(void *context, const char *token)
{
    for (const char *const *at = context; *at; at++) {
        if (strcmp(*at, token) == 0) {
            return true;
        }
    }
    return false;
}

static void test_formats_of_vocabularies(void **state)
{
    (void)state;
    const char *qwen3[] = {"<|im_start|>", "<|im_end|>", "<think>", NULL},
               *smol[] = {"<|im_end|>", "<|im_start|>", NULL};
    const char *llama[] = {"<|start_header_id|>", "<|eot_id|>", NULL}, *mistral[] = {"[INST]", "[/INST]", NULL};
    const char *gemma[] = {"<start_of_turn>", "<end_of_turn>", NULL}, *gpt2[] = {"<|endoftext|>", NULL};
    const char **vocabularies[] = {smol, qwen3, llama, mistral, gemma};
    tg_gpt_chat_format format = TG_GPT_CHAT_LLAMA3;
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i < 5; i++) {
        assert_true(tg_gpt_chat_format_find(has_token, vocabularies[i], &format, &error));
        assert_int_equal(format, i);
    }
    assert_false(tg_gpt_chat_format_find(has_token, gpt2, &format, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "gpt_chat_format_find: the vocabulary has the special tokens of none; it must");
    assert_int_equal(format, TG_GPT_CHAT_GEMMA);
    assert_false(tg_gpt_chat_format_find(NULL, NULL, &format, &error));
    assert_error(&error, TG_ERROR_STATE, "gpt_chat_format_find: the has_token is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_formats_of_vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
