#include "course.h"

#include <string.h>

tg_gpt *course_model_new(tg_params *params)
{
    tg_gpt_config config;
    tg_gpt_config_named("gpt2-small", &config);
    config.context = 256;
    tg_gpt *model = tg_gpt_new(params, &config);
    check(tg_params_error(params));
    return model;
}

static tg_loader *loader_of(tg_tokenizer *bpe, const char *text, size_t length, bool training, tg_rng *rng)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, length, false, &tokens, &error);
    check(error.text);
    tg_loader_config config = {
        .max_length = 256, .stride = 256, .batch_size = 2, .shuffle = training, .drop_last = training};
    tg_loader *loader = tg_loader_new(tokens.ids, tokens.count, &config, rng, &error);
    check(error.text);
    tg_tokens_free(&tokens);
    return loader;
}

course_data course_data_new(const char *book, tg_tokenizer *bpe, tg_rng *rng)
{
    course_data data;
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    data.text = book_text(book, &data.length);
    tg_tokenizer_encode(bpe, data.text, data.length, false, &tokens, &error);
    check(error.text);
    data.tokens = tokens.count;
    tg_tokens_free(&tokens);
    size_t split = data.length * 9 / 10;
    data.train = loader_of(bpe, data.text, split, true, rng);
    data.train_again = loader_of(bpe, data.text, split, true, rng);
    data.validation = loader_of(bpe, data.text + split, data.length - split, false, rng);
    return data;
}

void course_data_free(course_data *data)
{
    tg_loader_free(data->train);
    tg_loader_free(data->train_again);
    tg_loader_free(data->validation);
    tg_text_free(data->text);
}

double mean_loss(tg_tape *t, const tg_gpt *model, tg_loader *loader, int64_t batches)
{
    double sum = 0;
    int64_t seen = 0;
    tg_tape_set_recording(t, false);
    tg_tape_set_training(t, false);
    for (tg_batch batch; tg_loader_next(loader, &batch);) {
        if (seen < batches) {
            tg_tape_reset(t);
            sum += tg_item(t, tg_cross_entropy(t, tg_gpt_forward(t, model, batch.inputs), batch.targets));
            seen++;
        }
    }
    check(tg_loader_error(loader));
    check(tg_tape_error(t));
    tg_tape_set_recording(t, true);
    tg_tape_set_training(t, true);
    return sum / (double)seen;
}

void print_decoded(const tg_tokenizer *bpe, const int32_t *ids, int64_t count)
{
    tg_error error = TG_NO_ERROR;
    char *text = tg_tokenizer_decode(bpe, ids, count, NULL, &error);
    check(error.text);
    for (char *c = text; *c; c++) {
        putchar(*c == '\n' ? ' ' : *c);
    }
    putchar('\n');
    tg_text_free(text);
}

void print_generated(tg_tape *t, const tg_gpt *model, tg_tokenizer *bpe, const char *start, int64_t count)
{
    int32_t text[256];
    tg_error error = TG_NO_ERROR;
    tg_tokens prompt;
    tg_tokenizer_encode(bpe, start, strlen(start), false, &prompt, &error);
    check(error.text);
    memcpy(text, prompt.ids, (size_t)prompt.count * sizeof *text);
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = count;
    int64_t made = tg_gpt_generate(t, model, prompt.ids, prompt.count, &config, text + prompt.count);
    check(tg_tape_error(t));
    print_decoded(bpe, text, prompt.count + made);
    tg_tokens_free(&prompt);
}
