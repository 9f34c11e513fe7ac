/* 05: What is a language model? A block of the transformer, and the whole model: ids in, logits out. */
#include "test_model.h"

const char program_name[] = "cs336_05_model";

int main(int argc, char **argv)
{
    options o = options_read(LAYERS, "a block of the transformer, and the model", argc, argv);
    recipe r = recipe_begin(0);
    tg_tape *t = r.data;
    tg_tensor *x = embeddings(&r), *ids = seeded_randint(&r, 6, TG_SHAPE(BATCH, QUERIES), VOCABULARY);
    if (test_begin(&o, "test_transformer_block, test_transformer_lm, also truncated_input", TWIN)) {
        model m = twin(&r);
        test_array(&r, &o, "test_transformer_block", TWIN, 1e-4, 1e-6, block_forward(t, &m.blocks[0], x, HEADS, theta),
                   NULL, NULL);
        /* every 157th logit of each position */
        tg_tensor *logits = tg_slice(t, model_forward(t, &m, ids), -1, 0, VOCABULARY, 157);
        test_array(&r, &o, "test_transformer_lm", TWIN, 1e-2, 1e-4, logits, NULL, NULL);
        tg_tensor *half = tg_slice(t, ids, 1, 0, QUERIES / 2, 1);
        logits = tg_slice(t, model_forward(t, &m, half), -1, 0, VOCABULARY, 157);
        test_array(&r, &o, "test_transformer_lm_truncated_input", TWIN, 1e-4, 1e-4, logits, NULL, NULL);
    }
    return tests_end(&r);
}
