/* messages: the texts of a language. A file has lines "key: text"; lines that begin with blanks continue the text; "#"
 * begins a comment. What a language lacks is English. A text has "{name}" where a value belongs. */
#include "course.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct message {
    const char *key;
    char *text;
} message;

static message *messages;
static int message_count;

static int find(const char *key)
{
    for (int i = 0; i < message_count; i++) {
        if (strcmp(messages[i].key, key) == 0) {
            return i;
        }
    }
    return -1;
}

/* Cuts `line` at its newline, and returns the line behind it, or NULL at the end. */
static char *next_line(char *line)
{
    char *end = strchr(line, '\n');
    if (end) {
        *end++ = 0;
    }
    return end && *end ? end : NULL;
}

/* The texts stay where they are in `bytes`, which is never freed: a text moves to the left to join its lines. */
static bool add_all(const char *path, char *bytes)
{
    int number = 0;
    char *end = NULL; /* of the last text */
    for (char *line = bytes, *next; line; line = next) {
        next = next_line(line);
        number++;
        if (*line == '#' || !*line) {
            continue;
        }
        if (*line == ' ') {
            if (!end) {
                return complain("%s:%d: continues no text", path, number);
            }
            line += strspn(line, " ");
            *end++ = *line == '|' ? '\n' : ' ';
            line += *line == '|';
            size_t length = strlen(line);
            memmove(end, line, length + 1);
            end += length;
            continue;
        }
        char *colon = strstr(line, ":");
        if (!colon || (colon[1] && colon[1] != ' ')) {
            return complain("%s:%d: must be \"key: text\"", path, number);
        }
        *colon = 0;
        char *text = colon + 1 + strspn(colon + 1, " ");
        int at = find(line);
        if (at < 0) {
            message *more = realloc(messages, (size_t)(message_count + 1) * sizeof *more);
            if (!more) {
                return complain("out of memory");
            }
            messages = more;
            at = message_count++;
            messages[at].key = line;
        }
        messages[at].text = text;
        end = text + strlen(text);
    }
    return true;
}

static bool read_language(const char *source, const char *language, bool *is_there)
{
    char path[COURSE_PATH];
    FORMAT(path, "%s/messages/%s.txt", source, language);
    char *bytes = file_read(path);
    *is_there = bytes || errno != ENOENT;
    if (!bytes) {
        return !*is_there || complain("%s: %s", path, strerror(errno));
    }
    return add_all(path, bytes);
}

bool messages_read(const char *source, const char *language, bool is_chosen)
{
    bool is_there,
        is_name = language && *language && strspn(language, "abcdefghijklmnopqrstuvwxyz_") == strlen(language);
    if (!read_language(source, "en", &is_there)) {
        return false;
    }
    if (!is_there) {
        return complain("%s/messages/en.txt is missing", source);
    }
    is_there = false;
    if (is_name && !read_language(source, language, &is_there)) {
        return false;
    }
    if (is_chosen && !is_there) {
        complain("there is no language %s; the texts are English", language);
    }
    return true;
}

const char *message_find(const char *key)
{
    int at = find(key);
    return at < 0 ? NULL : messages[at].text;
}

void message_print(int indent, const char *key, const message_value *values)
{
    const char *text = message_find(key);
    char filled[4 * COURSE_TEXT];
    size_t at = 0;
    for (text = text ? text : key; *text && at < sizeof filled - 1;) {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        const message_value *value = values;
        while (end && value->name &&
               (strlen(value->name) != (size_t)(end - text - 1) ||
                strncmp(value->name, text + 1, strlen(value->name)) != 0)) {
            value++;
        }
        if (end && value->name) {
            int room = (int)(sizeof filled - at), length = snprintf(filled + at, (size_t)room, "%s", value->value);
            at += length < room ? (size_t)length : (size_t)room - 1;
            text = end + 1;
        } else {
            filled[at++] = *text++;
        }
    }
    filled[at] = 0;
    print_wrapped(indent, filled);
}
