/* bag_classifier: the topic of a text from the mean of its words' vectors (Joulin et al. 2016). Words 0 to 9 belong to
 * topic 0, words 10 to 19 to topic 1, and so on; a text has three words of its topic and three of any. Prints the loss
 * of the last step, and the accuracy. */
#include <stdio.h>

#include <tapegrad.h>

#include "../common/command_line.h"
#include "../common/program.h"

const char program_name[] = "cookbook_bag_classifier";

enum { TOPICS = 3, WORDS = 30, TEXTS = 240, LENGTH = 6, STEPS = 100 };

int main(int argc, char **argv)
{
    int status = command_line_refuse_options(
        "cookbook_bag_classifier: the topic of a text from the mean of its words' vectors\n", argc, argv);
    if (status >= 0) {
        return status;
    }
    tg_error error = TG_NO_ERROR;
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_tape *t = tg_tape_new(rng, NULL);

    tg_tensor *any = tg_tensor_new(TG_I32, TG_SHAPE(TEXTS, LENGTH), &error);
    tg_tensor_fill_randint(any, rng, 0, WORDS, &error);
    int32_t texts[TEXTS * LENGTH], topics[TEXTS];
    for (int i = 0; i < TEXTS * LENGTH; i++) {
        int32_t word = (int32_t)tg_tensor_value_at(any, i), topic = i / LENGTH % TOPICS;
        texts[i] = i % 2 == 0 ? topic * (WORDS / TOPICS) + word % (WORDS / TOPICS) : word;
        topics[i / LENGTH] = topic;
    }

    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", WORDS, 8, NULL);
    tg_nn_linear head = tg_nn_linear_make(params, "head", 8, TOPICS, NULL);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.05;
    tg_optim *optim = tg_adam_new(params, &adam);
    tg_accuracy accuracy = {0, 0};
    double last = 0;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor *ids = tg_constant(t, TG_I32, TG_SHAPE(TEXTS, LENGTH), texts);
        tg_tensor *targets = tg_constant(t, TG_I32, TG_SHAPE(TEXTS), topics);
        tg_tensor *logits = tg_nn_linear_forward(t, &head, tg_nn_embedding_bag_forward(t, &bag, ids, NULL, NULL));
        tg_tensor *loss = tg_cross_entropy(t, logits, targets, NULL);
        tg_optim_zero_grad(optim);
        if (!tg_backward(t, loss, NULL) || !tg_optim_step(optim)) {
            fprintf(stderr, "%s\n", tg_tape_error(t)->text);
            return 1;
        }
        last = tg_tensor_item(loss, &error);
        accuracy = (tg_accuracy){0, 0};
        tg_accuracy_add(&accuracy, logits, targets, NULL, &error);
    }
    printf("loss %.4f, %lld of %lld right\n", last, (long long)accuracy.correct, (long long)accuracy.count);

    tg_optim_free(optim);
    tg_release(any);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(rng);
    return error.code == TG_OK ? 0 : 1;
}
