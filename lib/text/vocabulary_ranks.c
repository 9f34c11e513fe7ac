/* vocabulary_ranks: reads tiktoken's files of ranks, such as r50k_base.tiktoken.
 *
 * Each line is the bytes of a token in base64, white space, and its rank, which is its id. White space may also stand
 * before the token and behind the rank. Lines end in LF, or in CR and LF; empty ones are skipped. Special tokens are
 * not in the file: the config has them, or else <|endoftext|> has the smallest id that no line has. The file has no
 * merges. The merge of a token is found as in tiktoken's conversion to other formats: its bytes are encoded with the
 * merges of lower ranks, and give two tokens. A token that they do not give is found where it is a whole word, as by
 * tiktoken.
 */
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vocabulary.h"

typedef struct ranked_token {
    uint32_t at, length, line; /* the decoded bytes, in the text; and the number of the line */
    int32_t rank;
} ranked_token;

typedef struct rank_list {
    ranked_token *tokens;
    size_t count, capacity;
    int32_t *of_rank; /* the index of the token of a rank; -2 - k: special token k; -1: none */
    size_t ids;       /* its size */
    const tg_special_token *special;
    int64_t special_count;
} rank_list;

/* ---- lines ---- */

/* Returns the value of a character of base64 (RFC 4648), or -1. */
static int value_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Decodes base64 where it stands. Returns the number of bytes, or 0 if it is not base64. */
static size_t decode(char *text, size_t length)
{
    size_t padding = length > 1 && text[length - 1] == '=' ? 1 + (text[length - 2] == '=') : 0, count = 0;
    if (length % 4 != 0) {
        return 0;
    }
    for (size_t i = 0; i < length; i += 4) {
        size_t missing = i + 4 == length ? padding : 0;
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            int value = k < 4 - missing ? value_of(text[i + k]) : 0;
            if (value < 0) {
                return 0;
            }
            bits = bits << 6 | (uint32_t)value;
        }
        if ((missing == 1 && (bits & 0xff)) || (missing == 2 && (bits & 0xffff))) {
            return 0; /* bits that belong to no byte */
        }
        for (size_t k = 0; k < 3 - missing; k++) {
            text[count++] = (char)(bits >> (16 - 8 * k));
        }
    }
    return count;
}

static bool read_line(tg_vocabulary *v, rank_list *list, size_t begin, size_t end, size_t number)
{
    static const char white[] = " \t\n\v\f\r";
    char *line = v->text + begin, shown[64];
    int visible = tg_cut_bytes(line, end - begin, 60);
    memcpy(shown, line, (size_t)visible);
    line[end - begin] = '\0'; /* over the end of the line */
    bool is_text = strlen(line) == end - begin;
    line += strspn(line, white);
    size_t first = strcspn(line, white);
    const char *digits = line + first + strspn(line + first, white);
    size_t size = strspn(digits, "0123456789"), padding = strspn(digits + size, white);
    bool is_number = size > 0 && size <= 10 && (size == 1 || digits[0] != '0') && !digits[size + padding];
    int64_t rank = is_text && is_number ? strtoll(digits, NULL, 10) : INT32_MAX;
    if (rank >= INT32_MAX && list->count == 0) {
        return tg_vocabulary_fail(v, number,
                                  "\"%.*s\" is neither a merge (\"#version: 0.2\" or two bytes and one space), nor '{' "
                                  "(JSON), nor a token in base64, a space and a rank",
                                  visible, shown);
    }
    if (rank >= INT32_MAX) {
        return tg_vocabulary_fail(v, number, "\"%.*s\" is not a token in base64, a space and a rank below 2147483647",
                                  visible, shown);
    }
    int token_length = tg_cut_bytes(line, first, 60);
    memcpy(shown, line, (size_t)token_length);
    size_t count = decode(line, first);
    if (count == 0) {
        return tg_vocabulary_fail(v, number, "the token \"%.*s\" is not base64", token_length, shown);
    }
    if (count > TG_LONGEST_RANKED) {
        return tg_vocabulary_fail(v, number, "the token has %zu bytes; it must have at most %d", count,
                                  TG_LONGEST_RANKED);
    }
    if (!tg_grow(&list->tokens, &list->capacity, list->count, list->count + 1, sizeof *list->tokens)) {
        return tg_vocabulary_out_of_memory(v);
    }
    list->tokens[list->count++] =
        (ranked_token){(uint32_t)(line - v->text), (uint32_t)count, (uint32_t)number, (int32_t)rank};
    return true;
}

static bool read_lines(tg_vocabulary *v, rank_list *list)
{
    size_t number = 1;
    for (size_t begin = 0; begin < v->length; number++) {
        const char *newline = memchr(v->text + begin, '\n', v->length - begin);
        size_t end = newline ? (size_t)(newline - v->text) : v->length;
        size_t line_end = newline && end > begin && v->text[end - 1] == '\r' ? end - 1 : end;
        if (line_end > begin && !read_line(v, list, begin, line_end, number)) {
            return false;
        }
        begin = end + 1;
    }
    return list->count > 0 || tg_vocabulary_fail(v, 1, "the file has no token");
}

/* ---- tokens ---- */

/* The most ids above the ranks that special tokens may have. */
#define MOST_GAPS (1 << 16)

/* Puts the special tokens of the config at their ids, and <|endoftext|> behind the ranks if there are none. */
static bool reserve_ids(tg_vocabulary *v, rank_list *list)
{
    list->ids = list->special_count > 0 ? list->count : list->count + 1;
    for (int64_t k = 0; k < list->special_count; k++) {
        int32_t id = list->special[k].id;
        if (!list->special[k].text || !list->special[k].text[0] || id < 0 || (size_t)id > list->count + MOST_GAPS) {
            return tg_error_set(v->error, TG_ERROR_VALUE,
                                "%s: special[%lld] has the id %d and %s; ids must be in [0,%zu], and texts not empty",
                                v->call, (long long)k, id, list->special[k].text ? "a text" : "no text",
                                list->count + MOST_GAPS);
        }
        list->ids = (size_t)id >= list->ids ? (size_t)id + 1 : list->ids;
    }
    list->of_rank = tg_alloc(list->ids, sizeof *list->of_rank);
    if (!list->of_rank) {
        return tg_vocabulary_out_of_memory(v);
    }
    memset(list->of_rank, -1, list->ids * sizeof *list->of_rank);
    for (int64_t k = 0; k < list->special_count; k++) {
        if (list->of_rank[list->special[k].id] != -1) {
            return tg_error_set(v->error, TG_ERROR_VALUE, "%s: special[%lld] has the id %d, as another one", v->call,
                                (long long)k, list->special[k].id);
        }
        list->of_rank[list->special[k].id] = (int32_t)(-2 - k);
    }
    return true;
}

/* Sorts the tokens by rank. */
static bool sort(tg_vocabulary *v, rank_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const ranked_token *t = &list->tokens[i];
        if ((size_t)t->rank >= list->ids) {
            return tg_vocabulary_fail(
                v, t->line, "rank %d; the ranks of %zu tokens are at most %zu, because only %s left out", t->rank,
                list->count, list->ids - 1,
                list->special_count > 0 ? "those of special tokens are" : "that of <|endoftext|> is");
        }
        int32_t other = list->of_rank[t->rank];
        if (other < -1) {
            return tg_vocabulary_fail(v, t->line, "rank %d is the id of special[%d]", t->rank, -2 - other);
        }
        if (other >= 0) {
            return tg_vocabulary_fail(v, t->line, "rank %d was given before, in line %u", t->rank,
                                      (unsigned)list->tokens[other].line);
        }
        list->of_rank[t->rank] = (int32_t)i;
    }
    return true;
}

/* Adds the token of an id: one of the file, a special one, or none. */
static bool add_token(tg_vocabulary *v, const rank_list *list, size_t id)
{
    int32_t index = list->of_rank[id];
    if (index < 0) {
        bool is_gap = list->special_count > 0 && index == -1;
        const char *text = index < -1 ? list->special[-2 - index].text : TG_END_OF_TEXT;
        return (is_gap ? tg_names_append(&v->z->tokens, "", 0, NULL, 0) : tg_tokenizer_add_special(v->z, text)) ||
               tg_vocabulary_out_of_memory(v);
    }
    const ranked_token *t = &list->tokens[index];
    bool is_added = tg_names_append(&v->z->tokens, v->text + t->at, t->length, NULL, 0);
    int32_t same = is_added ? tg_names_enter(&v->z->tokens) : -1;
    if (same < 0) {
        return tg_vocabulary_out_of_memory(v);
    }
    return same == (int32_t)id ||
           tg_vocabulary_fail(v, t->line, "the token of rank %d is also that of rank %d", t->rank, same);
}

static bool add_tokens(tg_vocabulary *v, const rank_list *list)
{
    for (size_t id = 0; id < list->ids; id++) {
        if (!add_token(v, list, id)) {
            return false;
        }
    }
    int byte = tg_vocabulary_find_bytes(v);
    return byte < 0 || tg_error_set(v->error, TG_ERROR_FORMAT,
                                    "%s: '%s': no token is the byte 0x%02x; all 256 bytes must be tokens", v->call,
                                    v->path, (unsigned)byte);
}

/* Adds all merges of two tokens that give the token `rank`. Returns false when memory is exhausted. */
static bool add_all_merges(tg_vocabulary *v, int32_t rank)
{
    size_t length;
    const char *bytes = tg_tokenizer_token(v->z, rank, &length);
    bool is_good = true;
    for (size_t i = 1; is_good && i < length; i++) {
        int32_t left = tg_names_find(&v->z->tokens, bytes, i);
        int32_t right = tg_names_find(&v->z->tokens, bytes + i, length - i);
        is_good = left < 0 || right < 0 || tg_tokenizer_add_merge(v->z, left, right, rank);
    }
    return is_good;
}

/* Adds the merge of each token. A token that is not two tokens of lower ranks can be a whole word, or be merged from
 * tokens of higher ranks. */
static bool add_merges(tg_vocabulary *v, const rank_list *list, tg_encoder *e)
{
    bool has_words = false, is_good = true;
    for (size_t rank = 0; is_good && rank < list->ids; rank++) {
        const ranked_token *t = list->of_rank[rank] < 0 ? NULL : &list->tokens[list->of_rank[rank]];
        if (!t || t->length == 1) {
            continue;
        }
        e->id_count = 0;
        const tg_view word = {v->text + t->at, t->length, NULL, 0};
        is_good = tg_encoder_word(e, v->z, &word, INT64_MAX);
        if (is_good && e->id_count == 2) {
            is_good = tg_tokenizer_add_merge(v->z, e->ids[0], e->ids[1], t->rank);
        } else if (is_good) {
            has_words = true;
            is_good = add_all_merges(v, t->rank);
        }
    }
    v->z->model.ignores_merges = has_words;
    return is_good || tg_vocabulary_out_of_memory(v);
}

bool tg_vocabulary_read_ranks(tg_vocabulary *v, const tg_tokenizer_open_config *config)
{
    rank_list list = {.special = config->special, .special_count = config->special_count};
    tg_encoder encoder = {0};
    bool is_read = read_lines(v, &list) && reserve_ids(v, &list) && sort(v, &list) && add_tokens(v, &list) &&
                   add_merges(v, &list, &encoder);
    tg_encoder_free(&encoder);
    tg_free(encoder.ids);
    tg_free(list.tokens);
    tg_free(list.of_rank);
    return is_read;
}
