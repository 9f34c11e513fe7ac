/* student: a student's folder. It has a copy of each exercise, UNIT/NAME.c, and progress.txt. The program writes an
 * exercise only where none is; a reset renames the old one first. */
#include "course.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void student_file(const student *s, const exercise *e, char path[COURSE_PATH])
{
    snprintf(path, COURSE_PATH, "%s/%s.c", s->paths->student, e->id);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Writes the unchanged exercise where no file is. Returns false with errno set. */
static bool put_exercise(const student *s, const exercise *e)
{
    char path[COURSE_PATH], from[COURSE_PATH], temporary[COURSE_PATH + 8];
    student_file(s, e, path);
    FORMAT(from, "%s/exercises/%s.c", s->paths->source, e->id);
    char *bytes = file_read(from);
    if (!bytes) {
        return false;
    }
    /* link refuses to replace a file, where rename would not */
    FORMAT(temporary, "%s.new", path);
    bool good = file_replace(temporary, bytes, strlen(bytes)) && (link(temporary, path) == 0 || errno == EEXIST);
    int cause = errno;
    unlink(temporary);
    free(bytes);
    errno = cause;
    return good;
}

static bool put_all(const student *s)
{
    for (int i = 0; i < s->index->count; i++) {
        const exercise *e = &s->index->exercises[i];
        char folder[COURSE_PATH];
        FORMAT(folder, "%s/%s", s->paths->student, e->unit);
        if (!folder_create(folder) || !put_exercise(s, e)) {
            return complain("%s: %s", folder, strerror(errno));
        }
    }
    return true;
}

bool student_is_unchanged(const student *s, const exercise *e)
{
    char path[COURSE_PATH], from[COURSE_PATH];
    student_file(s, e, path);
    FORMAT(from, "%s/exercises/%s.c", s->paths->source, e->id);
    char *now = file_read(path), *then = file_read(from);
    bool is_same = now && then && strcmp(now, then) == 0;
    free(now);
    free(then);
    return is_same;
}

bool student_reset(const student *s, const exercise *e, char kept[COURSE_PATH])
{
    char path[COURSE_PATH], folder[COURSE_PATH];
    student_file(s, e, path);
    FORMAT(folder, "%s/%s", s->paths->student, e->unit);
    kept[0] = 0;
    if (student_is_unchanged(s, e)) {
        return true;
    }
    if (!folder_create(folder)) {
        return complain("%s: %s", folder, strerror(errno));
    }
    for (int number = 1; file_exists(path) && !kept[0]; number++) {
        if (snprintf(kept, COURSE_PATH, "%s.old-%d", path, number) >= COURSE_PATH) {
            return complain("%s: the path is too long", path);
        }
        if (file_exists(kept)) {
            kept[0] = 0;
        } else if (rename(path, kept) != 0) {
            return complain("%s: %s", kept, strerror(errno));
        }
    }
    if (!put_exercise(s, e)) {
        complain("%s: %s", path, strerror(errno));
        if (kept[0]) {
            rename(kept, path);
        }
        return false;
    }
    return true;
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* Lines "passed embeddings/lookup" and "hints 2 embeddings/lookup". Exercises that the index lacks are ignored. */
static void read_progress(student *s, char *bytes)
{
    for (char *line = strtok(bytes, "\n"); line; line = strtok(NULL, "\n")) {
        char id[COURSE_WORD];
        int hints;
        const exercise *e = NULL;
        if (sscanf(line, "passed %63s", id) == 1 && (e = index_find(s->index, id))) {
            s->passed[e - s->index->exercises] = true;
        } else if (sscanf(line, "hints %d %63s", &hints, id) == 2 && (e = index_find(s->index, id))) {
            s->hints[e - s->index->exercises] = hints < 0 ? 0 : hints > 3 ? 3 : hints;
        }
    }
}

bool student_save(const student *s)
{
    char path[COURSE_PATH], text[MAX_EXERCISES * 2 * (COURSE_WORD + 16)];
    size_t at = 0;
    if (!s->is_there) {
        return true;
    }
    FORMAT(path, "%s/progress.txt", s->paths->student);
    text[0] = 0;
    for (int i = 0; i < s->index->count; i++) {
        const char *id = s->index->exercises[i].id;
        if (s->passed[i]) {
            at += (size_t)snprintf(text + at, sizeof text - at, "passed %s\n", id);
        }
        if (s->hints[i] > 0) {
            at += (size_t)snprintf(text + at, sizeof text - at, "hints %d %s\n", s->hints[i], id);
        }
    }
    return file_replace(path, text, at) || complain("the progress is not saved: %s: %s", path, strerror(errno));
}

bool student_open(student *s, const course_paths *paths, const course_index *index, bool creates)
{
    memset(s, 0, sizeof *s);
    s->paths = paths;
    s->index = index;
    char path[COURSE_PATH];
    FORMAT(path, "%s/progress.txt", paths->student);
    if (creates && !folder_create(paths->build)) {
        return complain("%s: %s; --folder DIR chooses another folder", paths->build, strerror(errno));
    }
    char *bytes = file_read(path);
    if (bytes) {
        s->is_there = true;
        read_progress(s, bytes);
        free(bytes);
        return true;
    }
    if (errno != ENOENT) {
        return complain("%s: %s", path, strerror(errno));
    }
    if (!creates) {
        return true;
    }
    s->is_there = true;
    /* the first start: later a file that is missing was deleted by the student, and `reset` brings it back */
    return put_all(s) && student_save(s);
}

const exercise *student_next(const student *s, const exercise *after, bool fast)
{
    int count = s->index->count, from = after ? (int)(after - s->index->exercises) + 1 : 0;
    for (int i = 0; i < count; i++) {
        int at = (from + i) % count;
        const exercise *e = &s->index->exercises[at];
        if (!s->passed[at] && (e->is_fast || !fast)) {
            return e;
        }
    }
    return NULL;
}
