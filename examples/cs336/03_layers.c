/* 03: What is a layer? Linear layers, an embedding, RMSNorm, SiLU and SwiGLU. The course's weights are not at hand, but
 * those of its RMSNorm follow from the first row of the snapshot. */
#include "test_model.h"

const char program_name[] = "cs336_03_layers";

/* weight = y / rms_norm(x) in the first row; the snapshot's other rows are then those of the same weight. */
static void test_rmsnorm(recipe *r, const options *o, tg_tensor *x)
{
    static const char test[] = "test_rmsnorm";
    if (!test_begin(o, test, SNAPSHOT)) {
        return;
    }
    tg_tape *t = r->data;
    tg_tensor *snapshot = tg_tensor_new_from_npz(course_file(o, "snapshots/test_rmsnorm.npz"), "array", &r->error);
    tg_tensor *ones = tg_full(t, TG_F32, TG_SHAPE(WIDTH), 1);
    tg_tensor *plain = rms_norm(t, x, ones);
    tg_tensor *first = tg_select(t, tg_select(t, snapshot, 0, 0), 0, 0);
    tg_tensor *weight = tg_div(t, first, tg_select(t, tg_select(t, plain, 0, 0), 0, 0));
    test_array(r, o, test, SNAPSHOT, 1e-4, 1e-6, rms_norm(t, x, weight), "tg_rms_norm",
               tg_rms_norm(t, x, weight, 1e-5));
    tg_release(snapshot);
}

int main(int argc, char **argv)
{
    options o = options_read(LAYERS, "linear layers, embedding, RMSNorm, SiLU and SwiGLU", argc, argv);
    recipe r = recipe_begin(0);
    tg_tape *t = r.data;
    tg_tensor *x = embeddings(&r);
    test_rmsnorm(&r, &o, x);
    if (test_begin(&o, "test_silu_matches_pytorch", TWIN) && test_begin(&o, "test_silu_matches_pytorch", FIXTURE)) {
        tg_tensor *values =
            course_tensor(&r, &o, "test_model.py", "test_silu_matches_pytorch", "x = torch.tensor(", TG_SHAPE(2, 5));
        test_array(&r, &o, "test_silu_matches_pytorch", TWIN, 1e-7, 1e-6, silu(t, values), "tg_silu",
                   tg_silu(t, values));
    }
    if (test_begin(&o, "test_linear, test_embedding, test_swiglu", TWIN)) {
        model m = twin(&r);
        const block *b = &m.blocks[0];
        tg_tensor *ids = seeded_randint(&r, 6, TG_SHAPE(BATCH, QUERIES), VOCABULARY);
        test_array(&r, &o, "test_linear", TWIN, 1e-4, 1e-5, tg_linear(t, x, b->w1, NULL), NULL, NULL);
        test_array(&r, &o, "test_embedding", TWIN, 0, 0, tg_embedding(t, ids, m.table, NULL), NULL, NULL);
        test_array(&r, &o, "test_swiglu", TWIN, 1e-4, 1e-5, swiglu(t, x, b->w1, b->w2, b->w3), NULL, NULL);
        test_array(&r, &o, "test_rmsnorm (all rows)", TWIN, 1e-4, 1e-6, rms_norm(t, x, m.blocks[1].norm1),
                   "tg_rms_norm", tg_rms_norm(t, x, m.blocks[1].norm1, 1e-5));
    }
    return tests_end(&r);
}
