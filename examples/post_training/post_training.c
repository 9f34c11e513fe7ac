/* post_training: shared by the programs of this folder: a small decoder that answers sums in a chat, the chats as
 * tokens, their log-probabilities, a training on right answers before the actual one, and the count of right answers.
 * All computes in f64: a draw then depends on no rounding, so that a twin draws the same tokens over hundreds of
 * steps. */
#include "post_training.h"

#include <stdlib.h>
#include <string.h>

static const char *const tokens[] = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "+", "\n", "user", "assistant", "<|im_start|>", "<|im_end|>"};

/* ---- decoders ---- */

decoder decoder_make(const recipe *r, int64_t vocabulary, int64_t width, int64_t layers)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = vocabulary;
    config.context = CONTEXT;
    config.width = width;
    config.heads = 4;
    config.layers = layers;
    decoder d = {.params = tg_params_new(r->run, TG_F64)};
    d.model = tg_gpt_new(d.params, &config);
    recipe_check(r);
    return d;
}

void decoder_free(decoder *d)
{
    tg_gpt_free(d->model);
    tg_params_free(d->params);
}

decoder decoder_copy(recipe *r, const decoder *d)
{
    const tg_gpt_config *c = tg_gpt_get_config(d->model);
    decoder copy = decoder_make(r, c->vocabulary, c->width, c->layers);
    for (int64_t i = 0; i < tg_params_count(d->params); i++) {
        tg_tensor_copy_from(tg_params_at(copy.params, i).tensor, tg_params_at(d->params, i).tensor, &r->error);
    }
    recipe_check(r);
    return copy;
}

bool decoder_has_tokens_of(const decoder *reference, const decoder *d)
{
    int64_t found = tg_gpt_get_config(reference->model)->vocabulary;
    int64_t expected = tg_gpt_get_config(d->model)->vocabulary;
    return found == expected || complain("the reference model has a vocabulary of %lld; it must be that of the model, "
                                         "%lld",
                                         (long long)found, (long long)expected);
}

double item(recipe *r, const tg_tensor *x)
{
    double value = tg_tensor_item(x, &r->error);
    recipe_check(r);
    return value;
}

/* ---- chats ---- */

void draw_sums(recipe *r, sum *sums, int64_t count)
{
    tg_tensor *terms = tg_full(r->tape, TG_I32, TG_SHAPE(count, 2), 0);
    tg_tensor_fill_randint(terms, tg_run_rng(r->run), 0, 10, &r->error);
    recipe_check(r);
    memcpy(sums, tg_tensor_data(terms), (size_t)count * sizeof *sums);
}

answer answer_of(int32_t number, int digits)
{
    answer a = {{END, END, END}};
    char text[16];
    snprintf(text, sizeof text, "%0*d", digits, digits == 1 ? number % 10 : number);
    encode(text, a.ids, ANSWER - 1);
    return a;
}

int answer_length(const answer *a)
{
    int length = 1;
    while (length < ANSWER && a->ids[length - 1] != END) {
        length++;
    }
    return length;
}

bool is_right(sum s, const answer *a, int digits)
{
    answer right = answer_of(s.a + s.b, digits);
    return memcmp(&right, a, sizeof right) == 0;
}

int64_t encode(const char *text, int32_t *ids, int64_t most)
{
    int64_t count = 0;
    while (*text && count < most) {
        int32_t id = 0;
        while (strncmp(text, tokens[id], strlen(tokens[id])) != 0) {
            id++;
        }
        text += strlen(tokens[id]);
        ids[count++] = id;
    }
    return count;
}

/* Writes the tokens of a question and of the beginning of its answer. */
static void ask(recipe *r, sum s, int32_t *ids)
{
    char question[8];
    snprintf(question, sizeof question, "%d+%d", s.a, s.b);
    char *text = tg_gpt_chat(&(tg_gpt_message){"user", question}, 1, NULL, &r->error);
    recipe_check(r);
    encode(text, ids, QUESTION);
    tg_text_free(text);
}

chats chats_make(recipe *r, const sum *sums, const answer *answers, int64_t count)
{
    int32_t text[QUESTION + ANSWER], ids[MOST][LENGTH], targets[MOST][LENGTH];
    for (int64_t i = 0; i < count; i++) {
        ask(r, sums[i], text);
        memcpy(text + QUESTION, &answers[i], sizeof *answers);
        memcpy(ids[i], text, sizeof *ids);
        int end = QUESTION - 1 + answer_length(&answers[i]);
        for (int k = 0; k < LENGTH; k++) {
            targets[i][k] = k >= QUESTION - 1 && k < end ? text[k + 1] : NO_TARGET;
        }
    }
    return (chats){tg_constant_i32(r->tape, TG_SHAPE(count, LENGTH), ids[0]),
                   tg_constant_i32(r->tape, TG_SHAPE(count, LENGTH), targets[0])};
}

tg_tensor *log_probs_of(recipe *r, const decoder *d, const chats *c)
{
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.reduction = TG_REDUCTION_NONE;
    return tg_neg(r->tape,
                  tg_cross_entropy(r->tape, tg_gpt_forward(r->tape, d->model, c->ids, NULL), c->targets, &config));
}

tg_tensor *reference_log_probs(recipe *r, const decoder *reference, const decoder *d, const chats *c)
{
    if (!decoder_has_tokens_of(reference, d)) {
        exit(program_end(1));
    }
    tg_evaluation before = tg_evaluation_begin(r->tape);
    tg_tensor *log_probs = log_probs_of(r, reference, c);
    tg_evaluation_end(r->tape, before);
    return log_probs;
}

/* ---- answers ---- */

static bool goes_on(void *context, int64_t text, int32_t id)
{
    (void)context;
    (void)text;
    return id != END;
}

void answer_sums(recipe *r, const decoder *d, const sum *sums, int64_t count, bool greedy, answer *answers,
                 double *log_probs)
{
    int32_t questions[MOST * QUESTION];
    int64_t lengths[MOST], new_counts[MOST];
    for (int64_t i = 0; i < count; i++) {
        ask(r, sums[i], questions + i * QUESTION);
        lengths[i] = QUESTION;
        answers[i] = (answer){{END, END, END}};
    }
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = ANSWER;
    config.sample.greedy = greedy;
    config.on_token = goes_on;
    config.log_probs = log_probs;
    tg_gpt_generate_batch(r->tape, d->model, questions, lengths, count, answers[0].ids, new_counts, &config);
    recipe_check(r);
}

int count_right(recipe *r, const decoder *d, int digits)
{
    sum sums[SUMS];
    answer answers[SUMS];
    int right = 0;
    for (int i = 0; i < SUMS; i++) {
        sums[i] = (sum){i / 10, i % 10};
    }
    answer_sums(r, d, sums, SUMS, true, answers, NULL);
    for (int i = 0; i < SUMS; i++) {
        right += is_right(sums[i], &answers[i], digits);
    }
    return right;
}

/* ---- training ---- */

tg_tensor *group_advantages(tg_tape *t, tg_tensor *rewards)
{
    tg_tensor *spread = tg_std(t, rewards, TG_AXES(1), 1, TG_KEEP_AXES);
    tg_tensor *difference = tg_sub(t, rewards, tg_mean(t, rewards, TG_AXES(1), TG_KEEP_AXES));
    return tg_div(t, difference, tg_add_scalar(t, spread, 1e-4));
}

void train_by_adam(recipe *r, const decoder *d, double lr)
{
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = lr;
    tg_optim_free(r->optim);
    r->optim = tg_adamw_new(d->params, &config);
}

void step_down(recipe *r, const decoder *d, tg_tensor *loss)
{
    tg_optim_zero_grad(r->optim);
    tg_backward(r->tape, loss, NULL);
    tg_clip_grad_norm(d->params, 1);
    tg_optim_step(r->optim);
    recipe_check(r);
}

void train_on_answers(recipe *r, const decoder *d, int steps, double two_digits)
{
    enum { BATCH = 32 };
    sum sums[BATCH];
    answer answers[BATCH];
    train_by_adam(r, d, 0.003);
    for (int step = 0; step < steps; step++) {
        tg_tape_reset(r->tape);
        draw_sums(r, sums, BATCH);
        tg_tensor *draws = tg_full(r->tape, TG_F64, TG_SHAPE(BATCH), 0);
        tg_tensor_fill_uniform(draws, tg_run_rng(r->run), 0, 1, &r->error);
        for (int i = 0; i < BATCH; i++) {
            answers[i] = answer_of(sums[i].a + sums[i].b, tg_tensor_value_at(draws, i) < two_digits ? 2 : 1);
        }
        chats c = chats_make(r, sums, answers, BATCH);
        tg_tensor *logits = tg_gpt_forward(r->tape, d->model, c.ids, NULL);
        step_down(r, d, tg_cross_entropy(r->tape, logits, c.targets, NULL));
    }
}
