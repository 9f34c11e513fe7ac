/* 04: What does a word look at? Softmax, attention with a mask, rotary positions, and causal attention with several
 * heads. */
#include "test_model.h"

#include <math.h>

const char program_name[] = "cs336_04_attention";

/* The library's attention takes a mask of weights as a bias: 0 where a key is seen, and else -inf. */
static tg_tensor *fused(tg_tape *t, tg_tensor *q, tg_tensor *k, tg_tensor *v, tg_tensor *mask)
{
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    tg_tensor *zeros = tg_full(t, TG_F32, tg_tensor_shape(mask), 0);
    config.bias = tg_masked_fill(t, zeros, tg_logical_not(t, mask), -INFINITY);
    return tg_scaled_dot_product_attention(t, q, k, v, &config);
}

/* (4,T,C) -> (2,2,T,C) */
static tg_tensor *halves(tg_tape *t, tg_tensor *x)
{
    return tg_reshape(t, x, TG_SHAPE(2, 2, tg_tensor_size(x, 1), tg_tensor_size(x, 2)));
}

static tg_tensor *neighbors(tg_tape *t, tg_tensor *x)
{
    tg_rotary_config config = tg_rotary_config_default();
    config.base = theta;
    config.pairing = TG_ROTARY_NEIGHBORS;
    return tg_rotary(t, x, 0, &config);
}

static void test_softmax(recipe *r, const options *o)
{
    static const char test[] = "test_softmax_matches_pytorch";
    tg_tape *t = r->data;
    if (test_begin(o, test, TWIN) && test_begin(o, test, FIXTURE)) {
        tg_tensor *x = course_tensor(r, o, "test_nn_utils.py", test, "x = torch.tensor(", TG_SHAPE(3, 5));
        tg_tensor *large = tg_add_scalar(t, x, 100);
        test_array(r, o, test, TWIN, 1e-7, 1e-6, softmax(t, x, -1), "tg_softmax", tg_softmax(t, x, -1));
        test_array(r, o, "test_softmax_matches_pytorch (x + 100)", TWIN, 1e-7, 1e-6, softmax(t, large, -1),
                   "tg_softmax", tg_softmax(t, large, -1));
    }
}

int main(int argc, char **argv)
{
    options o = options_read(LAYERS, "softmax, attention and rotary positions", argc, argv);
    recipe r = recipe_begin(0);
    tg_tape *t = r.data;
    tg_tensor *q = seeded_randn(&r, 1, TG_SHAPE(BATCH, QUERIES, WIDTH)),
              *k = seeded_randn(&r, 2, TG_SHAPE(BATCH, KEYS, WIDTH));
    tg_tensor *v = seeded_randn(&r, 3, TG_SHAPE(BATCH, KEYS, WIDTH)), *half = tg_full(t, TG_F32, TG_SCALAR, 0.5);
    tg_tensor *mask = tg_gt(t, seeded_randn(&r, 5, TG_SHAPE(BATCH, QUERIES, KEYS)), half), *x = embeddings(&r);
    test_softmax(&r, &o);
    if (test_begin(&o, "test_scaled_dot_product_attention", SNAPSHOT)) {
        test_array(&r, &o, "test_scaled_dot_product_attention", SNAPSHOT, 1e-4, 1e-6, attention(t, q, k, v, mask),
                   "tg_scaled_dot_product_attention", fused(t, q, k, v, mask));
    }
    if (test_begin(&o, "test_4d_scaled_dot_product_attention", SNAPSHOT)) {
        q = halves(t, q), k = halves(t, k), v = halves(t, v), mask = halves(t, mask);
        test_array(&r, &o, "test_4d_scaled_dot_product_attention", SNAPSHOT, 1e-4, 1e-6, attention(t, q, k, v, mask),
                   "tg_scaled_dot_product_attention", fused(t, q, k, v, mask));
    }
    if (test_begin(&o, "test_rope", SNAPSHOT)) {
        test_array(&r, &o, "test_rope", SNAPSHOT, 1e-4, 1e-6, rope(t, x, theta), "tg_rotary", neighbors(t, x));
    }
    if (test_begin(&o, "test_multihead_self_attention, also with_rope", TWIN)) {
        model m = twin(&r);
        const multihead *w = &m.blocks[0].attention;
        test_array(&r, &o, "test_multihead_self_attention", TWIN, 1e-4, 1e-6, multihead_attention(t, w, x, HEADS, 0),
                   NULL, NULL);
        test_array(&r, &o, "test_multihead_self_attention_with_rope", TWIN, 1e-4, 1e-6,
                   multihead_attention(t, w, x, HEADS, theta), NULL, NULL);
    }
    return tests_end(&r);
}
