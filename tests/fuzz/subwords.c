/* The bytes as a model of fastText. What is read has tables of the documented sizes, and is saved and read again with
 * the same words, rows and values, except the bits of NaN. Each word has its own row first, and rows inside of the
 * table. */
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"

static void check_same(const tg_tensor *a, const tg_tensor *b)
{
    fuzz_require(tg_tensor_count(a) == tg_tensor_count(b), "another size");
    for (int64_t i = 0; i < tg_tensor_count(a); i++) {
        double x = tg_tensor_value_at(a, i), y = tg_tensor_value_at(b, i);
        fuzz_require(x == y || (x != x && y != y), "value %d differs", (int)i);
    }
}

static void check_word(const tg_subwords *a, const tg_subwords *b, const char *word, int32_t id)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens rows, again;
    const bool is_known = id >= 0;
    const bool is_encoded = tg_subwords_encode(a, word, &rows, &error);
    fuzz_require(is_encoded || (!is_known && error.code == TG_ERROR_RANGE), "encode: %s", error.text);
    fuzz_require(tg_subwords_encode(b, word, &again, NULL) == is_encoded, "encode again");
    fuzz_require(again.count == rows.count &&
                     (rows.count == 0 || memcmp(again.ids, rows.ids, (size_t)rows.count * 4) == 0),
                 "other rows");
    fuzz_require(!is_known || rows.ids[0] == id, "word %d begins with another row", (int)id);
    for (int64_t i = 0; i < rows.count; i++) {
        fuzz_require(rows.ids[i] >= 0 && rows.ids[i] < tg_subwords_rows(a), "row %d", (int)rows.ids[i]);
    }
    tg_tokens_free(&rows);
    tg_tokens_free(&again);
}

static void check_model(const tg_subwords *subwords, const tg_tensor *table, const tg_tensor *contexts)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *table_again, *contexts_again;
    const tg_words *words = tg_subwords_words(subwords);
    const int32_t vocabulary = tg_words_vocabulary(words);
    fuzz_require(tg_tensor_size(table, 0) == tg_subwords_rows(subwords) && tg_tensor_size(contexts, 0) == vocabulary,
                 "tables of other sizes");
    const char *path = fuzz_file("", 0);
    fuzz_require(tg_subwords_save(subwords, table, contexts, path, &error), "save: %s", error.text);
    tg_subwords *again = tg_subwords_open(path, &table_again, &contexts_again, &error);
    fuzz_require(again != NULL, "open: %s", error.text);
    check_same(table, table_again);
    check_same(contexts, contexts_again);
    for (int32_t id = 0; id < vocabulary; id++) {
        const char *word = tg_words_at(words, id);
        fuzz_require(tg_words_find(words, word) == id, "word %d has another id", (int)id);
        fuzz_require(strcmp(word, tg_words_at(tg_subwords_words(again), id)) == 0, "word %d differs", (int)id);
        check_word(subwords, again, word, id);
    }
    check_word(subwords, again, "na\xc3\xafve \xff", -1);
    tg_subwords_free(again);
    tg_release(table_again);
    tg_release(contexts_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *table, *contexts;
    fuzz_memory_begin();
    tg_subwords *subwords = tg_subwords_open(fuzz_file(bytes, size), &table, &contexts, &error);
    fuzz_require(subwords ? table && contexts : !table && !contexts && error.code == TG_ERROR_FORMAT, "open: %s",
                 error.text);
    if (subwords) {
        check_model(subwords, table, contexts);
    }
    tg_subwords_free(subwords);
    tg_release(table);
    tg_release(contexts);
    fuzz_memory_end();
    return 0;
}
