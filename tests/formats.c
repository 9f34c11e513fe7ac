#include "formats.h"

#include <stdlib.h>
#include <string.h>

void add_escaped(tg_text_buffer *content, const char *bytes)
{
    static const char plain[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.+_-";
    for (; *bytes; bytes++) {
        if (strchr(plain, *bytes)) {
            tg_text_add_bytes(content, bytes, 1);
        } else {
            tg_text_add_format(content, "\\x%02x", (unsigned)(unsigned char)*bytes);
        }
    }
}

void add_values(tg_text_buffer *content, const tg_tensor *x, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        tg_text_add_format(content, "%s%.9g", i > begin ? "," : "", tg_tensor_value_at(x, i));
    }
}

/* Writes the bytes of a field of the table to a file. */
static void write_escaped(const char *path, const char *field)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (const char *c = field; *c; c += *c == '\\' ? 4 : 1) {
        const char digits[] = {c[0] == '\\' ? c[2] : '0', c[0] == '\\' ? c[3] : '0', '\0'};
        fputc(*c == '\\' ? (int)strtol(digits, NULL, 16) : *c, file);
    }
    assert_int_equal(fclose(file), 0);
}

void check_format(const char *table, const char *format, const char *path, format_reader read)
{
    int variants = 0, wrong = 0;
    char *text = tg_file_read_text("check_format", table, &(size_t){0}, NULL);
    assert_non_null(text);
    for (char *line = text, *next; *line; line = next) {
        enum { FORMAT, VARIANT, BYTES, REFERENCE, HERE, WHY, FIELDS };
        char *fields[FIELDS + 1] = {line};
        int count = 1;
        next = strchr(line, '\n') + 1;
        next[-1] = '\0';
        for (char *tab = line; count < FIELDS && (tab = strchr(tab, '\t')); fields[count++] = tab) {
            *tab++ = '\0';
        }
        if (strcmp(fields[FORMAT], format) != 0) {
            continue;
        }
        tg_text_buffer content = {0};
        tg_error error = TG_NO_ERROR;
        write_escaped(path, fields[BYTES]);
        tg_text_add(&content, ""); /* for a content of no characters */
        const bool is_read = read(path, &content, &error);
        const char *found = is_read ? content.bytes : "refused", *expected = fields[count == FIELDS ? HERE : REFERENCE];
        if (strcmp(found, expected) != 0) {
            print_error("%s, %s: '%s' instead of '%s' %s\n", format, fields[VARIANT], found, expected, error.text);
            wrong++;
        }
        assert_int_equal(is_read, error.code == TG_OK);
        variants++;
        tg_free(content.bytes);
    }
    tg_free(text);
    remove(path);
    print_message("%s: %d variants\n", format, variants);
    assert_true(variants > 0 && wrong == 0);
}
