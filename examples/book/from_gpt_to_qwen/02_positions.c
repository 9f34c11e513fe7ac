/* 02: Where does a model learn where a word is? GPT-2 adds a trained vector for each position. Rotary positions (Su et
 * al. 2021) rotate the queries and keys instead, so that attention depends on distances, and nothing has to be
 * trained: the table of positions is gone, and the distances of one place are those of all others. */
#include "comparison.h"

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("Where does a model learn where a word is?");
    tg_gpt_config before = gpt();
    use_rms_norm(&before);
    tg_gpt_config after = before;
    use_rotary_positions(&after);
    compare(book, 0.003, "learned positions", before, "rotary positions", after);
    return book_end();
}
