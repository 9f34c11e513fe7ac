/* 03: What does a gate add to the feed-forward network? SwiGLU (Shazeer 2020) multiplies one projection by the SiLU of
 * another. With 8/3 C hidden channels its three matrices have as many weights as the two of GPT-2 with 4 C. This is
 * Llama 2. */
#include "comparison.h"

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("What does a gate add to the feed-forward network?");
    tg_gpt_config before = gpt();
    use_rms_norm(&before);
    use_rotary_positions(&before);
    tg_gpt_config after = before;
    use_swiglu(&after);
    compare(book, 0.003, "GELU", before, "SwiGLU", after);
    return book_end();
}
