/* 01: Does a model need the mean of its norms, and its biases? Llama's norm is RMSNorm (Zhang and Sennrich 2019): a
 * vector is divided by the root of its mean square, and keeps its mean. Its linear layers have no biases. The model has
 * fewer parameters, and a pass over them less. On a story as short as this one the losses differ by chance: other
 * initial values change them more than the norm does. */
#include "comparison.h"

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("Does a model need the mean of its norms, and its biases?");
    tg_gpt_config before = gpt();
    tg_gpt_config after = before;
    use_rms_norm(&after);
    compare(book, 0.003, "layer norm, biases", before, "RMSNorm", after);
    return book_end();
}
