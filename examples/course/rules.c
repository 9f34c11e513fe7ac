/* rules: what a student's file may contain, checked before anything of it runs.
 *
 * Functions of its own, which are static, and constants are fine. No header but those of index.txt, and nothing that
 * changes how a compiler or a linker treats it: no pragma, line, asm or attribute, and no name of the compiler's own.
 * Variables that are neither local nor constant are refused, too: they are memory that no check sees.
 *
 * There are three places to look. The text says which files the preprocessor reads. What the preprocessor writes says
 * what the compiler is given, and is what is compiled: a name that was pasted together is whole there. The object says
 * what is left to the linker. So the list of the functions that an object calls is all that the file can call.
 */
#include "course.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(outcome *o, const char *key, const char *name, int line)
{
    outcome_value(o, "name", name);
    o->line = line;
    return outcome_fail(o, "rules", 1, key);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

typedef struct scanner {
    const char *at;
    int line;
    /* whether only blanks and comments stand before `at` in its line */
    bool at_line_begin;
} scanner;

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_LITERAL, TOKEN_NUMBER, TOKEN_MARK } token_kind;

typedef struct token {
    token_kind kind;
    const char *begin;
    size_t length;
    int line;
    bool begins_line;
} token;

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 128;
}

/* Returns the end of the comment that begins here, or NULL. */
static const char *end_of_comment(const char *at)
{
    if (at[0] != '/' || (at[1] != '/' && at[1] != '*')) {
        return NULL;
    }
    const char *end = at[1] == '/' ? strchr(at, '\n') : strstr(at + 2, "*/");
    return !end ? at + strlen(at) : at[1] == '/' ? end : end + 2;
}

static void skip_blanks(scanner *s)
{
    for (;;) {
        const char *end = end_of_comment(s->at);
        if (!end && (!*s->at || !strchr(" \t\v\f\r\n", *s->at))) {
            return;
        }
        /* a comment is a blank, also one of many lines */
        s->at_line_begin = s->at_line_begin || (!end && *s->at == '\n');
        for (end = end ? end : s->at + 1; s->at < end; s->at++) {
            s->line += *s->at == '\n';
        }
    }
}

/* A literal ends with its quote or its line, a number and a name with their last letter. Each other byte is a mark. */
static token next_token(scanner *s)
{
    skip_blanks(s);
    token t = {TOKEN_MARK, s->at, 1, s->line, s->at_line_begin};
    if (!*s->at) {
        t.kind = TOKEN_END;
        return t;
    }
    s->at_line_begin = false;
    char first = *s->at++;
    if (first == '"' || first == '\'') {
        t.kind = TOKEN_LITERAL;
        while (*s->at && *s->at != '\n' && *s->at != first) {
            s->at += s->at[0] == '\\' && s->at[1] && s->at[1] != '\n' ? 2 : 1;
        }
        s->at += *s->at == first;
    } else if (isdigit((unsigned char)first) || (first == '.' && isdigit((unsigned char)*s->at))) {
        t.kind = TOKEN_NUMBER;
        while (is_name_byte(*s->at) || *s->at == '.' ||
               ((*s->at == '+' || *s->at == '-') && strchr("eEpP", s->at[-1]))) {
            s->at++;
        }
    } else if (is_name_byte(first)) {
        t.kind = TOKEN_NAME;
        while (is_name_byte(*s->at)) {
            s->at++;
        }
    }
    t.length = (size_t)(s->at - t.begin);
    return t;
}

static bool is_token(const token *t, const char *text)
{
    return strlen(text) == t->length && strncmp(t->begin, text, t->length) == 0;
}

/* A list of words, "a b c", has the token. */
static bool is_among(const token *t, const char *words)
{
    char word[COURSE_WORD];
    FORMAT(word, "%.*s", (int)t->length, t->begin);
    return t->length < sizeof word && course_has_word(words, word);
}

static bool begins(const token *t, const char *text)
{
    return t->length >= strlen(text) && strncmp(t->begin, text, strlen(text)) == 0;
}

/* Names that begin as the compiler's own do, and asm. */
static bool is_reserved(const token *t)
{
    return begins(t, "__") || (t->length > 1 && t->begin[0] == '_' && isupper((unsigned char)t->begin[1])) ||
           is_token(t, "asm");
}

/* A trigraph of a mark, a backslash or a bracket begins here. */
static bool is_trigraph(const char *at)
{
    return at[0] == '?' && at[1] == '?' && at[2] && strchr("=/(", at[2]);
}

/* Digraphs, attributes in brackets, a backslash outside of a literal, and in one a trigraph that macros made. */
static bool is_odd(const token *t, char last)
{
    char first = *t->begin;
    bool is_odd = t->kind == TOKEN_MARK && (first == '\\' || ((first == '<' || first == '%') && t->begin[1] == ':') ||
                                            (last == '[' && first == '['));
    for (size_t i = 0; t->kind == TOKEN_LITERAL && i < t->length; i++) {
        is_odd = is_odd || is_trigraph(t->begin + i);
    }
    return is_odd;
}

static bool refuse_token(outcome *o, const char *key, const token *t)
{
    char name[COURSE_WORD];
    FORMAT(name, "%.*s", (int)(t->length < sizeof name ? t->length : sizeof name - 1), t->begin);
    return refuse(o, key, name, t->line);
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static const char own_words[] = "_Alignof _Bool _Generic _Static_assert __func__ __FILE__ __LINE__";

/* Bytes with which compilers differ about where a line or a word ends. Returns what is wrong, or NULL. */
static const char *odd_byte(const char *at)
{
    if (is_trigraph(at)) {
        return "??";
    }
    if (at[0] == '\r' && at[1] != '\n') {
        return "CR";
    }
    return (unsigned char)*at < ' ' && !strchr("\t\n\v\f\r", *at) ? "a control character" : NULL;
}

/* Joins lines that end in a backslash, behind which compilers allow blanks. The line's end comes later, so that the
 * next line keeps its number. Returns the first odd byte, or NULL, and the line of it. */
static const char *join_lines(char *text, int *line)
{
    char *to = text;
    int joined = 0;
    *line = 1;
    for (const char *at = text; *at; at++) {
        const char *odd = odd_byte(at);
        if (odd) {
            return odd;
        }
        const char *end = at + 1 + strspn(at + 1, " \t\v\f");
        end += end[0] == '\r' && end[1] == '\n';
        if (*at == '\\' && *end == '\n') {
            at = end;
            joined++;
            (*line)++;
            continue;
        }
        *to++ = *at;
        if (*at == '\n') {
            (*line)++;
            for (; joined > 0; joined--) {
                *to++ = '\n';
            }
        }
    }
    *to = 0;
    return NULL;
}

/* Reads "<name>" behind an include, and expects nothing more in its line. */
static bool include_is_allowed(const char *headers, scanner *s, outcome *o, int line)
{
    size_t blanks = strspn(s->at, " \t"), length = strcspn(s->at, ">\n");
    char name[COURSE_WORD];
    FORMAT(name, "%.*s", (int)(length > blanks ? length - blanks : 0), s->at + blanks);
    bool is_allowed =
        name[0] == '<' && s->at[length] == '>' && length - blanks < sizeof name && course_has_word(headers, name + 1);
    s->at += length + (s->at[length] == '>');
    scanner behind = *s;
    token next = next_token(&behind);
    return (is_allowed && (next.kind == TOKEN_END || next.begins_line)) || refuse(o, "rule_include", name, line);
}

bool rules_of_text(const course_index *index, const exercise *e, char *text, size_t count, outcome *o)
{
    int line;
    const char *odd = strlen(text) == count ? join_lines(text, &line) : "a control character";
    if (odd) {
        return refuse(o, "rule_byte", odd, strlen(text) == count ? line : 0);
    }
    char headers[2 * COURSE_TEXT];
    FORMAT(headers, "%s %s", index->headers, e->headers);
    bool has_mark = strncmp(text, "\xEF\xBB\xBF", 3) == 0; /* U+FEFF */
    scanner s = {text + (has_mark ? 3 : 0), 1, true};
    char last = 0;
    for (token t = next_token(&s); t.kind != TOKEN_END; t = next_token(&s)) {
        if (t.begins_line && *t.begin == '#') {
            scanner behind = s;
            token word = next_token(&s);
            if (word.kind == TOKEN_END || word.begins_line) { /* # alone */
                s = behind;
                continue;
            }
            if (!is_among(&word, "define undef include if ifdef ifndef elif else endif")) {
                return refuse_token(o, "rule_directive", &word);
            }
            if (is_token(&word, "include") && !include_is_allowed(headers, &s, o, word.line)) {
                return false;
            }
        } else if (t.kind == TOKEN_NAME && is_reserved(&t) && !is_among(&t, own_words)) {
            return refuse_token(o, "rule_name", &t);
        } else if (is_odd(&t, last)) {
            return refuse_token(o, "rule_byte", &t);
        }
        last = t.kind == TOKEN_MARK ? *t.begin : 0;
    }
    return true;
}

/* ---- what the preprocessor writes -------------------------------------------------------------------------------- */

/* The file that lines of the preprocessor come from. */
typedef struct origin {
    const char *name;
    size_t length;
    bool is_own;
} origin;

/* Reads "# 12 "FILE" 3", and moves to the next line. Another file begins with the mark 1, and is returned to with 2:
 * one without a mark is a line of #line. */
static bool read_marker(scanner *s, const char *file, origin *of)
{
    char *name;
    const char *end = s->at + strcspn(s->at, "\n");
    int line = (int)strtol(s->at, &name, 10);
    if (name == s->at || name >= end || name[0] != ' ' || name[1] != '"') {
        return false;
    }
    name += 2;
    size_t length = 0;
    while (name + length < end && name[length] != '"') {
        length += name[length] == '\\' && name + length + 1 < end ? 2 : 1;
    }
    bool is_own = length == strlen(file) && strncmp(name, file, length) == 0;
    bool is_same = length == of->length && strncmp(name, of->name, length) == 0;
    long mark = name + length + 1 < end ? strtol(name + length + 1, NULL, 10) : 0;
    bool has_mark = mark == 1 || mark == 2;
    if (!is_own && !is_same && !has_mark && *name != '<') {
        return false;
    }
    *of = (origin){name, length, is_own};
    s->line = line;
    s->at = end + (*end == '\n');
    s->at_line_begin = true;
    return true;
}

/* The macros of the standard headers write these. */
static bool is_of_macros(const token *t)
{
    return begins(t, "__ctype_") || begins(t, "_IS") || begins(t, "__builtin_inf") || begins(t, "__builtin_nan") ||
           begins(t, "__builtin_is") || begins(t, "__builtin_huge_val") || begins(t, "__builtin_signbit") ||
           begins(t, "__builtin_fpclassify") || begins(t, "__builtin_offsetof") || is_among(t, own_words);
}

bool rules_of_tokens(const char *preprocessed, const char *file, outcome *o)
{
    scanner s = {preprocessed, 1, true};
    origin of = {"", 0, false};
    bool was_own = false;
    char last = 0;
    for (token t = next_token(&s); t.kind != TOKEN_END; t = next_token(&s)) {
        if (t.begins_line && *t.begin == '#') {
            /* those of the preprocessor begin their lines; blanks before one are of a macro */
            bool is_first = t.begin == preprocessed || t.begin[-1] == '\n';
            bool is_marker = isdigit((unsigned char)s.at[strspn(s.at, " ")]) || strncmp(s.at, "line", 4) == 0;
            if (!(is_first && read_marker(&s, file, &of)) && (of.is_own || is_marker)) {
                return refuse(o, "rule_directive", is_marker ? "line" : "pragma", t.line);
            }
            was_own = was_own || of.is_own;
        } else if (of.is_own && t.kind == TOKEN_NAME && is_reserved(&t) && !is_of_macros(&t)) {
            return refuse_token(o, "rule_name", &t);
        } else if (of.is_own && is_odd(&t, last)) {
            return refuse_token(o, "rule_byte", &t);
        }
        last = t.kind == TOKEN_MARK ? *t.begin : 0;
    }
    return was_own || outcome_broken(o, "the preprocessor", "does not name the file");
}

/* ---- the object -------------------------------------------------------------------------------------------------- */

/* The first line of the file that has the name before a parenthesis, or 0. */
static int line_of_call(const char *text, const char *name)
{
    scanner s = {text, 1, true};
    token last = {0};
    for (token t = next_token(&s); t.kind != TOKEN_END; t = next_token(&s)) {
        if (*t.begin == '(' && last.kind == TOKEN_NAME && is_token(&last, name)) {
            return last.line;
        }
        last = t;
    }
    return 0;
}

/* Whether a list of words has the name: as a word, or by PREFIX*. */
bool course_has_word(const char *list, const char *name)
{
    while (*list) {
        list += strspn(list, " ");
        size_t length = strcspn(list, " ");
        bool is_prefix = length > 1 && list[length - 1] == '*';
        if (length > 0 && strncmp(list, name, length - is_prefix) == 0 && (is_prefix || strlen(name) == length)) {
            return true;
        }
        list += length;
    }
    return false;
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A section that is constant once the program is linked. */
static bool is_constant(const char *section)
{
    return begins_with(section, ".rodata") || begins_with(section, ".data.rel.ro");
}

/* A line "  1 .data  00000008 ..." of a section, and the line of its flags behind it: "CONTENTS, ALLOC, LOAD, DATA". */
static bool section_is_allowed(const char *line, const char *flags, outcome *o)
{
    char name[128];
    unsigned long size;
    char own[256]; /* the flags of this section, of one line */
    FORMAT(own, "%.*s", (int)strcspn(flags, "\n"), flags);
    if (sscanf(line, " %*d %127s %lx", name, &size) != 2 || size == 0 || !strstr(own, "ALLOC")) {
        return true;
    }
    bool is_code = strstr(own, "CODE") != NULL, is_read_only = strstr(own, "READONLY") || is_constant(name);
    return (is_read_only && is_code == begins_with(name, ".text")) || refuse(o, "rule_variable", name, 0);
}

/* What a line of the table of symbols is about; kind: U undefined, T a function for others, V a variable, 0 nothing. */
static char kind_of_symbol(char *line, char name[256])
{
    /* "0000000000000000 g     F .text	0000000000000418 lookup": value, flags, section, a tab, size, name */
    char section[128], *tab = strchr(line, '\t'), *begin = line + 25;
    if (!tab || tab < begin || sscanf(begin, " %127[^\t]", section) != 1 || sscanf(tab, " %*x %255s", name) != 1) {
        return 0;
    }
    const char *flags = line + 17;
    if (strcmp(section, "*UND*") == 0) {
        return 'U';
    }
    if (strcmp(section, "*ABS*") == 0 || flags[5] == 'd' || is_constant(section)) {
        return 0;
    }
    if (begins_with(section, ".text")) {
        return flags[0] == 'l' ? 0 : 'T';
    }
    return begins_with(name, "__odr_asan") ? 0 : 'V'; /* the sanitizer's mark of a constant */
}

bool rules_of_object(const course_index *index, const exercise *e, char *listing, const char *text, bool is_plain,
                     outcome *o)
{
    char refused[512] = "", first[256] = "", name[256];
    char *next, *line = listing;
    outcome of_sections = {.kind = PASSED};
    for (; line && *line && !begins_with(line, "SYMBOL TABLE:"); line = next) {
        next = strchr(line, '\n');
        next = next ? next + 1 : NULL;
        if (is_plain && next && of_sections.kind == PASSED) {
            section_is_allowed(line, next, &of_sections);
        }
    }
    for (line = line ? strtok(line, "\n") : NULL; line; line = strtok(NULL, "\n")) {
        char kind = kind_of_symbol(line, name);
        if (kind == 'V') {
            name[strcspn(name, ".")] = 0; /* "count.0": a static variable in a function */
            return refuse(o, "rule_variable", name, 0);
        }
        if (kind == 'T' && !course_has_word(e->defines, name)) {
            return refuse(o, strcmp(name, "main") == 0 ? "has_main" : "rule_function", name, line_of_call(text, name));
        }
        if (kind != 'U' || begins_with(name, "__asan_") || begins_with(name, "__ubsan_") ||
            course_has_word(index->symbols, name) || course_has_word(e->symbols, name)) {
            continue;
        }
        if (!first[0]) {
            FORMAT(first, "%s", name);
        }
        size_t used = strlen(refused);
        snprintf(refused + used, sizeof refused - used, "%s%s", used > 0 ? ", " : "", name);
    }
    if (refused[0]) {
        outcome_value(o, "names", refused);
        o->line = line_of_call(text, first);
        return outcome_fail(o, "symbols", 2,
                            course_has_word("malloc calloc realloc free", first) ? "symbols_of_memory" : "symbols");
    }
    if (of_sections.kind == FAILED) { /* of something without a name */
        return refuse(o, of_sections.key, of_sections.values[0].value, 0);
    }
    return true;
}
