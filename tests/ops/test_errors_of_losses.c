/* The errors of losses with options. */
#include "ops/refused.h"

#include <math.h>

#define NOT_EQUAL(op, name, first) \
    op ": argument '" name "' has shape (3,) and argument '" first "' (2,3); they must be equal"
#define NO_REDUCTION(op) op ": reduction 9 does not exist"
#define ONLY_KL_DIV(op) op ": TG_REDUCTION_BATCH_MEAN is for kl_div; the reduction must be mean, sum or none"
#define NO_GRADIENT(op, name) op ": the " name " requires a gradient, and has none in this loss (tg_detach)"

static void test_distances(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_l1_loss(t, f->x, f->vector, TG_REDUCTION_MEAN), SHAPE, NOT_EQUAL("l1_loss", "target", "prediction"));
    REFUSED(tg_l1_loss(t, f->x, f->x, (tg_reduction)9), VALUE, NO_REDUCTION("l1_loss"));
    REFUSED(tg_l1_loss(t, f->x, f->x, TG_REDUCTION_BATCH_MEAN), VALUE, ONLY_KL_DIV("l1_loss"));
    REFUSED(tg_l1_loss(t, f->x, f->doubles, TG_REDUCTION_MEAN), DTYPE, MIXED("l1_loss", "f32", "f64"));
    REFUSED(tg_l1_loss(t, f->x, f->ids, TG_REDUCTION_MEAN), DTYPE, NOT_FLOAT("l1_loss", "target", "i32"));
    REFUSED(tg_l1_loss(t, NULL, f->x, TG_REDUCTION_MEAN), STATE, NULL_ARGUMENT("l1_loss", "prediction"));
    REFUSED(tg_mse_loss(t, f->x, f->x, TG_REDUCTION_BATCH_MEAN), VALUE, ONLY_KL_DIV("mse_loss"));

    tg_smooth_l1_loss_config smooth = tg_smooth_l1_loss_config_default();
    REFUSED(tg_smooth_l1_loss(t, f->x, f->vector, NULL), SHAPE, NOT_EQUAL("smooth_l1_loss", "target", "prediction"));
    REFUSED(tg_smooth_l1_loss(t, f->ids, f->x, NULL), DTYPE, NOT_FLOAT("smooth_l1_loss", "prediction", "i32"));
    REFUSED(tg_smooth_l1_loss(t, f->x, NULL, NULL), STATE, NULL_ARGUMENT("smooth_l1_loss", "target"));
    smooth.beta = -1;
    REFUSED(tg_smooth_l1_loss(t, f->x, f->x, &smooth), VALUE,
            "smooth_l1_loss: beta -1; it must be finite, and 0 or more");
    smooth.beta = NAN;
    REFUSED(tg_smooth_l1_loss(t, f->x, f->x, &smooth), VALUE,
            "smooth_l1_loss: beta nan; it must be finite, and 0 or more");

    tg_huber_loss_config huber = tg_huber_loss_config_default();
    REFUSED(tg_huber_loss(t, f->x, f->vector, NULL), SHAPE, NOT_EQUAL("huber_loss", "target", "prediction"));
    REFUSED(tg_huber_loss(t, f->mask, f->x, NULL), DTYPE, NOT_FLOAT("huber_loss", "prediction", "u8"));
    REFUSED(tg_huber_loss(t, NULL, f->x, NULL), STATE, NULL_ARGUMENT("huber_loss", "prediction"));
    huber.delta = 0;
    REFUSED(tg_huber_loss(t, f->x, f->x, &huber), VALUE, "huber_loss: delta 0; it must be finite, and above 0");
    huber.delta = INFINITY;
    REFUSED(tg_huber_loss(t, f->x, f->x, &huber), VALUE, "huber_loss: delta inf; it must be finite, and above 0");
}

static void test_classes(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    tg_cross_entropy_config weighted = tg_cross_entropy_config_default();
    tg_tensor *targets = tg_full(t, TG_I32, TG_SHAPE(2), 1);
    weighted.weight = f->four;
    REFUSED(tg_cross_entropy(t, f->x, targets, &weighted), SHAPE,
            "cross_entropy: a weight of shape (4,) for 3 classes; it must be (V)");
    REFUSED(tg_nll_loss(t, f->x, targets, &weighted), SHAPE,
            "nll_loss: a weight of shape (4,) for 3 classes; it must be (V)");
    REFUSED(tg_cross_entropy(t, f->x, f->x, &weighted), SHAPE,
            "cross_entropy: a weight of shape (4,) for 3 classes; it must be (V)");
    weighted.weight = f->row;
    REFUSED(tg_cross_entropy(t, f->x, targets, &weighted), SHAPE,
            "cross_entropy: a weight of shape (1,3) for 3 classes; it must be (V)");
    weighted.weight = f->id_list;
    REFUSED(tg_cross_entropy(t, f->x, targets, &weighted), DTYPE, NOT_FLOAT("cross_entropy", "weight", "i32"));
    weighted.weight = f->doubles;
    REFUSED(tg_cross_entropy(t, f->x, targets, &weighted), DTYPE, MIXED("cross_entropy", "f32", "f64"));
    weighted.weight = f->x;
    REFUSED(tg_cross_entropy(t, f->x, targets, &weighted), STATE, NO_GRADIENT("cross_entropy", "weight"));
    REFUSED(
        tg_cross_entropy(t, f->x, f->vector, NULL), SHAPE,
        "cross_entropy: logits (2,3) and targets (3,) of f32, which count as probabilities; both must be (..,V) with "
        "V >= 1, and targets that are ids must be i32");
    REFUSED(cross_entropy(t, f->x, f->x, loss_config(-100, 2, TG_REDUCTION_MEAN)), VALUE,
            "cross_entropy: label_smoothing 2 is outside [0,1]");
    REFUSED(cross_entropy(t, f->x, f->x, loss_config(-100, 0, (tg_reduction)9)), VALUE, NO_REDUCTION("cross_entropy"));
    REFUSED(tg_nll_loss(t, f->x, f->x, NULL), DTYPE, NOT_IDS("nll_loss", "targets", "f32"));

    tg_binary_cross_entropy_with_logits_config binary = tg_binary_cross_entropy_with_logits_config_default();
#define BINARY "binary_cross_entropy_with_logits"
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, f->vector, NULL), SHAPE,
            NOT_EQUAL(BINARY, "target", "logits"));
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->ids, f->x, NULL), DTYPE, NOT_FLOAT(BINARY, "logits", "i32"));
    REFUSED(tg_binary_cross_entropy_with_logits(t, NULL, f->x, NULL), STATE, NULL_ARGUMENT(BINARY, "logits"));
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, NULL, NULL), STATE, NULL_ARGUMENT(BINARY, "target"));
    binary.weight = f->four;
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, f->x, &binary), SHAPE,
            BINARY ": the weight of shape (4,) does not broadcast to (2,3)");
    binary.weight = f->mask;
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, f->x, &binary), DTYPE, NOT_FLOAT(BINARY, "weight", "u8"));
    binary.weight = f->x;
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, f->x, &binary), STATE, NO_GRADIENT(BINARY, "weight"));
    binary.weight = NULL;
    binary.pos_weight = f->batches;
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, f->x, &binary), SHAPE,
            BINARY ": the pos_weight of shape (2,3,2) does not broadcast to (2,3)");
    binary.pos_weight = f->x;
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, f->x, &binary), STATE, NO_GRADIENT(BINARY, "pos_weight"));
    binary.reduction = TG_REDUCTION_BATCH_MEAN;
    REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, f->x, &binary), VALUE, ONLY_KL_DIV(BINARY));

    tg_kl_div_config kl = tg_kl_div_config_default();
    REFUSED(tg_kl_div(t, f->x, f->vector, NULL), SHAPE, NOT_EQUAL("kl_div", "target", "log_probs"));
    REFUSED(tg_kl_div(t, f->x, f->ids, NULL), DTYPE, NOT_FLOAT("kl_div", "target", "i32"));
    REFUSED(tg_kl_div(t, f->x, NULL, NULL), STATE, NULL_ARGUMENT("kl_div", "target"));
    kl.reduction = (tg_reduction)9;
    REFUSED(tg_kl_div(t, f->x, f->x, &kl), VALUE, NO_REDUCTION("kl_div"));
}

static void test_similarity(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    tg_tensor *signs = tg_full(t, TG_F32, TG_SHAPE(2), 1);
#define NOT_ROWS(op, name, first) NOT_EQUAL(op, name, first) ", and (..,D)"
    tg_cosine_embedding_loss_config cosine = tg_cosine_embedding_loss_config_default();
    REFUSED(tg_cosine_embedding_loss(t, f->x, f->vector, signs, NULL), SHAPE,
            NOT_ROWS("cosine_embedding_loss", "b", "a"));
    REFUSED(tg_cosine_embedding_loss(t, f->x, f->x, f->vector, NULL), SHAPE,
            "cosine_embedding_loss: rows (2,3) and a target (3,); they must be (..,D) and (..)");
    REFUSED(tg_cosine_embedding_loss(t, f->scalar, f->scalar, f->scalar, NULL), SHAPE,
            "cosine_embedding_loss: argument 'a' has shape () and argument 'a' (); they must be equal, and (..,D)");
    REFUSED(tg_cosine_embedding_loss(t, f->x, f->x, f->ids, NULL), DTYPE,
            NOT_FLOAT("cosine_embedding_loss", "target", "i32"));
    REFUSED(tg_cosine_embedding_loss(t, f->x, f->x, f->x, NULL), STATE, NO_GRADIENT("cosine_embedding_loss", "target"));
    REFUSED(tg_cosine_embedding_loss(t, f->x, NULL, signs, NULL), STATE, NULL_ARGUMENT("cosine_embedding_loss", "b"));
    cosine.margin = NAN;
    REFUSED(tg_cosine_embedding_loss(t, f->x, f->x, signs, &cosine), VALUE,
            "cosine_embedding_loss: margin nan; it must be finite");
    cosine.margin = 0;
    cosine.reduction = (tg_reduction)9;
    REFUSED(tg_cosine_embedding_loss(t, f->x, f->x, signs, &cosine), VALUE, NO_REDUCTION("cosine_embedding_loss"));

    tg_hinge_embedding_loss_config hinge = tg_hinge_embedding_loss_config_default();
    REFUSED(tg_hinge_embedding_loss(t, f->x, f->vector, NULL), SHAPE, NOT_EQUAL("hinge_embedding_loss", "target", "x"));
    REFUSED(tg_hinge_embedding_loss(t, f->x, f->mask, NULL), DTYPE, NOT_FLOAT("hinge_embedding_loss", "target", "u8"));
    REFUSED(tg_hinge_embedding_loss(t, f->x, f->x, NULL), STATE, NO_GRADIENT("hinge_embedding_loss", "target"));
    REFUSED(tg_hinge_embedding_loss(t, NULL, f->x, NULL), STATE, NULL_ARGUMENT("hinge_embedding_loss", "x"));
    hinge.margin = INFINITY;
    REFUSED(tg_hinge_embedding_loss(t, f->x, f->x, &hinge), VALUE,
            "hinge_embedding_loss: margin inf; it must be finite");

    tg_margin_ranking_loss_config ranking = tg_margin_ranking_loss_config_default();
    REFUSED(tg_margin_ranking_loss(t, f->x, f->vector, f->x, NULL), SHAPE, NOT_EQUAL("margin_ranking_loss", "b", "a"));
    REFUSED(tg_margin_ranking_loss(t, f->x, f->x, f->vector, NULL), SHAPE,
            NOT_EQUAL("margin_ranking_loss", "target", "a"));
    REFUSED(tg_margin_ranking_loss(t, f->x, f->x, f->ids, NULL), DTYPE,
            NOT_FLOAT("margin_ranking_loss", "target", "i32"));
    REFUSED(tg_margin_ranking_loss(t, f->x, f->x, NULL, NULL), STATE, NULL_ARGUMENT("margin_ranking_loss", "target"));
    ranking.margin = NAN;
    REFUSED(tg_margin_ranking_loss(t, f->x, f->x, f->x, &ranking), VALUE,
            "margin_ranking_loss: margin nan; it must be finite");

    tg_triplet_margin_loss_config triplet = tg_triplet_margin_loss_config_default();
    REFUSED(tg_triplet_margin_loss(t, f->x, f->x, f->vector, NULL), SHAPE,
            NOT_ROWS("triplet_margin_loss", "negative", "anchor"));
    REFUSED(tg_triplet_margin_loss(t, f->x, f->x, f->doubles, NULL), DTYPE, MIXED("triplet_margin_loss", "f32", "f64"));
    REFUSED(tg_triplet_margin_loss(t, f->x, NULL, f->x, NULL), STATE, NULL_ARGUMENT("triplet_margin_loss", "positive"));
#define TRIPLET(text) \
    "triplet_margin_loss: " text "; margin and p must be above 0, eps at least 0, margin and eps finite"
    triplet.p = 0;
    REFUSED(tg_triplet_margin_loss(t, f->x, f->x, f->x, &triplet), VALUE, TRIPLET("margin 1, p 0 and eps 1e-06"));
    triplet.p = 2;
    triplet.eps = -1;
    REFUSED(tg_triplet_margin_loss(t, f->x, f->x, f->x, &triplet), VALUE, TRIPLET("margin 1, p 2 and eps -1"));
    triplet.eps = 0;
    triplet.margin = 0;
    REFUSED(tg_triplet_margin_loss(t, f->x, f->x, f->x, &triplet), VALUE, TRIPLET("margin 0, p 2 and eps 0"));

    REFUSED(tg_cosine_similarity(t, f->x, f->four, 1, 1e-8), SHAPE, NO_BROADCAST("cosine_similarity"));
    REFUSED(tg_cosine_similarity(t, f->x, f->x, 2, 1e-8), RANGE, NO_AXIS("cosine_similarity", 2));
    REFUSED(tg_cosine_similarity(t, f->x, f->x, 1, -1), VALUE,
            "cosine_similarity: eps -1; it must be finite, and 0 or more");
    REFUSED(tg_cosine_similarity(t, f->x, f->doubles, 1, 0), DTYPE, MIXED("cosine_similarity", "f32", "f64"));
    REFUSED(tg_cosine_similarity(t, f->ids, f->ids, 1, 0), DTYPE, NOT_FLOAT("cosine_similarity", "a", "i32"));
    REFUSED(tg_cosine_similarity(t, NULL, f->x, 1, 0), STATE, NULL_ARGUMENT("cosine_similarity", "a"));
    REFUSED(tg_cosine_similarity(t, f->x, NULL, 1, 0), STATE, NULL_ARGUMENT("cosine_similarity", "b"));
}

static void test_contrastive(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    tg_tensor *same = tg_full(t, TG_I32, TG_SHAPE(2), 7), *pair = tg_full(t, TG_F32, TG_SHAPE(2, 3), 1);
    tg_contrastive_loss_config config = tg_contrastive_loss_config_default();
#define CONTRASTIVE(a, p, n) tg_contrastive_loss(t, a, p, n, &config)
#define SHAPES "; they must be (B,C), (B,C) and (N,C), N a multiple of B, B and C >= 1"
    REFUSED(CONTRASTIVE(f->x, f->row, NULL), SHAPE,
            "contrastive_loss: anchors (2,3), positives (1,3) and negatives NULL" SHAPES);
    REFUSED(CONTRASTIVE(f->vector, f->vector, NULL), SHAPE,
            "contrastive_loss: anchors (3,), positives (3,) and negatives NULL" SHAPES);
    REFUSED(CONTRASTIVE(f->empty, f->empty, NULL), SHAPE,
            "contrastive_loss: anchors (0,3), positives (0,3) and negatives NULL" SHAPES);
    REFUSED(CONTRASTIVE(f->x, f->x, f->row), SHAPE,
            "contrastive_loss: anchors (2,3), positives (2,3) and negatives (1,3)" SHAPES);
    REFUSED(CONTRASTIVE(f->x, f->x, f->four_rows), SHAPE,
            "contrastive_loss: anchors (2,3), positives (2,3) and negatives (4,2)" SHAPES);
    REFUSED(CONTRASTIVE(f->x, f->x, f->vector), SHAPE,
            "contrastive_loss: anchors (2,3), positives (2,3) and negatives (3,)" SHAPES);
#define NOT_ALL(name, dtype) \
    "contrastive_loss: argument '" name "' is " dtype "; all must be f32, or all f64 (tg_cast converts)"
    REFUSED(CONTRASTIVE(f->ids, f->x, NULL), DTYPE, NOT_ALL("anchors", "i32"));
    REFUSED(CONTRASTIVE(f->x, f->doubles, NULL), DTYPE, NOT_ALL("positives", "f64"));
    REFUSED(CONTRASTIVE(f->x, f->x, f->mask), DTYPE, NOT_ALL("negatives", "u8"));
    REFUSED(CONTRASTIVE(NULL, f->x, NULL), STATE, NULL_ARGUMENT("contrastive_loss", "anchors"));
    REFUSED(CONTRASTIVE(f->x, NULL, NULL), STATE, NULL_ARGUMENT("contrastive_loss", "positives"));
    const double scales[] = {0, -1, INFINITY, NAN};
    static const char *const names[] = {"0", "-1", "inf", "nan"};
    for (int i = 0; i < 4; i++) {
        char text[100];
        snprintf(text, sizeof text, "contrastive_loss: scale %s; it must be finite and above 0", names[i]);
        config.scale = scales[i];
        REFUSED(CONTRASTIVE(f->x, f->x, NULL), VALUE, text);
    }
    config.scale = 1;
    config.similarity = (tg_similarity)2;
    REFUSED(CONTRASTIVE(f->x, f->x, NULL), VALUE,
            "contrastive_loss: similarity 2 does not exist; it must be 0 (cosine) or 1 (dot)");
    config.similarity = TG_SIMILARITY_DOT;
    config.groups = f->four_ids;
    REFUSED(CONTRASTIVE(f->x, f->x, NULL), SHAPE,
            "contrastive_loss: the groups are i32 (4,); for 2 pairs they must be i32 (B)");
    config.groups = f->vector;
    REFUSED(CONTRASTIVE(f->x, f->x, NULL), DTYPE,
            "contrastive_loss: the groups are f32 (3,); for 2 pairs they must be i32 (B)");
    config.groups = same;
    REFUSED(CONTRASTIVE(f->x, f->x, NULL), VALUE,
            "contrastive_loss: all 2 pairs are in group 7; none of them has a negative");
    /* a negative, or a single pair, is enough */
    assert_non_null(CONTRASTIVE(pair, pair, pair));
    config.groups = tg_slice(t, same, 0, 0, 1, 1);
    assert_true(tg_tensor_item(CONTRASTIVE(f->row, f->row, NULL), NULL) == 0);
    config.mark = NULL;
    REFUSED(CONTRASTIVE(f->x, f->x, NULL), VALUE, NO_CONFIG("contrastive_loss", "tg_contrastive_loss_config_default"));
}

/* A constant that requires a gradient is refused if the call is recorded, and accepted if not, as in torch: in both
 * cases whatever the layout is. */
static void test_constants_of_any_layout(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    tg_tensor *wide = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(3, 2), 1, NULL));
    tg_tensor *strided = tg_transpose(t, wide, 0, 1);
    f->records++;
    tg_tensor *targets[] = {f->x, strided};
    for (int k = 0; k < 2; k++) {
        tg_binary_cross_entropy_with_logits_config weighted = tg_binary_cross_entropy_with_logits_config_default();
        weighted.weight = targets[k];
        REFUSED(tg_hinge_embedding_loss(t, f->x, targets[k], NULL), STATE,
                NO_GRADIENT("hinge_embedding_loss", "target"));
        REFUSED(tg_binary_cross_entropy_with_logits(t, f->x, f->x, &weighted), STATE, NO_GRADIENT(BINARY, "weight"));
        tg_tape_set_recording(t, false);
        assert_non_null(tg_hinge_embedding_loss(t, f->x, targets[k], NULL));
        assert_non_null(tg_binary_cross_entropy_with_logits(t, f->x, f->x, &weighted));
        tg_tape_set_recording(t, true);
    }
    tg_release(wide);
}

static void test_skip_gram(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    tg_tensor *pairs = tg_full(t, TG_I32, TG_SHAPE(2, 3), 1), *none = tg_full(t, TG_I32, TG_SHAPE(2, 0), 1);
#define SKIP_GRAM(centers, table, targets, contexts) \
    tg_skip_gram_loss(t, centers, table, targets, contexts, TG_REDUCTION_MEAN)
    REFUSED(SKIP_GRAM(f->id_list, f->table, f->ids, f->four_rows), RANGE,
            "skip_gram_loss: id 8 at [0,1] is outside [0,4)");
    REFUSED(SKIP_GRAM(f->id_list, f->four_rows, pairs, f->four_rows), RANGE,
            "skip_gram_loss: id 5 at [0] is outside [0,4)");
    REFUSED(SKIP_GRAM(f->four_ids, f->table, pairs, f->table), SHAPE,
            "skip_gram_loss: centers (4,) and targets (2,3); they must be (B) and (B,K) with K >= 1");
    REFUSED(SKIP_GRAM(f->id_list, f->table, none, f->table), SHAPE,
            "skip_gram_loss: centers (2,) and targets (2,0); they must be (B) and (B,K) with K >= 1");
    REFUSED(SKIP_GRAM(f->id_list, f->table, pairs, f->x), SHAPE,
            "skip_gram_loss: a table (9,2) and contexts (2,3); their rows must have the same width");
    REFUSED(SKIP_GRAM(pairs, f->table, pairs, f->table), SHAPE,
            "skip_gram_loss: argument 'centers' has shape (2,3); it must have rank 1");
    REFUSED(SKIP_GRAM(f->id_list, f->vector, pairs, f->table), SHAPE,
            "skip_gram_loss: argument 'table' has shape (3,); it must have rank 2");
    REFUSED(SKIP_GRAM(f->id_list, f->table, f->id_list, f->table), SHAPE,
            "skip_gram_loss: argument 'targets' has shape (2,); it must have rank 2");
    REFUSED(SKIP_GRAM(f->id_list, f->table, pairs, f->vector), SHAPE,
            "skip_gram_loss: argument 'contexts' has shape (3,); it must have rank 2");
    REFUSED(SKIP_GRAM(f->id_list, f->table, f->x, f->table), DTYPE, NOT_IDS("skip_gram_loss", "targets", "f32"));
    REFUSED(SKIP_GRAM(f->vector, f->table, f->batches, f->table), SHAPE,
            "skip_gram_loss: argument 'targets' has shape (2,3,2); it must have rank 2");
    REFUSED(SKIP_GRAM(f->id_list, f->mask, pairs, f->table), DTYPE, NOT_FLOAT("skip_gram_loss", "table", "u8"));
    REFUSED(SKIP_GRAM(f->id_list, f->x, pairs, f->doubles), DTYPE, MIXED("skip_gram_loss", "f32", "f64"));
    REFUSED(SKIP_GRAM(f->id_list, f->table, pairs, NULL), STATE, NULL_ARGUMENT("skip_gram_loss", "contexts"));
    REFUSED(tg_skip_gram_loss(t, f->id_list, f->table, pairs, f->table, (tg_reduction)9), VALUE,
            NO_REDUCTION("skip_gram_loss"));
    REFUSED(tg_skip_gram_loss(t, f->id_list, f->table, pairs, f->table, TG_REDUCTION_BATCH_MEAN), VALUE,
            ONLY_KL_DIV("skip_gram_loss"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_distances, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_similarity, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_constants_of_any_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_skip_gram, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_contrastive, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("errors of losses", tests, NULL, NULL);
}
