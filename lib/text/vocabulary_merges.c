/* vocabulary_merges: reads vocab.bpe, which transformers calls merges.txt.
 *
 * The first line begins with "#version", or is left out. Each other line is a merge: two tokens with one space between
 * them. Lines may end in CR and LF, and the last ones may be blank. A token must be a byte or the result of an earlier
 * merge. Without a file of ids the bytes have the ids 0 to 255, merge r has the id 256 + r, and <|endoftext|> has the
 * last one.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vocabulary.h"

static const char version[] = "#version";

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

/* Returns the end of the last line that is not blank. */
static size_t end_without_blank_lines(const tg_vocabulary *v)
{
    size_t end = v->length;
    while (end > 0 && v->text[end - 1] == '\n') {
        end -= end > 1 && v->text[end - 2] == '\r' ? 2 : 1;
    }
    return end;
}

static bool read_lines(tg_vocabulary *v, bool has_ids)
{
    size_t number = 1, length = end_without_blank_lines(v);
    for (size_t begin = 0; begin < length; number++) {
        const char *line = v->text + begin, *newline = memchr(line, '\n', length - begin);
        size_t end = newline ? (size_t)(newline - v->text) : length;
        size_t line_end = newline && end > begin && v->text[end - 1] == '\r' ? end - 1 : end;
        bool is_version = number == 1 && strncmp(line, version, sizeof version - 1) == 0;
        if (is_version && memchr(line, '\r', line_end - begin)) {
            return tg_vocabulary_fail(v, 1, "a CR within the line; lines end in LF, or in CR and LF");
        }
        if (!is_version && !read_line(v, line, line_end - begin, number, has_ids)) {
            return false;
        }
        begin = end + 1;
    }
    return true;
}

bool tg_vocabulary_is_merges(const char *text)
{
    size_t length = (unsigned char)text[0] < 0x80 ? 1 : 2;
    char byte[2];
    bool has_space = text[0] != '\0' && text[1] != '\0' && text[length] == ' ';
    return strncmp(text, version, sizeof version - 1) == 0 ||
           (has_space && tg_vocabulary_decode(text, length, byte) == 1);
}

bool tg_vocabulary_read_merges(tg_vocabulary *v, bool has_ids)
{
    return (has_ids || tg_tokenizer_add_bytes(v->z) || tg_vocabulary_out_of_memory(v)) && read_lines(v, has_ids) &&
           (has_ids || tg_tokenizer_add_special(v->z, TG_END_OF_TEXT) || tg_vocabulary_out_of_memory(v));
}
