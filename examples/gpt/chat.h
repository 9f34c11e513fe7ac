/* chat: conversations as texts: in the chat format of the vocabulary, or else as the instructions of the book (Raschka,
 * "Build a Large Language Model From Scratch", chapter 7). */
#ifndef CHAT_H
#define CHAT_H

#include <tapegrad.h>
#include <tapegrad_text.h>

typedef struct chat {
    /* false: the book's instructions */
    bool has_format;
    tg_gpt_chat_config config;
    /* the id that ends an answer, or -1, and whether it is not in the text of chat_text */
    int32_t end;
    bool adds_end;
} chat;

/* Finds the format of a model's conversations. */
chat chat_of(const tg_gpt *gpt, tg_tokenizer *bpe);

/* Returns the text of a conversation. If `answer` is not NULL, the last message is an answer, and *answer becomes the
 * offset at which it begins; otherwise the text ends where an answer begins. Yours (free); NULL with the error set. */
char *chat_text(const chat *c, const tg_gpt_message *messages, int64_t count, size_t *answer, tg_error *error);

#endif
