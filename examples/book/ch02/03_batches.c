/* 03: What does a language model learn from: which inputs, and which targets? Batches of sliding windows. The targets
 * are the inputs shifted by one token. */
#include "../book.h"

#include <string.h>

/* Prints a tensor of one row, without the newline. */
static void print_row(const tg_tensor *x)
{
    char text[200];
    FILE *file = tmpfile();
    if (file) {
        tg_tensor_print(x, file, NULL, NULL);
        rewind(file);
        printf("%.*s", fgets(text, sizeof text, file) ? (int)strcspn(text, "\n") : 0, text);
        fclose(file);
    }
}

static void print_pair(tg_batch batch)
{
    printf("[");
    print_row(batch.inputs);
    printf(", ");
    print_row(batch.targets);
    printf("]\n");
}

int main(int argc, char **argv)
{
    const char *folder = book_folder(argc, argv, NULL);
    question("What does a language model learn from: which inputs, and which targets?");
    tg_run *run = tg_run_new(123);

    tg_loader *single = book_loader(folder, 1, 4, 1, run);
    cell(97);
    print_pair(next_batch(single));
    cell(98);
    print_pair(next_batch(single));
    tg_loader_free(single);

    tg_loader *eight = book_loader(folder, 8, 4, 4, run);
    /* inputs and targets (8,4) */
    tg_batch batch = next_batch(eight);
    cell(102);
    printf("Inputs:\n ");
    print_tensor(batch.inputs);
    printf("\nTargets:\n ");
    print_tensor(batch.targets);
    tg_loader_free(eight);
    tg_run_free(run);
    return book_end();
}
