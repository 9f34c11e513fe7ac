/* Files of vocabularies and texts as other programs write them: this library accepts what the reference reader accepts,
 * with the same ids, and refuses what it refuses, except for the differences that are listed here. The variants and the
 * verdicts are in tests/goldens/data/vocabulary/variants.txt; make_vocabulary_variants.py describes the lines. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER TG_TEST_GOLDENS "/data/vocabulary/"

static const char path[] = "test_variants.txt", ids_path[] = "test_variants.bin";

/* The rows whose verdict or ids are not the reference's, and why. */
static const struct {
    const char *names, *why;
} differences[] = {
    {" merges:blank_last_line merges:blank_last_lines_crlf ", "OpenAI's reader accepts them"},
    {" merges:version_in_the_middle ", "a merge may begin with \"#version:\""},
    {" merges:cr merges:empty ", "a file without merges, or with all of them in a comment, is damaged"},
    {" merges:twice json:merge_twice ids:name_twice json:vocab_name_twice json:member_twice ranks:line_twice "
     "words:twice ",
     "of two ranks or ids one would be lost"},
    {" ids:null ids:text ids:above_32_bits ids:gap ids:same_id ids:empty_name json:vocab_gap ",
     "a model has one row per id, so ids are 0, 1, 2, ..."},
    {" json:added_id json:added_id_of_another json:added_empty json:added_twice ",
     "an added token has the id of the file, or none"},
    {" ids:byte_missing ids:not_of_bytes json:vocab_not_of_bytes ", "all texts can be encoded, and all ids decoded"},
    {" json:added_unknown_member json:model_unknown_member json:dropout_0 ", "it could give other ids"},
    {" json:no_trim_offsets ", "its default is known"},
    {" json:merge_mixed ", "both forms are known"},
    {" ranks:bom ranks:cr ranks:plus ranks:zero_before ranks:underscore ranks:bits_behind ranks:not_base64 ",
     "Python's int and b64decode read over what is no digit of a rank or a token"},
    {" words:bom ", "a byte order mark is no part of a word"},
    {" words:cr words:blank_line_in_the_middle words:space_before words:space_inside words:nul ",
     "no text has such a word"},
};

/* Reads the next field of a line into `text`, undoing \xNN. Returns its length. */
static size_t read_field(const char **at, char *text)
{
    size_t length = 0;
    const char *field = *at;
    for (; **at != ' ' && **at != '\n'; (*at)++) {
        unsigned byte = (unsigned char)**at;
        if (byte == '\\') {
            assert_int_equal(sscanf(*at + 2, "%2x", &byte), 1);
            *at += 3;
        }
        text[length++] = (char)byte;
    }
    length = *at == field + 1 && *field == '-' ? 0 : length;
    text[length] = '\0';
    *at += **at == ' ';
    return length;
}

/* Edits the text. Returns its length. */
static size_t edit(char *text, size_t length, const char *where, const char *find, size_t find_length, const char *by,
                   size_t by_length)
{
    static char old[1 << 17];
    bool is_all = strcmp(where, "all") == 0, is_whole = strcmp(where, "whole") == 0, is_open = true;
    memcpy(old, text, length);
    find = is_whole ? old : find;
    find_length = is_whole ? length : find_length;
    size_t at = strcmp(where, "end") == 0 ? length - find_length : 0, out = at;
    while (at <= length) {
        if (is_open && find_length <= length - at && memcmp(old + at, find, find_length) == 0) {
            memcpy(text + out, by, by_length);
            out += by_length;
            at += find_length;
            is_open = is_all;
        } else if (at++ < length) {
            text[out++] = old[at - 1];
        }
    }
    return out;
}

static size_t read_file(const char *name, char *text, size_t most)
{
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    size_t length = fread(text, 1, most, file);
    fclose(file);
    return length;
}

/* Writes the ids of the row as those of the file, or returns false: with special tokens, " /", and without. */
static bool encode(const char *format, const char *probe, const char *text, size_t length, char *line)
{
    tg_error error = TG_NO_ERROR;
    bool is_text = strcmp(format, "text") == 0, is_words = strcmp(format, "words") == 0, is_good = true;
    tg_words_config words_config = tg_words_config_default();
    words_config.unknown = NULL;
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.ids = strcmp(format, "ids") == 0 ? path : strcmp(format, "merges") == 0 ? FOLDER "encoder.json" : NULL;
    const char *opened = is_text ? FOLDER "tokenizer.json" : strcmp(format, "ids") == 0 ? FOLDER "vocab.bpe" : path;
    tg_words *words = is_words ? tg_words_open(path, &words_config, &error) : NULL;
    tg_tokenizer *z = is_words ? NULL : tg_tokenizer_open(opened, &config, &error);
    for (int special = 1; is_good && special >= 0; special--) {
        tg_tokens tokens = {NULL, 0};
        is_good = words || (z && tg_tokenizer_encode(z, is_text ? text : probe, is_text ? length : strlen(probe),
                                                     special, &tokens, &error));
        for (int i = 0; is_good && i < (words ? 3 : (int)tokens.count); i++) {
            int32_t id = words ? tg_words_find(words, (const char *[]){"a", "b", "c"}[i]) : tokens.ids[i];
            line += sprintf(line, " %d", (int)id);
        }
        line += sprintf(line, special ? " /" : "\n");
        if (is_text) { /* a file of the text has the same ids */
            tg_tokenizer_encode_files_config files = tg_tokenizer_encode_files_config_default();
            files.special = special;
            int64_t count = tg_tokenizer_encode_files(z, (const char *[]){path}, 1, ids_path, 4, &files, NULL);
            assert_int_equal(count, is_good ? tokens.count : -1);
            int32_t ids[64];
            assert_true(!is_good || read_file(ids_path, (char *)ids, sizeof ids) == (size_t)count * sizeof *ids);
            assert_true(!is_good || memcmp(ids, tokens.ids, (size_t)count * sizeof *ids) == 0);
        }
        tg_tokens_free(&tokens);
    }
    assert_true(is_good || error.code == TG_ERROR_FORMAT);
    tg_words_free(words);
    tg_tokenizer_free(z);
    return is_good;
}

static bool is_listed(const char *format, const char *name)
{
    char key[100];
    snprintf(key, sizeof key, " %s:%s ", format, name);
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
        if (strstr(differences[i].names, key)) {
            return true;
        }
    }
    return false;
}

static void test_the_reference_readers_verdicts(void **state)
{
    (void)state;
    static const char *const bases[][2] = {{"merges", "vocab.bpe"},
                                           {"ids", "encoder.json"},
                                           {"json", "tokenizer_split.json"},
                                           {"ranks", "ranks.tiktoken"}};
    static char line[1 << 14], probe[256], text[1 << 17], find[1 << 12], by[1 << 13], found[1 << 12],
        unchanged[1 << 12];
    char format[16], name[64], count[8], where[8], from[256];
    FILE *file = fopen(FOLDER "variants.txt", "rb");
    assert_non_null(file);
    assert_non_null(fgets(probe, sizeof probe, file));
    probe[strcspn(probe, "\n")] = '\0';
    int rows = 0, wrong = 0;
    for (; fgets(line, sizeof line, file); rows++) {
        const char *at = line;
        size_t length = 0;
        read_field(&at, format);
        read_field(&at, name);
        read_field(&at, count);
        for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
            if (strcmp(format, bases[i][0]) == 0) {
                snprintf(from, sizeof from, FOLDER "%s", bases[i][1]);
                length = read_file(from, text, sizeof text);
            }
        }
        for (int i = atoi(count); i > 0; i--) {
            read_field(&at, where);
            size_t find_length = read_field(&at, find), by_length = read_field(&at, by);
            length = edit(text, length, where, find, find_length, by, by_length);
        }
        FILE *out = fopen(path, "wb");
        assert_true(out && fwrite(text, 1, length, out) == length && fclose(out) == 0);
        bool is_accepted = encode(format, probe, text, length, found), is_expected = strncmp(at, "yes", 3) == 0;
        if (strcmp(name, "unchanged") == 0) {
            strcpy(unchanged, at);
        }
        at = strcmp(at, "yes =\n") == 0 ? unchanged : at;
        bool is_equal = is_accepted == is_expected && (!is_accepted || strcmp(found, at + 3) == 0);
        if (is_equal == is_listed(format, name)) {
            print_message("%s %s is %s%sexpected %s", format, name, is_accepted ? "accepted" : "refused\n",
                          is_accepted ? found : "", at);
            wrong++;
        }
    }
    fclose(file);
    assert_int_equal(wrong, 0);
    assert_int_equal(rows, 181);
}

static int end(void **state)
{
    (void)state;
    remove(ids_path);
    return remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_reference_readers_verdicts)};
    return cmocka_run_group_tests_name("variants", tests, NULL, end);
}
