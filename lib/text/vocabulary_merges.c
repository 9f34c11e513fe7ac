/* vocabulary_merges: reads vocab.bpe, which transformers calls merges.txt.
 *
 * The first line is "#version: 0.2". Each other line is a merge: two tokens with one space between them. A token must
 * be a byte or the result of an earlier merge. Without a file of ids the bytes have the ids 0 to 255, merge r has the
 * id 256 + r, and <|endoftext|> has the last one.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vocabulary.h"

static const char first_line[] = "#version: 0.2";

/* The bytes of the shortest line with a merge: "a b" and a newline. */
#define SHORTEST_LINE 4

static bool read_line(tg_vocabulary *v, const char *line, size_t length, size_t number, bool has_ids)
{
    const char *space = memchr(line, ' ', length);
    size_t left_length = space ? (size_t)(space - line) : 0, right_length = length - left_length - 1;
    if (!space || memchr(space + 1, ' ', right_length)) {
        return tg_vocabulary_fail(v, number, "\"%.*s\" is not two tokens and one space", tg_cut_bytes(line, length, 60),
                                  line);
    }
    tg_error problem = TG_NO_ERROR;
    if (!tg_vocabulary_merge(v, line, left_length, space + 1, right_length, has_ids, &problem)) {
        return problem.code == TG_ERROR_MEMORY ? tg_vocabulary_out_of_memory(v)
                                               : tg_vocabulary_fail(v, number, "%s", problem.text);
    }
    return true;
}

static bool read_lines(tg_vocabulary *v, bool has_ids)
{
    size_t number = 1;
    for (size_t begin = 0; begin < v->length; number++) {
        const char *newline = memchr(v->text + begin, '\n', v->length - begin);
        size_t end = newline ? (size_t)(newline - v->text) : v->length;
        const char *line = v->text + begin;
        if (number > 1 && !read_line(v, line, end - begin, number, has_ids)) {
            return false;
        }
        if (number == 1 && (end != sizeof first_line - 1 || memcmp(line, first_line, end) != 0)) {
            return tg_vocabulary_fail(v, 1, "\"%.*s\"; it must be \"%s\"", tg_cut_bytes(line, end, 60), line,
                                      first_line);
        }
        begin = end + 1;
    }
    return true;
}

/* Reserves memory for all merges and their tokens, but not for a line that is too short for a merge. */
static bool prepare(tg_vocabulary *v)
{
    size_t lines = 0;
    for (size_t i = 0; i < v->length; i++) {
        lines += v->text[i] == '\n';
    }
    size_t merges = lines < v->length / SHORTEST_LINE ? lines : v->length / SHORTEST_LINE, tokens = TG_BYTES + merges;
    if (!tg_tokenizer_reserve(v->z, tokens + 1, v->length + TG_BYTES, merges) || !tg_tokenizer_add_bytes(v->z)) {
        return tg_vocabulary_out_of_memory(v);
    }
    if (!tg_vocabulary_index(v, tokens)) {
        return false;
    }
    for (int32_t id = 0; id < TG_BYTES; id++) {
        tg_vocabulary_add(v, id);
    }
    return true;
}

bool tg_vocabulary_read_merges(tg_vocabulary *v, bool has_ids)
{
    return (has_ids || prepare(v)) && read_lines(v, has_ids) &&
           (has_ids || tg_tokenizer_add_end_of_text(v->z) || tg_vocabulary_out_of_memory(v));
}
