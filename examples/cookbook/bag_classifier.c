/* bag_classifier: the topic of a text from the mean of its words' vectors (Joulin et al. 2016). Words 0 to 9 belong to
 * topic 0, words 10 to 19 to topic 1, and so on; a text has three words of its topic and three of any. Prints the loss
 * of the last step, and the accuracy. */
#include "recipe.h"

#include <tapegrad_tools.h>

const char program_name[] = "cookbook_bag_classifier";

enum { TOPICS = 3, WORDS_OF_TOPIC = 10, WORDS = 30, TEXTS = 240, LENGTH = 6, STEPS = 100 };

int main(int argc, char **argv)
{
    recipe_options("the topic of a text from the mean of its words' vectors", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;

    /* every other word is one of the topic */
    tg_tensor *texts = recipe_randint(&r, TG_SHAPE(TEXTS, LENGTH), 0, WORDS);
    int32_t topics[TEXTS], *words = tg_tensor_data_mut(texts);
    for (int i = 0; i < TEXTS; i++) {
        topics[i] = i % TOPICS;
        for (int j = 0; j < LENGTH; j += 2) {
            words[i * LENGTH + j] = topics[i] * WORDS_OF_TOPIC + words[i * LENGTH + j] % WORDS_OF_TOPIC;
        }
    }
    tg_tensor *targets = tg_constant_i32(r.data, TG_SHAPE(TEXTS), topics);

    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(r.params, "bag", WORDS, 8, NULL);
    tg_nn_linear head = tg_nn_linear_make(r.params, "head", 8, TOPICS, TG_BIAS);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.05;
    r.optim = tg_adam_new(r.params, &adam);
    tg_tensor *logits = NULL, *loss = NULL;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        logits = tg_nn_linear_forward(t, &head, tg_nn_embedding_bag_forward(t, &bag, texts, NULL, NULL));
        loss = tg_cross_entropy(t, logits, targets, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    tg_accuracy accuracy = {0, 0};
    tg_accuracy_add(&accuracy, logits, targets, NULL, &r.error);
    printf("loss %.4f, %d of %d right\n", tg_tensor_item(loss, &r.error), (int)accuracy.correct, TEXTS);
    return recipe_end(&r);
}
