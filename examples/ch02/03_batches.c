/* 03: sliding windows. The targets are the inputs, one token further on. */
#include "../chapter.h"

static void print_pair(tg_batch batch)
{
    char inputs[200], targets[200];
    tg_format(batch.inputs, NULL, inputs, sizeof inputs);
    tg_format(batch.targets, NULL, targets, sizeof targets);
    printf("[%s, %s]\n", inputs, targets);
}

int main(int argc, char **argv)
{
    const char *folder = book_folder(argc, argv);
    tg_rng *rng = tg_rng_new(123);

    tg_loader *single = book_loader(folder, 1, 4, 1, rng);
    cell(97);
    print_pair(first_batch(single));
    cell(98);
    print_pair(first_batch(single)); /* the next one */
    tg_loader_free(single);

    tg_loader *eight = book_loader(folder, 8, 4, 4, rng);
    tg_batch batch = first_batch(eight);
    cell(102);
    printf("Inputs:\n ");
    tg_print(stdout, batch.inputs);
    printf("\nTargets:\n ");
    tg_print(stdout, batch.targets);
    tg_loader_free(eight);
    tg_rng_free(rng);
    return 0;
}
