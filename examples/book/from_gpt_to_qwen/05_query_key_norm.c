/* 05: What keeps attention calm at a high learning rate? Qwen3 normalizes each query and each key (Henry et al. 2020),
 * so that no product of both can grow without bounds. The learning rate is ten times that of the programs before: the
 * loss in training is lower with the norms. Both trainings are so wild that rounding changes the figures. */
#include "comparison.h"

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("What keeps attention calm at a high learning rate?");
    tg_gpt_config before = gpt();
    use_rms_norm(&before);
    use_rotary_positions(&before);
    use_swiglu(&before);
    use_grouped_queries(&before);
    tg_gpt_config after = before;
    use_query_key_norm(&after);
    compare(book, 0.03, "Llama 3", before, "Qwen3", after);
    return book_end();
}
