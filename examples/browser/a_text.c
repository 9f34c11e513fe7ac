/* a: from text to ids. Byte-pair encoding begins with bytes, and merges pairs in the order in which training found
 * them. */
#include "station.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 120, WINDOW = 4, WINDOWS = 4, MOST_TEXT = 100000, WORD_BYTES = 40, BYTES = 256, MERGES = 400 };

static bool encode(const request *r, tg_tokenizer *bpe, tg_error *error)
{
    const char *text = r->text;
    size_t length = r->length;
    if (length > MOST_TEXT) {
        return refuse(error, "the text has %lld bytes; this page takes at most %d", (long long)length, MOST_TEXT);
    }
    /* shown: encode */
    tg_tokens tokens;
    if (!tg_tokenizer_encode(bpe, text, length, false, &tokens, error)) {
        return false;
    }
    /* end */
    json_key("count");
    json_int(tokens.count);
    json_key("bytes");
    json_int((int64_t)length);
    json_key("vocabulary");
    json_int(tg_tokenizer_vocabulary(bpe));
    json_key("tokens");
    json_open('[');
    for (int64_t i = 0; i < tokens.count && i < SHOWN; i++) {
        json_open('{');
        json_key("id");
        json_int(tokens.ids[i]);
        json_key("token");
        json_token(bpe, tokens.ids[i]);
        json_close('}');
    }
    json_close(']');
    json_key("shown");
    json_int(tokens.count < SHOWN ? tokens.count : SHOWN);
    json_key("windows");
    json_open('[');
    for (int64_t first = 0; first < WINDOWS && first + WINDOW < tokens.count; first++) {
        json_open('[');
        for (int64_t i = first; i <= first + WINDOW; i++) {
            json_int(tokens.ids[i]);
        }
        json_close(']');
    }
    json_close(']');
    int64_t windows = tokens.count > WINDOW ? tokens.count - WINDOW : 0;
    json_key("windows_count");
    json_int(windows);
    json_key("windows_shown");
    json_int(windows < WINDOWS ? windows : WINDOWS);
    tg_tokens_free(&tokens);
    return true;
}

/* ---- merges ---- */

/* The merges of the vocabulary: merge m joins left[m] and right[m] to id 256 + m. */
static int32_t left[MERGES], right[MERGES];
static int merge_count;

/* Returns the number of the character by which a file of merges writes a byte of id 0 to 255, in UTF-8. */
static int write_byte(int id, char *at)
{
    int code = id < 94 ? 33 + id : id < 106 ? 161 + id - 94 : id < 188 ? 174 + id - 106 : 256 + id - 188;
    if (code < 128) {
        at[0] = (char)code;
        return 1;
    }
    at[0] = (char)(0xc0 | code >> 6);
    at[1] = (char)(0x80 | (code & 63));
    return 2;
}

/* Reads the merges from the text of the vocabulary: lines of two symbols. Returns false if a line is not so. */
static bool read_merges(const tg_tokenizer *bpe, tg_error *error)
{
    static char symbols[BYTES + MERGES][80];
    char *text = merge_count ? NULL : tg_tokenizer_text(bpe, NULL, error);
    if (!text) {
        return merge_count > 0;
    }
    for (int id = 0; id < BYTES; id++) {
        symbols[id][write_byte(id, symbols[id])] = 0;
    }
    bool good = true;
    for (char *line = strchr(text, '\n'); good && line && line[1] && merge_count < MERGES;
         line = strchr(line + 1, '\n')) {
        char pair[2][40];
        int found[2] = {-1, -1};
        good = sscanf(line + 1, "%39s %39s", pair[0], pair[1]) == 2;
        for (int k = 0; good && k < 2; k++) {
            for (int id = 0; id < BYTES + merge_count; id++) {
                found[k] = strcmp(symbols[id], pair[k]) == 0 ? id : found[k];
            }
            good = found[k] >= 0;
        }
        if (good) {
            snprintf(symbols[BYTES + merge_count], sizeof symbols[0], "%s%s", pair[0], pair[1]);
            left[merge_count] = found[0];
            right[merge_count++] = found[1];
        }
    }
    tg_text_free(text);
    return good || refuse(error, "the vocabulary has a line that is no merge");
}

static void write_tokens(const tg_tokenizer *bpe, const int32_t *ids, int count)
{
    json_key("tokens");
    json_open('[');
    for (int i = 0; i < count; i++) {
        json_open('{');
        json_key("id");
        json_int(ids[i]);
        json_key("token");
        json_token(bpe, ids[i]);
        json_close('}');
    }
    json_close(']');
}

/* Returns the id of a single byte. */
static int32_t id_of_byte(const tg_tokenizer *bpe, char byte)
{
    for (int32_t id = 0; id < BYTES; id++) {
        if (*tg_tokenizer_bytes(bpe, id, NULL) == byte) {
            return id;
        }
    }
    return -1;
}

/* shown: merges */
/* Joins the pairs of merge m in the ids of a word, and returns how many ids are left. All merges run, in order. */
static int apply_merge(int m, int32_t *ids, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        bool joins = i + 1 < count && ids[i] == left[m] && ids[i + 1] == right[m];
        ids[kept++] = joins ? 256 + m : ids[i];
        i += joins;
    }
    return kept;
}
/* end */

/* The steps from the bytes of a word to its ids. A word of a text begins with the space before it. */
static bool merges(const request *r, tg_tokenizer *bpe, tg_error *error)
{
    char word[WORD_BYTES + 2] = " ";
    size_t begin = strspn(r->text, " \t\r\n"), length = strcspn(r->text + begin, " \t\r\n");
    if (length == 0 || length > WORD_BYTES) {
        return refuse(error, "type one word of 1 to %d bytes; this one has %lld", WORD_BYTES, (long long)length);
    }
    if (!read_merges(bpe, error)) {
        return false;
    }
    memcpy(word + 1, r->text + begin, length);
    tg_tokens whole;
    if (!tg_tokenizer_encode(bpe, word, length + 1, false, &whole, error)) {
        return false;
    }
    int32_t ids[WORD_BYTES + 1];
    int count = (int)length + 1;
    for (int i = 0; i < count; i++) {
        ids[i] = id_of_byte(bpe, word[i]);
    }
    json_key("steps");
    json_open('[');
    json_open('{');
    write_tokens(bpe, ids, count);
    json_close('}');
    for (int m = 0; m < merge_count; m++) {
        int before = count;
        count = apply_merge(m, ids, count);
        if (count < before) {
            json_open('{');
            json_key("merge");
            json_int(256 + m);
            write_tokens(bpe, ids, count);
            json_close('}');
        }
    }
    json_close(']');
    json_key("letters");
    json_int((int64_t)length);
    json_key("count");
    json_int(whole.count);
    json_key("same");
    json_bool(whole.count == count && memcmp(ids, whole.ids, (size_t)count * sizeof *ids) == 0);
    tg_tokens_free(&whole);
    return true;
}

bool station_text(const request *r, tg_error *error)
{
    tg_tokenizer *bpe = lighthouse_tokenizer(error);
    if (!bpe) {
        return false;
    }
    return strcmp(r->name, "encode") == 0   ? encode(r, bpe, error)
           : strcmp(r->name, "merges") == 0 ? merges(r, bpe, error)
                                            : refuse(error, "a.%s: unknown request", r->name);
}
