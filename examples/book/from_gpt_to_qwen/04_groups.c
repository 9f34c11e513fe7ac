/* 04: How many heads of keys and values does a model need? Grouped queries (Ainslie et al. 2023): heads share keys and
 * values, and what a model keeps for each token while it writes is a quarter here. This is Llama 3. */
#include "comparison.h"

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("How many heads of keys and values does a model need?");
    tg_gpt_config before = gpt();
    use_rms_norm(&before);
    use_rotary_positions(&before);
    use_swiglu(&before);
    tg_gpt_config after = before;
    use_grouped_queries(&after);
    compare(book, 0.003, "4 heads of keys", before, "1 head of keys", after);
    return book_end();
}
