/* A program of a user's that needs the libraries on top of the core. Prints nothing; 0 if all is right. */
#include <stdio.h>
#include <string.h>

#include <tapegrad.h>
#include <tapegrad_text.h>
#include <tapegrad_tools.h>

int main(void)
{
    tg_error error = TG_NO_ERROR;
    static const char text[] = "the cat sat on the mat, and the cat sat on the hat";
    tg_tokenizer *bpe = tg_tokenizer_train(text, strlen(text), 260, &error);
    tg_tokens tokens;
    if (!tg_tokenizer_encode(bpe, text, strlen(text), false, &tokens, &error) ||
        tokens.count >= (int64_t)strlen(text)) {
        fprintf(stderr, "encode: %s\n", error.text);
        return 1;
    }
    tg_accuracy accuracy = {0};
    tg_tensor *logits = tg_tensor_new_from_f32(TG_SHAPE(2, 2), (const float[]){1, 2, 2, 1}, &error);
    tg_tensor *targets = tg_tensor_new_from_i32(TG_SHAPE(2), (const int32_t[]){1, 1}, &error);
    bool is_right = tg_accuracy_add(&accuracy, logits, targets, NULL, &error) && accuracy.correct == 1;
    tg_release(logits);
    tg_release(targets);
    tg_tokens_free(&tokens);
    tg_tokenizer_free(bpe);
    return is_right ? 0 : 1;
}
