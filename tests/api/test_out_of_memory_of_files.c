/* Functions that read or write a file, with options, views and all dtypes, with allocation k failing, for every k,
 * alone or with all later ones. A call that fails reports MEMORY in one whole message, leaks nothing and leaves no
 * file. The same call then succeeds, with the bits of a call that never failed. */
#include "support.h"

#include <stdio.h>
#include <string.h>

static const char text[] = "the cat sat on the mat and the cat sat on the hat, it's 1899 <|endoftext|> na\xc3\xafve";
static const char path[] = "out_of_memory_of_files", result[] = "out_of_memory_of_files_2";

/* What the calls work on: a tensor, a permuted view of it, tensors of the other dtypes, texts and tables. */
static tg_tensor *x, *permuted, *doubles, *ids, *bytes;
static tg_tape *tape, *run_tape; /* run_tape is that of the run */
static tg_run *run;
static tg_tokenizer *tokenizer;
static tg_words *words;
static tg_csv *csv;

static uint64_t bits; /* a hash of what the call has computed */

static void add_bits(const void *from, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bits = (bits ^ ((const unsigned char *)from)[i]) * UINT64_C(1099511628211);
    }
}

static void add_text(const char *from)
{
    add_bits(from, from ? strlen(from) : 0);
}

static bool finish_tensor(tg_tensor *y)
{
    for (int64_t i = 0; i < tg_tensor_count(y); i++) {
        double value = tg_tensor_value_at(y, i);
        add_bits(&value, sizeof value);
    }
    tg_release(y);
    return y;
}

/* Adds the bytes of the file that a call has written. */
static bool finish_file(bool is_written)
{
    FILE *file = fopen(result, "rb");
    for (int c; file && is_written && (c = fgetc(file)) != EOF;) {
        add_bits(&(char){(char)c}, 1);
    }
    if (file) {
        fclose(file);
    }
    return is_written;
}

/* ---- arrays ---- */

static void prepare_npy(void)
{
    assert_true(tg_tensor_save_npy(doubles, path, NULL));
}

/* Big-endian values, the first axis fastest: they are converted, and copied in the other order. */
static void prepare_fortran(void)
{
    static const char header[] = "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 2), }\n";
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fprintf(file, "\x93NUMPY\x01%c%c%c%s", 0, (int)sizeof header - 1, 0, header);
    assert_int_equal(fwrite("\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0\x40\x80\0\0", 1, 16, file), 16);
    assert_int_equal(fclose(file), 0);
}

static bool read_npy(tg_error *error)
{
    return finish_tensor(tg_tensor_new_from_npy(path, error));
}

static bool save_npy(tg_error *error)
{
    return finish_file(tg_tensor_save_npy(permuted, result, error));
}

static bool make_rows(tg_error *error)
{
    remove(result);
    tg_row_file *file = tg_row_file_new(result, 5, 3, NULL, error);
    tg_row_file_free(file);
    return finish_file(file);
}

static void prepare_rows(void)
{
    remove(path);
    tg_row_file_free(tg_row_file_new(path, 5, 3, NULL, NULL));
}

/* With a learning rate of 0 the values stay as they are. */
static bool train_rows(tg_error *error)
{
    tg_row_file *file = tg_row_file_open(path, 5, 3, error);
    tg_tensor *rows = file ? tg_row_file_lookup(run_tape, file, ids) : NULL;
    bool is_done = rows && tg_backward(run_tape, tg_sum(run_tape, rows, TG_ALL_AXES, TG_DROP_AXES), NULL);
    for (int64_t i = 0; i < tg_tensor_count(rows); i++) {
        double value = tg_tensor_value_at(rows, i);
        add_bits(&value, sizeof value);
    }
    is_done = file && tg_row_file_step(file, 0, error) && is_done;
    tg_error_copy(error, tg_run_error(run));
    tg_run_clear_error(run);
    tg_tape_reset(run_tape);
    tg_row_file_free(file);
    return is_done;
}

static bool save_list(const char *to, tg_error *error)
{
    const tg_named_tensor list[] = {{"floats", permuted, NULL}, {"halves", permuted, "F16"}, {"bf16", x, "BF16"},
                                    {"doubles", doubles, NULL}, {"ids", ids, "I64"},         {"bools", bytes, "BOOL"}};
    return tg_safetensors_save(to, list, sizeof list / sizeof *list, error);
}

static void prepare_list(void)
{
    assert_true(save_list(path, NULL));
}

static bool save_safetensors(tg_error *error)
{
    return finish_file(save_list(result, error));
}

static bool list_tensors(tg_error *error)
{
    tg_safetensors_list *list = tg_safetensors_list_new(path, error);
    for (int64_t i = 0; list && i < list->count; i++) {
        add_text(list->items[i].name);
    }
    tg_safetensors_list_free(list);
    return list;
}

static bool read_halves(tg_error *error)
{
    return finish_tensor(tg_tensor_new_from_safetensors(path, "halves", error));
}

static bool read_integers(tg_error *error)
{
    return finish_tensor(tg_tensor_new_from_safetensors(path, "ids", error));
}

/* ---- tables ---- */

static tg_csv *open_path(tg_error *error)
{
    tg_csv_config config = tg_csv_config_default();
    config.separator = ';';
    config.loose_quotes = true;
    return tg_csv_open(path, &config, error);
}

static void prepare_csv(void)
{
    FILE *file = fopen(path, "wb");
    assert_true(file && fputs("x;y;label\n1;2;a\n3;;b\n5;6;\"a\" \n", file) >= 0 && fclose(file) == 0);
    csv = open_path(NULL);
    assert_int_equal(tg_csv_rows(csv), 3);
}

static bool open_csv(tg_error *error)
{
    tg_csv *opened = open_path(error);
    for (int i = 0; i < tg_csv_columns(opened); i++) {
        add_text(tg_csv_field(opened, 2, i));
    }
    tg_csv_free(opened);
    return opened;
}

static bool read_numbers(tg_error *error)
{
    return finish_tensor(tg_csv_new_numbers(csv, (const int[]){1, 0}, 2, TG_F64, error));
}

static bool read_categories(tg_error *error)
{
    int64_t rows[3] = {-1, -1, -1}, count = -1;
    tg_tensor *y = tg_csv_new_categories(csv, 2, rows, &count, error);
    assert_true(y || (rows[0] == -1 && count == -1));
    add_bits(rows, sizeof rows);
    return finish_tensor(y);
}

static bool read_known_categories(tg_error *error)
{
    return finish_tensor(tg_csv_new_known_categories(csv, 2, csv, 2, error));
}

/* ---- vocabularies ---- */

static void prepare_json(void)
{
    assert_true(tg_tokenizer_save(tokenizer, path, TG_VOCABULARY_JSON, NULL));
}

static void prepare_ranks(void)
{
    assert_true(tg_tokenizer_save(tokenizer, path, TG_VOCABULARY_RANKS, NULL));
}

static bool finish_tokenizer(tg_tokenizer *z)
{
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(z); id++) {
        size_t length;
        const char *token = tg_tokenizer_bytes(z, id, &length);
        add_bits(token, length);
    }
    tg_tokenizer_free(z);
    return z;
}

static bool open_tokenizer(tg_error *error)
{
    return finish_tokenizer(tg_tokenizer_open(path, NULL, error));
}

static bool save_json(tg_error *error)
{
    return finish_file(tg_tokenizer_save(tokenizer, result, TG_VOCABULARY_JSON, error));
}

static bool save_ranks(tg_error *error)
{
    return finish_file(tg_tokenizer_save(tokenizer, result, TG_VOCABULARY_RANKS, error));
}

static bool copy_tokenizer(tg_error *error)
{
    size_t length;
    char *written = tg_tokenizer_text(tokenizer, &length, error);
    tg_tokenizer *z = written ? tg_tokenizer_new_from_text(written, length, error) : NULL;
    tg_text_free(written);
    return finish_tokenizer(z);
}

static void prepare_vectors(void)
{
    assert_true(tg_words_save_vectors(words, permuted, path, TG_VECTORS_BINARY, NULL));
}

static bool save_vectors(tg_error *error)
{
    return finish_file(tg_words_save_vectors(words, permuted, result, TG_VECTORS_BINARY, error));
}

static bool open_vectors(tg_error *error)
{
    tg_tensor *vectors;
    tg_words *opened = tg_words_open_vectors(path, TG_VECTORS_BINARY, &vectors, error);
    assert_true(opened || !vectors);
    add_text(tg_words_at(opened, 1));
    tg_words_free(opened);
    return finish_tensor(vectors) && opened;
}

/* Writes a model of the first words whose tables are views. */
static bool write_subwords(const char *to, tg_error *error)
{
    tg_subwords_config config = tg_subwords_config_default();
    config.longest = config.buckets = 0;
    tg_subwords *subwords = tg_subwords_new(words, (const int64_t[]){4, 3, 2, 1}, 4, &config, error);
    bool is_saved = subwords && tg_subwords_save(subwords, permuted, permuted, to, error);
    tg_subwords_free(subwords);
    return is_saved;
}

static void prepare_subwords(void)
{
    assert_true(write_subwords(path, NULL));
}

static bool save_subwords(tg_error *error)
{
    return finish_file(write_subwords(result, error));
}

static bool open_subwords(tg_error *error)
{
    tg_tensor *table, *contexts;
    tg_subwords *subwords = tg_subwords_open(path, &table, &contexts, error);
    assert_true(subwords || (!table && !contexts));
    add_text(tg_words_at(tg_subwords_words(subwords), 1));
    tg_subwords_free(subwords);
    return finish_tensor(table) && finish_tensor(contexts) && subwords;
}

/* ---- the sweep ---- */

static const struct {
    const char *name;
    bool (*call)(tg_error *error);
    void (*prepare)(void); /* writes the file `path` */
} sweeps[] = {
    {"tg_tensor_new_from_npy", read_npy, prepare_npy},
    {"tg_tensor_new_from_npy", read_npy, prepare_fortran},
    {"tg_tensor_save_npy", save_npy, NULL},
    {"tg_row_file_new", make_rows, NULL},
    {"tg_row_file_lookup", train_rows, prepare_rows},
    {"tg_safetensors_save", save_safetensors, NULL},
    {"tg_safetensors_list_new", list_tensors, prepare_list},
    {"tg_tensor_new_from_safetensors", read_halves, prepare_list},
    {"tg_tensor_new_from_safetensors", read_integers, prepare_list},
    {"tg_csv_open", open_csv, prepare_csv},
    {"tg_csv_new_numbers", read_numbers, prepare_csv},
    {"tg_csv_new_categories", read_categories, prepare_csv},
    {"tg_csv_new_known_categories", read_known_categories, prepare_csv},
    {"tg_tokenizer_open", open_tokenizer, prepare_json},
    {"tg_tokenizer_open", open_tokenizer, prepare_ranks},
    {"tg_tokenizer_save", save_json, NULL},
    {"tg_tokenizer_save", save_ranks, NULL},
    {"tg_tokenizer_text", copy_tokenizer, NULL},
    {"tg_words_open_vectors", open_vectors, prepare_vectors},
    {"tg_words_save_vectors", save_vectors, NULL},
    {"tg_subwords_open", open_subwords, prepare_subwords},
    {"tg_subwords_save", save_subwords, NULL},
};

static counting_allocator counting;

static bool call(size_t i, tg_error *error, uint64_t *found)
{
    bits = UINT64_C(14695981039346656037);
    bool is_done = sweeps[i].call(error);
    *found = bits;
    return is_done;
}

/* Runs call number i with allocation k failing. Returns whether it came to that allocation. */
static bool fails_at(size_t i, size_t k, bool later, uint64_t expected)
{
    tg_error error = TG_NO_ERROR;
    uint64_t found;
    size_t live = counting.live;
    remove(result);
    allocator_arm(&counting, k, later);
    bool is_done = call(i, &error, &found), was_reached = counting.calls >= k;
    allocator_arm(&counting, 0, false);
    assert_int_equal(counting.live, live);
    if (!is_done) {
        assert_null(fopen(result, "rb"));
        /* a message is "call: ..." */
        if (!was_reached || error.code != TG_ERROR_MEMORY || error.text[strcspn(error.text, " ") - 1] != ':' ||
            strstr(error.text, "(null)")) {
            fail_msg("%s, allocation %zu: code %d, \"%s\"", sweeps[i].name, k, (int)error.code, error.text);
        }
        tg_error_clear(&error);
        is_done = call(i, &error, &found);
    }
    if (!is_done || found != expected) {
        fail_msg("%s, allocation %zu: the second call fails or gives other bits: %s", sweeps[i].name, k, error.text);
    }
    return was_reached;
}

static void test_sweeps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        uint64_t expected;
        if (sweeps[i].prepare) {
            sweeps[i].prepare();
        }
        assert_true(call(i, NULL, &expected));
        for (int later = 0; later < 2; later++) {
            size_t k = 1;
            while (fails_at(i, k, later, expected)) {
                k++;
            }
            if (k == 1) {
                fail_msg("%s allocates nothing", sweeps[i].name);
            }
        }
        tg_csv_free(csv);
        csv = NULL;
    }
    remove(path);
    remove(result);
}

int main(void)
{
    allocator_install(&counting);
    tape = tg_tape_new(NULL, NULL);
    run = tg_run_new(1);
    run_tape = tg_tape_new(run, NULL);
    x = tensor_f32(TG_SHAPE(3, 4), (float[12]){1, 2, -1, 0.5F, 3});
    permuted = tg_transpose(tape, x, 0, 1);
    doubles = tensor_f64(TG_SHAPE(2), (double[]){1, -2});
    ids = tensor_i32(TG_SHAPE(3), (int32_t[]){1, 2, 0});
    bytes = tg_tensor_new_full(TG_U8, TG_SHAPE(3), 2, NULL);
    tokenizer = tg_tokenizer_train(text, strlen(text), 262, NULL);
    words = tg_words_new(text, strlen(text), NULL, NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweeps)};
    int failed = cmocka_run_group_tests_name("out_of_memory_of_files", tests, NULL, NULL);
    tg_words_free(words);
    tg_tokenizer_free(tokenizer);
    tg_tensor *made[] = {x, doubles, ids, bytes};
    for (int i = 0; i < 4; i++) {
        tg_release(made[i]);
    }
    tg_tape_free(tape);
    tg_tape_free(run_tape);
    tg_run_free(run);
    allocator_restore();
    return failed;
}
