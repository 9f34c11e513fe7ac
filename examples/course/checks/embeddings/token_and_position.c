#ifdef COURSE_WORKER
#include "../worker.h"

void embed_backward(int batch, int time, int width, const int *ids, const double *dy, double *dtokens,
                    double *dpositions);

/* sizes, ids, tokens, positions -> y */
static void forward(void **a)
{
    const int *n = a[0], *ids = a[1];
    const double *tokens = a[2], *positions = a[3];
    double *y = a[4];
    for (int i = 0; i < n[0] * n[1] * n[2]; i++) {
        int place = i / n[2];
        y[i] = tokens[ids[place] * n[2] + i % n[2]] + positions[place % n[1] * n[2] + i % n[2]];
    }
}

/* sizes, ids, tokens, positions, dy, dtokens, dpositions */
static void backward(void **a)
{
    const int *n = a[0];
    embed_backward(n[0], n[1], n[2], a[1], a[4], a[5], a[6]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double dtokens[40] = {0}, dpositions[20] = {0};
    check("values");
    describe("one sentence, ids 2 0, dy = 1 2, 3 4");
    call("backward", LIST(INTS(1, 2, 2), IN(((int[]){2, 0}), 2), NOTHING, NOTHING, DOUBLES(1, 2, 3, 4),
                          INOUT(dtokens, 6), INOUT(dpositions, 4)));
    expect("dtokens", dtokens, (double[]){3, 4, 0, 0, 1, 2}, 3, 2, 1e-12);
    expect("dpositions", dpositions, (double[]){1, 2, 3, 4}, 2, 2, 1e-12);

    check("batch");
    describe("two sentences of two words, ids 2 0, 2 1, dy = 1 2, 3 4, 10 20, 30 40");
    double tokens6[6] = {0}, positions4[4] = {0};
    call("backward", LIST(INTS(2, 2, 2), IN(((int[]){2, 0, 2, 1}), 4), NOTHING, NOTHING,
                          DOUBLES(1, 2, 3, 4, 10, 20, 30, 40), INOUT(tokens6, 6), INOUT(positions4, 4)));
    expect("dtokens", tokens6, (double[]){3, 4, 30, 40, 11, 22}, 3, 2, 1e-12);
    expect("dpositions", positions4, (double[]){11, 22, 33, 44}, 2, 2, 1e-12);

    check("gradient");
    double tokens[15], positions[9], dy[60];
    int ids[20];
    draw(tokens, 15);
    draw(positions, 9);
    draw_ids(ids, 6, 5);
    describe("random ids (2,3)");
    check_gradient((course_gradient){"forward",
                                     "backward",
                                     LIST(INTS(2, 3, 3), IN(ids, 6)),
                                     {{"tokens", tokens, 5, 3}, {"positions", positions, 3, 3}},
                                     2,
                                     {"y", NULL, 6, 3}});

    check("library");
    double zeros[40] = {0};
    draw_ids(ids, 20, 10);
    draw(dy, 60);
    tg_tensor *token_table = leaf(zeros, TG_SHAPE(10, 3)), *position_table = leaf(zeros, TG_SHAPE(5, 3));
    library_backward(
        tg_add(tape(), tg_embedding(tape(), ids_tensor(ids, TG_SHAPE(4, 5)), token_table, NULL), position_table), dy);
    double got[30] = {0}, got_positions[15] = {0};
    describe("random ids (4,5)");
    call("backward",
         LIST(INTS(4, 5, 3), IN(ids, 20), NOTHING, NOTHING, IN(dy, 60), INOUT(got, 30), INOUT(got_positions, 15)));
    expect_tensor("dtokens", got, gradient_of(token_table));
    expect_tensor("dpositions", got_positions, gradient_of(position_table));
}
#endif
