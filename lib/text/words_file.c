/* words_file: a vocabulary as a text file with one word per line. */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/words.h"

static const char call[] = "words_open";
static const char byte_order_mark[] = "\xEF\xBB\xBF";
static const char spaces[] = " \t\n\v\f\r"; /* white space of ASCII */

static bool begins_with_mark(const char *text, size_t length)
{
    return length >= 3 && memcmp(text, byte_order_mark, 3) == 0;
}

/* Returns whether a text has white space of ASCII, which a line cannot have: it would be a word with its count, say.
 * Other white space, such as U+00A0, may be in the words of vectors. */
static bool has_space(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length && (text[at] == '\0' || !strchr(spaces, text[at]))) {
        at++;
    }
    return at < length;
}

/* Adds the word of one line, which has no line break. */
static bool read_line(tg_words *w, const char *path, const char *line, size_t length, tg_error *error)
{
    long long number = (long long)w->names.count + 1;
    size_t bad = tg_utf8_check(line, length);
    if (bad < length) {
        return tg_error_set_at(error, number, -1, "%s: '%s', line %lld: byte 0x%02x at %zu of the line is not UTF-8",
                               call, path, number, (unsigned)(unsigned char)line[bad], bad);
    }
    const char *problem = length == 0               ? "the line is empty; a line has one word"
                          : memchr(line, 0, length) ? "the line has a NUL"
                          : has_space(line, length) ? "the line has white space; a line has one word"
                                                    : NULL;
    if (problem) {
        return tg_error_set_at(error, number, -1, "%s: '%s', line %lld: %s", call, path, number, problem);
    }
    int32_t before = w->names.count, id = tg_words_add(w, line, length);
    if (id < 0) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s', line %lld: out of memory", call, path, number);
    }
    return id == before || tg_error_set_at(error, number, -1, "%s: '%s', line %lld: line %lld has the word '%.*s', too",
                                           call, path, number, (long long)id + 1, tg_cut_bytes(line, length, 60), line);
}

static bool read_lines(tg_words *w, const char *path, const char *text, size_t length, tg_error *error)
{
    size_t begin = begins_with_mark(text, length) ? 3 : 0, last = length; /* where blank lines follow */
    while (last > begin && (text[last - 1] == '\n' || text[last - 1] == '\r')) {
        last--;
    }
    while (begin < last || (begin < length && w->names.count == 0)) {
        const char *newline = memchr(text + begin, '\n', length - begin);
        size_t end = newline ? (size_t)(newline - text) : length;
        size_t line_end = end;
        while (line_end > begin && text[line_end - 1] && strchr(spaces, text[line_end - 1])) {
            line_end--;
        }
        if (!read_line(w, path, text + begin, line_end - begin, error)) {
            return false;
        }
        begin = end + 1;
    }
    return true;
}

tg_words *tg_words_open(const char *path, const tg_words_config *given, tg_error *error)
{
    tg_words_config config;
    if (!path) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the path is NULL", call);
        return NULL;
    }
    if (!tg_words_check_config(call, given, &config, error)) {
        return NULL;
    }
    size_t length;
    char *text = tg_file_read_text(call, path, &length, error);
    if (!text) {
        return NULL;
    }
    tg_words *w = tg_words_make(config.split);
    bool is_read =
        w ? read_lines(w, path, text, length, error) : tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    tg_free(text);
    if (is_read && config.unknown) {
        w->unknown = tg_words_find(w, config.unknown);
        is_read =
            w->unknown >= 0 || tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' does not have the unknown token '%.*s'",
                                            call, path, TG_CUT(config.unknown, 60));
    }
    if (!is_read) {
        tg_words_free(w);
        return NULL;
    }
    return w;
}

bool tg_words_save(const tg_words *w, const char *path, tg_error *error)
{
    static const char name[] = "words_save";
    if (!w || !path) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", name, w ? "path is" : "words are");
    }
    for (int32_t id = 0; id < w->names.count; id++) {
        const char *word = tg_words_at(w, id);
        if (has_space(word, strlen(word))) {
            return tg_error_set(error, TG_ERROR_VALUE,
                                "%s: word %d, '%.*s', has white space; a line has one word without it", name, (int)id,
                                TG_CUT(word, 60));
        }
    }
    /* tg_words_open skips one mark, so a first word that begins with it has another one in front */
    const size_t used = w->names.count ? w->names.begin[w->names.count] : 0;
    size_t begin = begins_with_mark(w->names.bytes, used) ? 3 : 0;
    char *lines = tg_alloc((uint64_t)used + 4, 1);
    if (!lines) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %zu bytes", name, used);
    }
    memcpy(lines, byte_order_mark, begin);
    for (size_t i = 0; i < used; i++) {
        lines[begin + i] = w->names.bytes[i] ? w->names.bytes[i] : '\n';
    }
    bool is_saved = tg_file_replace(name, path, lines, begin + used, error);
    tg_free(lines);
    return is_saved;
}
