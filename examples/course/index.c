/* index: reads index.txt, the list of the exercises. README.md has its form. */
#include "course.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* If the line begins with this word, returns what follows it, else NULL. */
static const char *after(const char *line, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || (line[length] && line[length] != ' ')) {
        return NULL;
    }
    return line + length + strspn(line + length, " ");
}

static bool begin_exercise(course_index *index, const char *id)
{
    const char *slash = strchr(id, '/');
    if (index->count == MAX_EXERCISES || !slash || strlen(id) >= COURSE_WORD || index_find(index, id)) {
        return false;
    }
    exercise *more = realloc(index->exercises, (size_t)(index->count + 1) * sizeof *more);
    if (!more) {
        return false;
    }
    index->exercises = more;
    exercise *e = &more[index->count++];
    memset(e, 0, sizeof *e);
    e->points = 1;
    FORMAT(e->id, "%s", id);
    FORMAT(e->name, "%s", slash + 1);
    FORMAT(e->unit, "%.*s", (int)(slash - id), id);
    return true;
}

/* Adds words to a list that may have several lines. */
static void add_words(char *list, size_t size, const char *words)
{
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s ", words);
}

static bool read_property(exercise *e, const char *line)
{
    const char *value;
    if ((value = after(line, "title"))) {
        FORMAT(e->title, "%s", value);
    } else if ((value = after(line, "symbols"))) {
        add_words(e->symbols, sizeof e->symbols, value);
    } else if ((value = after(line, "headers"))) {
        add_words(e->headers, sizeof e->headers, value);
    } else if ((value = after(line, "defines"))) {
        add_words(e->defines, sizeof e->defines, value);
    } else if ((value = after(line, "fails"))) {
        FORMAT(e->fails, "%s", value);
    } else if ((value = after(line, "parts"))) {
        FORMAT(e->parts, "%s", value);
    } else if ((value = after(line, "points"))) {
        e->points = atoi(value);
    } else if (after(line, "fast")) {
        e->is_fast = true;
    } else if (after(line, "mandatory")) {
        e->is_mandatory = true;
    } else if (after(line, "library")) {
        e->needs_library = true;
    } else {
        return false;
    }
    return true;
}

bool index_read(course_index *index, const char *source)
{
    char path[COURSE_PATH];
    FORMAT(path, "%s/index.txt", source);
    char *bytes = file_read(path);
    if (!bytes) {
        return complain("%s: %s", path, strerror(errno));
    }
    bool good = true;
    int number = 0;
    for (char *line = bytes; good && line && *line;) {
        char *end = strchr(line, '\n');
        if (end) {
            *end++ = 0;
        }
        number++;
        line += strspn(line, " ");
        const char *value;
        if (!*line || *line == '#') {
            good = true;
        } else if ((value = after(line, "exercise"))) {
            good = begin_exercise(index, value);
        } else if (index->count == 0 && (value = after(line, "symbols"))) {
            add_words(index->symbols, sizeof index->symbols, value);
        } else if (index->count == 0 && (value = after(line, "headers"))) {
            add_words(index->headers, sizeof index->headers, value);
        } else {
            good = index->count > 0 && read_property(&index->exercises[index->count - 1], line);
        }
        if (!good) {
            complain("%s:%d: not a line of an index: %s", path, number, line);
        }
        line = end;
    }
    free(bytes);
    return good && (index->count > 0 || complain("%s: no exercises", path));
}

const exercise *index_find(const course_index *index, const char *name)
{
    const exercise *found = NULL;
    for (int i = 0; i < index->count; i++) {
        if (strcmp(index->exercises[i].id, name) == 0) {
            return &index->exercises[i];
        }
        if (strcmp(index->exercises[i].name, name) == 0) {
            found = &index->exercises[i];
        }
    }
    return found;
}

bool seed_read(const char *word, uint64_t *seed)
{
    char *end;
    errno = 0;
    *seed = strtoull(word, &end, 10);
    bool is_number = *word >= '0' && *word <= '9' && !*end && errno == 0;
    return is_number || complain("--seed %s: not a whole number of 0 to 2^64 - 1", word);
}
