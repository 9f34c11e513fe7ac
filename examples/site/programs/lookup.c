/* lookup: one step of an embedding: rows that are copied, gradients that go back to them, and rows that stay. */
#include <stdio.h>
#include <string.h>

#include <tapegrad.h>

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(123);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *table = tg_tensor_new(TG_F32, TG_SHAPE(6, 3), &error);
    tg_tensor_fill_normal(table, tg_run_rng(run), 0, 1, &error);
    tg_tensor_set_requires_grad(table, true, &error);

    /* the lookup: y[i,:] = table[ids[i],:] */
    tg_tensor *ids = tg_constant_i32(t, TG_SHAPE(4), (int32_t[]){2, 3, 5, 2});
    tg_tensor *y = tg_embedding(t, ids, table, NULL);
    tg_tensor_print(y, stdout, NULL, &error);

    /* the loss is the sum of y, so the gradient of each value of y is 1 */
    tg_backward(t, tg_sum_all(t, y), NULL);
    tg_grad_rows rows = tg_tensor_grad_rows(table);
    for (int64_t i = 0; i < rows.count; i++) {
        const float *g = (const float *)rows.values + i * rows.width;
        printf("row %d: gradient %g %g %g\n", rows.ids[i], (double)g[0], (double)g[1], (double)g[2]);
    }

    /* the same by the op that a table's gradient is: zeros, and ones that are added at the ids */
    tg_tensor *zeros = tg_full(t, TG_F32, TG_SHAPE(6, 3), 0), *ones = tg_full(t, TG_F32, TG_SHAPE(4, 3), 1);
    tg_tensor *dense = tg_tensor_new_dense_grad(table, &error), *added = tg_index_add(t, zeros, 0, ids, ones);
    bool same = added && dense && memcmp(tg_tensor_data(added), tg_tensor_data(dense), 18 * sizeof(float)) == 0;
    printf("index_add of ones gives %s\n", same ? "the same, bit for bit" : "something else");

    bool good = same && error.code == TG_OK && tg_tape_error(t)->code == TG_OK;
    if (!good) {
        fprintf(stderr, "%s%s\n", error.text, tg_tape_error(t)->text);
    }
    tg_release(dense);
    tg_release(table);
    tg_tape_free(t);
    tg_run_free(run);
    return good ? 0 : 1;
}
