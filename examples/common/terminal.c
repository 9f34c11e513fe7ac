#include "terminal.h"

#include <string.h>

#include <tapegrad/extend.h>

/* A piece of text, and the most that its escaped bytes take. */
enum { PIECE = 8000, ESCAPED = 4 * PIECE + 1 };

void print_line_of(FILE *file, const char *format, va_list arguments)
{
    char line[PIECE + 1], escaped[ESCAPED];
    vsnprintf(line, sizeof line, format, arguments);
    tg_escape(escaped, sizeof escaped, line);
    fprintf(file, "%s\n", escaped);
}

void print_line(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line_of(file, format, arguments);
    va_end(arguments);
}

/* Returns the length of the beginning that has no newline, tab or NUL, at most PIECE bytes in whole characters. */
static size_t piece_of(const char *text, size_t length)
{
    size_t most = (size_t)tg_cut_bytes(text, length, PIECE), end = 0;
    while (end < most && text[end] != '\n' && text[end] != '\t' && text[end] != '\0') {
        end++;
    }
    return end;
}

void print_text(FILE *file, const char *text, size_t length)
{
    char piece[PIECE + 1], escaped[ESCAPED];
    for (size_t i = 0; i < length;) {
        size_t count = piece_of(text + i, length - i);
        memcpy(piece, text + i, count);
        piece[count] = '\0';
        tg_escape(escaped, sizeof escaped, piece);
        fputs(escaped, file);
        i += count;
        if (i < length && (text[i] == '\n' || text[i] == '\t' || text[i] == '\0')) {
            fputs(text[i] == '\0' ? "\\x00" : text[i] == '\n' ? "\n" : "\t", file);
            i++;
        }
    }
}
