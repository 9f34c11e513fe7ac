#ifdef COURSE_WORKER
#include "../worker.h"

double dpo_loss(int count, double beta, const double *chosen, const double *rejected, const double *reference_chosen,
                const double *reference_rejected, double *margins);
void dpo_backward(int count, double beta, const double *margins, double dloss, double *dchosen, double *drejected);

/* count, beta, reference_chosen, reference_rejected, chosen, rejected -> margins, loss */
static void forward(void **a)
{
    const int *count = a[0];
    const double *beta = a[1];
    double *loss = a[7];
    *loss = dpo_loss(*count, *beta, a[5], a[6], a[2], a[3], a[4]);
}

/* count, beta, reference_chosen, reference_rejected, margins, chosen, rejected, dloss, dchosen, drejected. The margins
 * are not those of the student's forward, so that each function is checked by itself. */
static void backward(void **a)
{
    const int *count = a[0];
    const double *beta = a[1], *reference_chosen = a[2], *reference_rejected = a[3];
    const double *chosen = a[5], *rejected = a[6], *dloss = a[7];
    double *margins = a[4];
    for (int i = 0; i < *count; i++) {
        margins[i] = chosen[i] - reference_chosen[i] - rejected[i] + reference_rejected[i];
    }
    dpo_backward(*count, *beta, margins, *dloss, a[8], a[9]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

/* Log-probabilities of pairs. */
typedef struct pairs {
    int count;
    double beta, reference_chosen[5], reference_rejected[5], chosen[5], rejected[5];
} pairs;

static double loss_of(const pairs *p, double *margins)
{
    double loss;
    call("forward",
         LIST(INTS(p->count), DOUBLES(p->beta), IN(p->reference_chosen, p->count), IN(p->reference_rejected, p->count),
              OUT(margins, p->count), IN(p->chosen, p->count), IN(p->rejected, p->count), OUT(&loss, 1)));
    return loss;
}

static void add_gradients(const pairs *p, double dloss, double *dchosen, double *drejected)
{
    double margins[5];
    call("backward",
         LIST(INTS(p->count), DOUBLES(p->beta), IN(p->reference_chosen, p->count), IN(p->reference_rejected, p->count),
              OUT(margins, p->count), IN(p->chosen, p->count), IN(p->rejected, p->count), DOUBLES(dloss),
              INOUT(dchosen, p->count), INOUT(drejected, p->count)));
}

void course_checks(void)
{
    /* for z = log 3 the loss is log(4 / 3), and its derivative -1/4 */
    const double log_3 = log(3), loss_of_log_3 = log(4) - log(3);
    double margins[5], dchosen[5] = {0}, drejected[5] = {0};
    check("values");
    describe("chosen = -1, rejected = -1 - log 3, of the reference both -2, beta 1");
    pairs p = {1, 1, {-2}, {-2}, {-1}, {-1 - log_3}};
    expect_number("the loss", loss_of(&p, margins), loss_of_log_3, 1e-12);
    expect("margins", margins, &log_3, 1, 0, 1e-12);
    add_gradients(&p, 1, dchosen, drejected);
    expect("dchosen", dchosen, (double[]){-0.25}, 1, 0, 1e-12);
    expect("drejected", drejected, (double[]){0.25}, 1, 0, 1e-12);

    check("reference");
    describe("chosen = -1, rejected = -1, of the reference -1 - log 3 and -1, beta 1");
    p = (pairs){1, 1, {-1 - log_3}, {-1}, {-1}, {-1}};
    expect_number("the loss", loss_of(&p, margins), loss_of_log_3, 1e-12);
    expect("margins", margins, &log_3, 1, 0, 1e-12);
    describe("chosen = -1, rejected = -1, of the reference -1 and -1 + log 3, beta 1");
    p = (pairs){1, 1, {-1}, {-1 + log_3}, {-1}, {-1}};
    expect_number("the loss", loss_of(&p, margins), loss_of_log_3, 1e-12);

    check("beta");
    describe("chosen = -1, rejected = -1 - 2 log 3, of the reference both -2, beta 1/2");
    p = (pairs){1, 0.5, {-2}, {-2}, {-1}, {-1 - 2 * log_3}};
    expect_number("the loss", loss_of(&p, margins), loss_of_log_3, 1e-12);
    expect("margins", margins, (double[]){2 * log_3}, 1, 0, 1e-12);
    dchosen[0] = drejected[0] = 0;
    add_gradients(&p, 1, dchosen, drejected);
    expect("dchosen", dchosen, (double[]){-0.125}, 1, 0, 1e-12);
    expect("drejected", drejected, (double[]){0.125}, 1, 0, 1e-12);

    check("mean");
    describe("two pairs with the margins 0 and log 3, beta 1");
    p = (pairs){2, 1, {-2, -2}, {-2, -2}, {-1, -1}, {-1, -1 - log_3}};
    expect_number("the loss", loss_of(&p, margins), (log(2) + loss_of_log_3) / 2, 1e-12);
    memset(dchosen, 0, sizeof dchosen), memset(drejected, 0, sizeof drejected);
    add_gradients(&p, 1, dchosen, drejected);
    expect("dchosen", dchosen, (double[]){-0.25, -0.125}, 2, 0, 1e-12);

    check("dloss");
    describe("a margin of 0, beta 1, dloss 3");
    p = (pairs){1, 1, {-2}, {-2}, {-1}, {-1}};
    dchosen[0] = drejected[0] = 0;
    add_gradients(&p, 3, dchosen, drejected);
    expect("dchosen", dchosen, (double[]){-1.5}, 1, 0, 1e-12);

    check("adds");
    describe("a margin of 0, beta 1, dloss 1; dchosen is 10 and drejected is 20 before");
    dchosen[0] = 10, drejected[0] = 20;
    add_gradients(&p, 1, dchosen, drejected);
    expect("dchosen", dchosen, (double[]){9.5}, 1, 0, 1e-12);
    expect("drejected", drejected, (double[]){20.5}, 1, 0, 1e-12);

    check("large");
    describe("chosen = -1001, rejected = -1, of the reference both -1, beta 1");
    p = (pairs){1, 1, {-1}, {-1}, {-1001}, {-1}};
    expect_number("the loss", loss_of(&p, margins), 1000, 1e-12);
    describe("chosen = -1, rejected = -1001, of the reference both -1, beta 1");
    p = (pairs){1, 1, {-1}, {-1}, {-1}, {-1001}};
    expect_number("the loss", loss_of(&p, margins), 0, 1e-12);
    dchosen[0] = drejected[0] = 0;
    add_gradients(&p, 1, dchosen, drejected);
    expect("dchosen", dchosen, (double[]){0}, 1, 0, 1e-12);

    check("gradient");
    p = (pairs){.count = 5, .beta = 0.3};
    draw(p.reference_chosen, 5), draw(p.reference_rejected, 5), draw(p.chosen, 5), draw(p.rejected, 5);
    describe("5 pairs, random, beta 0.3");
    check_gradient((course_gradient){
        "forward",
        "backward",
        LIST(INTS(5), DOUBLES(p.beta), IN(p.reference_chosen, 5), IN(p.reference_rejected, 5), OUT(margins, 5)),
        {{"chosen", p.chosen, 5, 0}, {"rejected", p.rejected, 5, 0}},
        2,
        {"loss", NULL, 1, 0}});

    check("library");
    tg_tape *t = tape();
    tg_tensor *chosen = leaf(p.chosen, TG_SHAPE(5)), *rejected = leaf(p.rejected, TG_SHAPE(5));
    tg_tensor *expected = tg_sub(t, tg_sub(t, chosen, constant(p.reference_chosen, TG_SHAPE(5))),
                                 tg_sub(t, rejected, constant(p.reference_rejected, TG_SHAPE(5))));
    tg_tensor *loss = tg_neg(t, tg_mean_all(t, tg_log_sigmoid(t, tg_mul_scalar(t, expected, p.beta))));
    double got = loss_of(&p, margins);
    expect_tensor("the loss", &got, loss);
    expect_tensor("margins", margins, expected);
    library_backward(loss, (double[]){3});
    memset(dchosen, 0, sizeof dchosen), memset(drejected, 0, sizeof drejected);
    describe("5 pairs, random, beta 0.3, dloss 3");
    add_gradients(&p, 3, dchosen, drejected);
    expect_tensor("dchosen", dchosen, gradient_of(chosen));
    expect_tensor("drejected", drejected, gradient_of(rejected));
}
#endif
