/* vocabulary_ranks: reads tiktoken's files of ranks, such as r50k_base.tiktoken.
 *
 * Each line is the bytes of a token in base64, white space, and its rank, which is its id. White space may also stand
 * before the token and behind the rank. Lines end in LF, or in CR and LF; empty ones are skipped. Special
 * tokens are not in the file: <|endoftext|> has the smallest id that no line has. The file has no merges. The merge of
 * a token is found as in tiktoken's conversion to other formats: its bytes are encoded with the merges of lower ranks,
 * and must give two tokens.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vocabulary.h"

/* The bytes of the shortest line: "QQ== 0" and a newline. */
#define SHORTEST_RANK 7

typedef struct ranked_token {
    uint32_t at, length, line; /* the decoded bytes, in the text; and the number of the line */
    int32_t rank;
} ranked_token;

typedef struct rank_list {
    ranked_token *tokens;
    size_t count;
    int32_t *of_rank; /* the index of the token of a rank; -1: none. Its size is count + 1. */
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

/* Reads a number of digits alone. Returns -1 if it is none, or larger than 2^31 - 2. */
static int32_t read_rank(const char *text, size_t length)
{
    int64_t rank = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || rank > INT32_MAX) {
            return -1;
        }
        rank = rank * 10 + (text[i] - '0');
    }
    bool is_padded = length > 1 && text[0] == '0';
    return length == 0 || is_padded || rank >= INT32_MAX ? -1 : (int32_t)rank;
}

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool read_line(tg_vocabulary *v, rank_list *list, size_t begin, size_t end, size_t number)
{
    const char *shown = v->text + begin;
    int visible = tg_cut_bytes(shown, end - begin, 60);
    while (begin < end && is_white(v->text[begin])) {
        begin++;
    }
    while (end > begin && is_white(v->text[end - 1])) {
        end--;
    }
    char *line = v->text + begin;
    size_t length = end - begin, first = 0, second;
    while (first < length && !is_white(line[first])) {
        first++;
    }
    for (second = first; second < length && is_white(line[second]); second++) {
    }
    int32_t rank = read_rank(line + second, length - second);
    if (rank < 0 && list->count == 0) {
        return tg_vocabulary_fail(v, number,
                                  "\"%.*s\" is neither a merge (\"#version: 0.2\" or two bytes and one space), nor '{' "
                                  "(JSON), nor a token in base64, a space and a rank",
                                  visible, shown);
    }
    if (rank < 0) {
        return tg_vocabulary_fail(v, number, "\"%.*s\" is not a token in base64, a space and a rank below 2147483647",
                                  visible, shown);
    }
    char token[64];
    int token_length = tg_cut_bytes(line, first, 60);
    memcpy(token, line, (size_t)token_length);
    size_t count = decode(line, first);
    if (count == 0) {
        return tg_vocabulary_fail(v, number, "the token \"%.*s\" is not base64", token_length, token);
    }
    if (count > TG_LONGEST_RANKED) {
        return tg_vocabulary_fail(v, number, "the token has %zu bytes; it must have at most %d", count,
                                  TG_LONGEST_RANKED);
    }
    list->tokens[list->count++] = (ranked_token){(uint32_t)begin, (uint32_t)count, (uint32_t)number, rank};
    return true;
}

static bool read_lines(tg_vocabulary *v, rank_list *list)
{
    size_t lines = 1;
    for (size_t i = 0; i < v->length; i++) {
        lines += v->text[i] == '\n';
    }
    size_t most = v->length / SHORTEST_RANK + 1;
    list->tokens = tg_alloc(lines < most ? lines : most, sizeof *list->tokens);
    if (!list->tokens) {
        return tg_vocabulary_out_of_memory(v);
    }
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

/* Sorts the tokens by rank. */
static bool sort(tg_vocabulary *v, rank_list *list)
{
    list->of_rank = tg_alloc(list->count + 1, sizeof *list->of_rank);
    if (!list->of_rank) {
        return tg_vocabulary_out_of_memory(v);
    }
    memset(list->of_rank, -1, (list->count + 1) * sizeof *list->of_rank);
    for (size_t i = 0; i < list->count; i++) {
        const ranked_token *t = &list->tokens[i];
        if ((size_t)t->rank > list->count) {
            return tg_vocabulary_fail(v, t->line,
                                      "rank %d; the ranks of %zu tokens are at most %zu, because only that "
                                      "of <|endoftext|> is left out",
                                      t->rank, list->count, list->count);
        }
        if (list->of_rank[t->rank] >= 0) {
            return tg_vocabulary_fail(v, t->line, "rank %d was given before, in line %u", t->rank,
                                      (unsigned)list->tokens[list->of_rank[t->rank]].line);
        }
        list->of_rank[t->rank] = (int32_t)i;
    }
    return true;
}

/* Adds the tokens, and <|endoftext|> at the rank that is left out. */
static bool add_tokens(tg_vocabulary *v, const rank_list *list)
{
    size_t multiple = 0;
    for (size_t i = 0; i < list->count; i++) {
        multiple += list->tokens[i].length > 1;
    }
    if (!tg_tokenizer_reserve(v->z, list->count + 1, v->length + sizeof TG_END_OF_TEXT, multiple)) {
        return tg_vocabulary_out_of_memory(v);
    }
    if (!tg_vocabulary_index(v, list->count)) {
        return false;
    }
    for (size_t rank = 0; rank <= list->count; rank++) {
        if (list->of_rank[rank] < 0) {
            if (!tg_tokenizer_add_end_of_text(v->z)) {
                return tg_vocabulary_out_of_memory(v);
            }
            continue;
        }
        const ranked_token *t = &list->tokens[list->of_rank[rank]];
        if (!tg_tokenizer_add_token(v->z, v->text + t->at, t->length, NULL, 0)) {
            return tg_vocabulary_out_of_memory(v);
        }
        int32_t same = tg_vocabulary_add(v, (int32_t)rank);
        if (same != (int32_t)rank) {
            return tg_vocabulary_fail(v, t->line, "the token of rank %d is also that of rank %d", t->rank, same);
        }
    }
    int byte = tg_vocabulary_find_bytes(v);
    return byte < 0 || tg_error_set(v->error, TG_ERROR_FORMAT,
                                    "%s: \'%s\': no token is the byte 0x%02x; all 256 bytes must be tokens", v->call,
                                    v->path, (unsigned)byte);
}

static bool add_merges(tg_vocabulary *v, const rank_list *list, tg_encoder *e)
{
    for (size_t rank = 0; rank <= list->count; rank++) {
        const ranked_token *t = list->of_rank[rank] < 0 ? NULL : &list->tokens[list->of_rank[rank]];
        if (!t || t->length == 1) {
            continue;
        }
        e->id_count = 0;
        if (!tg_encoder_word(e, v->z, v->text + t->at, t->length, INT64_MAX)) {
            return tg_vocabulary_out_of_memory(v);
        }
        if (e->id_count != 2) {
            return tg_vocabulary_fail(v, t->line,
                                      "the token of rank %d is %zu tokens of lower ranks; it must be the merge of two",
                                      t->rank, e->id_count);
        }
        if (!tg_tokenizer_add_merge(v->z, e->ids[0], e->ids[1], t->rank)) {
            return tg_vocabulary_out_of_memory(v);
        }
    }
    return true;
}

bool tg_vocabulary_read_ranks(tg_vocabulary *v)
{
    rank_list list = {NULL, 0, NULL};
    tg_encoder encoder = {0};
    bool is_read = read_lines(v, &list) && sort(v, &list) && add_tokens(v, &list) && add_merges(v, &list, &encoder);
    tg_encoder_free(&encoder);
    tg_free(encoder.ids);
    tg_free(list.tokens);
    tg_free(list.of_rank);
    return is_read;
}
