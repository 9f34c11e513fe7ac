/* Published folders: tests/goldens/published.txt has models of all families, as transformers computes them in f64, and
 * the formula of their weights (tests/goldens/make_published.py). The test writes their folders, opens them in f32 and
 * f64, and compares logits, losses, gradients and greedy tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

enum { MOST_CASES = 30, MOST_TENSORS = 80, MOST_VALUES = 400, PROMPTS = 3, TOKENS = 50, NAME = 120, LINE = 4000 };

typedef struct list {
    int64_t count;
    double values[MOST_VALUES];
} list;

/* A tensor of the files; the norm of its gradient, and two sums. */
typedef struct weight {
    char name[NAME];
    int exponent;
    double offset;
    tg_shape shape;
    double norm, sums[2];
} weight;

typedef struct golden {
    char name[NAME], dtype[NAME], config[LINE];
    int files, tensors;
    weight weights[MOST_TENSORS];
    list ids, targets, loss, last, sums, prompts[PROMPTS], next[PROMPTS];
} golden;

static char folder[] = "published.XXXXXX";

/* ---- the formula ---- */

/* Writes `count` numbers in [-64,64): the upper bits of a hash of the name (FNV-1a) plus multiples of the golden ratio,
 * mixed as at the end of MurmurHash3. */
static void draw(const char *name, int64_t count, int *numbers)
{
    uint32_t seed = 0x811c9dc5;
    for (; *name; name++) {
        seed = (seed ^ (unsigned char)*name) * 0x01000193;
    }
    for (int64_t i = 0; i < count; i++) {
        uint32_t x = seed + (uint32_t)i * 0x9e3779b9;
        x = (x ^ x >> 16) * 0x85ebca6b;
        x = (x ^ x >> 13) * 0xc2b2ae35;
        numbers[i] = (int)((x ^ x >> 16) >> 25) - 64;
    }
}

/* Returns the sum of values[i] n_i / 64, with the numbers n of the name. */
static double sum_of(const char *name, const tg_tensor *x, int64_t first, int64_t count)
{
    int *numbers = malloc((size_t)count * sizeof *numbers);
    double sum = 0;
    draw(name, count, numbers);
    for (int64_t i = 0; i < count; i++) {
        sum += tg_tensor_value_at(x, first + i) * numbers[i] / 64;
    }
    free(numbers);
    return sum;
}

/* ---- the golden file ---- */

static void read_list(FILE *file, list *l)
{
    long long count;
    assert_int_equal(fscanf(file, "%lld", &count), 1);
    assert_true(count <= MOST_VALUES);
    l->count = count;
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(fscanf(file, "%lf", &l->values[i]), 1);
    }
}

static void read_weight(FILE *file, weight *w)
{
    assert_int_equal(fscanf(file, "%119s %d %lf %d", w->name, &w->exponent, &w->offset, &w->shape.rank), 4);
    for (int axis = 0; axis < w->shape.rank; axis++) {
        long long size;
        assert_int_equal(fscanf(file, "%lld", &size), 1);
        w->shape.size[axis] = size;
    }
    assert_int_equal(fscanf(file, "%lf %lf %lf", &w->norm, &w->sums[0], &w->sums[1]), 3);
}

/* Reads the next case. Returns false at the end of the file. */
static bool read_golden(FILE *file, golden *g)
{
    char key[NAME];
    int prompts = 0;
    memset(g, 0, sizeof *g);
    while (fscanf(file, "%119s", key) == 1 && strcmp(key, "end") != 0) {
        const struct {
            const char *key;
            list *list;
        } lists[] = {{"ids", &g->ids},
                     {"targets", &g->targets},
                     {"loss", &g->loss},
                     {"last", &g->last},
                     {"sums", &g->sums},
                     {"prompt", &g->prompts[prompts % PROMPTS]},
                     {"next", &g->next[prompts % PROMPTS]}};
        if (strcmp(key, "case") == 0) {
            assert_int_equal(fscanf(file, "%119s %119s %d", g->name, g->dtype, &g->files), 3);
        } else if (strcmp(key, "config") == 0) {
            assert_non_null(fgets(g->config, sizeof g->config, file));
        } else if (strcmp(key, "tensor") == 0) {
            assert_true(g->tensors < MOST_TENSORS);
            read_weight(file, &g->weights[g->tensors++]);
        } else {
            size_t i = 0;
            while (i < sizeof lists / sizeof *lists && strcmp(key, lists[i].key) != 0) {
                i++;
            }
            assert_true(i < sizeof lists / sizeof *lists);
            read_list(file, lists[i].list);
            prompts += strcmp(key, "next") == 0;
        }
    }
    return g->tensors > 0;
}

/* ---- the folder ---- */

static const char *in_folder(const char *name)
{
    static char path[2 * NAME];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The name of file number i of the model. */
static const char *name_of_file(const golden *g, int i)
{
    static char name[NAME];
    snprintf(name, sizeof name, g->files == 1 ? "model.safetensors" : "model-%05d-of-%05d.safetensors", i + 1,
             g->files);
    return name;
}

/* Writes one of the files of a model, and its lines of the index. */
static void write_file(const golden *g, int file, char *index)
{
    tg_named_tensor tensors[MOST_TENSORS];
    int count = 0;
    for (int i = file; i < g->tensors; i += g->files) {
        const weight *w = &g->weights[i];
        tg_tensor *x = tg_tensor_new(TG_F32, w->shape, NULL);
        int64_t values = tg_tensor_count(x);
        int *numbers = malloc((size_t)values * sizeof *numbers);
        draw(w->name, values, numbers);
        for (int64_t k = 0; k < values; k++) {
            ((float *)tg_tensor_data_mut(x))[k] = (float)(w->offset + ldexp(numbers[k], -w->exponent));
        }
        free(numbers);
        tensors[count++] = (tg_named_tensor){w->name, x, strcmp(g->dtype, "F32") == 0 ? NULL : g->dtype};
        sprintf(index + strlen(index), "%s\"%s\": \"%s\"", *index ? ", " : "", w->name, name_of_file(g, file));
    }
    tg_error error = TG_NO_ERROR;
    assert_true(tg_safetensors_save(in_folder(name_of_file(g, file)), tensors, count, &error));
    for (int i = 0; i < count; i++) {
        tg_release((tg_tensor *)tensors[i].tensor);
    }
}

static void write_folder(const golden *g)
{
    static char names[MOST_TENSORS * 2 * NAME], index[sizeof names + 100];
    *names = '\0';
    remove(in_folder("model.safetensors.index.json")); /* of a test that failed */
    for (int i = 0; i < g->files; i++) {
        write_file(g, i, names);
    }
    snprintf(index, sizeof index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {%s}}", names);
    write_text("config.json", g->config);
    if (g->files > 1) {
        write_text("model.safetensors.index.json", index);
    }
}

static void remove_folder(const golden *g)
{
    for (int i = 0; i < g->files; i++) {
        remove(in_folder(name_of_file(g, i)));
    }
    remove(in_folder("config.json"));
    remove(in_folder("model.safetensors.index.json"));
}

/* ---- what the model computes ---- */

static tg_tensor *ids_of(const list *l)
{
    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(2, l->count / 2), NULL);
    for (int64_t i = 0; i < l->count; i++) {
        ((int32_t *)tg_tensor_data_mut(ids))[i] = (int32_t)l->values[i];
    }
    return ids;
}

/* Asserts that a number is near an expected one. The message has the case and the figure. */
static void assert_near(const golden *g, const char *what, double value, double expected, double limit)
{
    if (!(fabs(value - expected) <= limit)) {
        fail_msg("%s: %s is %.9g instead of %.9g; the limit is %.2g", g->name, what, value, expected, limit);
    }
}

static void assert_logits(const golden *g, const tg_tensor *logits, double limit)
{
    int64_t positions = tg_tensor_size(logits, 1), vocabulary = tg_tensor_size(logits, 2);
    assert_true(g->last.count == 2 * vocabulary && g->sums.count == 2 * positions);
    for (int64_t i = 0; i < 2 * positions; i++) {
        /* the values of n / 64 have a mean square of 1/3 */
        double of_sum = limit * sqrt((double)vocabulary);
        assert_near(g, "a sum of logits", sum_of("one", logits, i * vocabulary, vocabulary), g->sums.values[i], of_sum);
    }
    for (int64_t i = 0; i < 2 * vocabulary; i++) {
        int64_t at = (i / vocabulary * positions + positions - 1) * vocabulary + i % vocabulary;
        assert_near(g, "a logit", tg_tensor_value_at(logits, at), g->last.values[i], limit);
    }
}

/* Writes the gradients in the place of the parameters, and saves them: so they have the names of the files. */
static void assert_gradients(const golden *g, tg_gpt *model, tg_params *params, double limit)
{
    tg_error error = TG_NO_ERROR;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *x = tg_params_at(params, i).tensor, *gradient = tg_tensor_new_dense_grad(x, &error);
        assert_true(gradient && tg_tensor_copy_from(x, gradient, &error));
        tg_release(gradient);
    }
    remove_folder(g);
    assert_true(tg_gpt_save(model, folder, NULL, &error));
    for (int i = 0; i < g->tensors; i++) {
        const weight *w = &g->weights[i];
        tg_tensor *x = tg_tensor_new_from_safetensors(in_folder("model.safetensors"), w->name, &error);
        assert_string_equal(error.text, "");
        assert_true(tg_shape_equal(tg_tensor_shape(x), w->shape));
        double squares = 0;
        for (int64_t k = 0; k < tg_tensor_count(x); k++) {
            squares += tg_tensor_value_at(x, k) * tg_tensor_value_at(x, k);
        }
        assert_near(g, w->name, sqrt(squares), w->norm, limit * w->norm);
        assert_near(g, w->name, sum_of("one", x, 0, tg_tensor_count(x)), w->sums[0], limit * w->norm);
        assert_near(g, w->name, sum_of("two", x, 0, tg_tensor_count(x)), w->sums[1], limit * w->norm);
        tg_release(x);
    }
    remove(in_folder("model.safetensors"));
}

static void assert_tokens(const golden *g, const char *what, int prompt, const int32_t *ids, int64_t count)
{
    assert_int_equal(count, TOKENS);
    for (int64_t i = 0; i < TOKENS; i++) {
        assert_near(g, what, ids[i], g->next[prompt].values[i], 0);
    }
}

static void assert_generated(const golden *g, tg_tape *t, const tg_gpt *model)
{
    tg_generate_config config = tg_generate_config_default();
    int32_t all[PROMPTS * MOST_VALUES], ids[PROMPTS * TOKENS];
    int64_t counts[PROMPTS], new_counts[PROMPTS], first = 0;
    config.max_new_tokens = TOKENS;
    for (int i = 0; i < PROMPTS; i++) {
        counts[i] = g->prompts[i].count;
        for (int64_t k = 0; k < counts[i]; k++) {
            all[first + k] = (int32_t)g->prompts[i].values[k];
        }
        for (int use_cache = 0; use_cache < 2; use_cache++) {
            config.use_cache = use_cache;
            int64_t count = tg_gpt_generate(t, model, all + first, counts[i], ids, &config);
            assert_tokens(g, use_cache ? "a token with a cache" : "a token without a cache", i, ids, count);
        }
        first += counts[i];
    }
    assert_true(tg_gpt_generate_batch(t, model, all, counts, PROMPTS, ids, new_counts, &config));
    for (int i = 0; i < PROMPTS; i++) {
        assert_tokens(g, "a token of several texts", i, ids + i * TOKENS, new_counts[i]);
    }
}

static void assert_model(const golden *g, tg_dtype dtype)
{
    double limit = dtype == TG_F32 ? 2e-5 : 1e-9, of_gradients = dtype == TG_F32 ? 1e-4 : 1e-9;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, dtype);
    write_folder(g);
    tg_gpt *model = tg_gpt_open(params, folder, NULL);
    assert_string_equal(tg_params_error(params)->text, "");
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tape_set_training(t, false);
    tg_tensor *ids = ids_of(&g->ids), *targets = ids_of(&g->targets);
    assert_logits(g, tg_gpt_forward(t, model, ids, NULL), limit);
    tg_tape_reset(t);
    assert_generated(g, t, model);
    tg_tape_reset(t);
    tg_tensor *loss = tg_gpt_loss(t, model, ids, targets, NULL);
    assert_near(g, "the loss", tg_tensor_item(loss, NULL), g->loss.values[0], limit / 20 * g->loss.values[0]);
    assert_true(tg_backward(t, loss, NULL));
    assert_gradients(g, model, params, of_gradients);
    assert_string_equal(tg_tape_error(t)->text, "");
    remove_folder(g);
    tg_release(ids);
    tg_release(targets);
    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
}

static void test_f32(void **state)
{
    assert_model(*state, TG_F32);
}

static void test_f64(void **state)
{
    assert_model(*state, TG_F64);
}

static int begin(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    static struct CMUnitTest tests[2 * MOST_CASES];
    static golden cases[MOST_CASES];
    FILE *file = fopen(TG_TEST_GOLDENS "/published.txt", "r");
    int count = 0;
    assert_non_null(file);
    for (golden *g = cases; count < MOST_CASES && read_golden(file, g); g++) {
        tests[2 * count] = (struct CMUnitTest){g->name, test_f32, NULL, NULL, g};
        tests[2 * count++ + 1] = (struct CMUnitTest){g->name, test_f64, NULL, NULL, g};
    }
    fclose(file);
    return _cmocka_run_group_tests("published", tests, 2 * (size_t)count, begin, end);
}
