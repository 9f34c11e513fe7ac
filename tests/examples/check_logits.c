/* check_logits MODEL IDS.npy LOGITS.npy: computes the logits of a model of the program gpt for ids (B,T), and compares
 * them with (B,T,V) of another program. Prints the largest difference, relative to the largest logit. The exit status
 * is 0 if it is at most 1e-5. */
#include <math.h>

#include "../../examples/common/program.h"
#include "../../examples/gpt/model.h"

const char program_name[] = "check_logits";

static double largest_of(tg_tape *t, tg_tensor *x)
{
    return tg_tensor_item(tg_amax(t, tg_abs(t, x), TG_ALL_AXES, TG_DROP_AXES), NULL);
}

int main(int argc, char **argv)
{
    model m;
    tg_error error = TG_NO_ERROR;
    if (argc != 4 || !model_load(&m, argv[1], &(model_use){.choice = TG_CHECKPOINT_BEST}, NULL)) {
        return 2;
    }
    tg_tape *t = quiet_tape_new(NULL, false, true);
    tg_tensor *ids = tg_tensor_new_from_npy(argv[2], &error), *expected = tg_tensor_new_from_npy(argv[3], &error);
    tg_tensor *logits = tg_gpt_forward(t, m.gpt, ids, NULL);
    double difference = largest_of(t, tg_sub(t, logits, expected)) / largest_of(t, expected);
    if (tg_tape_error(t)->code != TG_OK) {
        complain("%s", error.code != TG_OK ? error.text : tg_tape_error(t)->text);
        difference = NAN;
    }
    printf("largest difference %.2g of the largest logit\n", difference);
    tg_release(ids);
    tg_release(expected);
    tg_tape_free(t);
    model_free(&m);
    return difference <= 1e-5 ? 0 : 1;
}
