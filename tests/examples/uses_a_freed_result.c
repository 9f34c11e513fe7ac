/* uses_a_freed_result: a program of the book that reads a result after the reset. Its tape reports that. */
#include "../../examples/book/book.h"

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    tg_tape *t = book_tape(NULL);
    tg_tensor *x = tg_full(t, TG_F32, TG_SCALAR, 1), *y = tg_add(t, x, x);
    tg_tape_reset(t);
    printf("%g\n", tg_tensor_item(y, NULL));
    check(tg_tape_error(t));
    tg_tape_free(t);
    return book_end();
}
