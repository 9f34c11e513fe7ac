/* 06: How much of a text does each layer have to see? Gemma 3 looks at the whole text in one layer of six; the others
 * see a window of the last tokens (Beltagy et al. 2020), and keep no more. Here it is one layer of two. */
#include "comparison.h"

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("How much of a text does each layer have to see?");
    tg_gpt_config before = gpt();
    use_rms_norm(&before);
    use_rotary_positions(&before);
    use_swiglu(&before);
    use_grouped_queries(&before);
    use_query_key_norm(&before);
    tg_gpt_config after = before;
    use_windows(&after);
    compare(book, 0.003, "all tokens", before, "a window of 8", after);
    return book_end();
}
