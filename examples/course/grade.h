/* grade: what the files of `course grade` share. */
#ifndef COURSE_GRADE_H
#define COURSE_GRADE_H

#include "course.h"

#define MAX_PREFIX 200

/* A command up to the program that it runs. */
typedef struct prefix {
    char *words[MAX_PREFIX + 8];
    int count;
    char text[8 * COURSE_PATH];
    size_t used;
} prefix;

typedef struct limits {
    /* of processor time; the largest file; open files; processes; addresses, 0: no limit */
    long long seconds, file_bytes, files, processes, address_bytes;
} limits;

/* The commands that isolate a step whose files are in `folder`: the student's file is compiled; it is linked with the
 * worker; the worker runs. */
void isolation_compile(prefix *p, const course_paths *paths, const char *folder);
void isolation_link(prefix *p, const course_paths *paths, const char *folder);
void isolation_run(prefix *p, const course_paths *paths, const char *folder, bool has_sanitizers);

/* Whether it works on this machine; prints what is missing. */
bool isolation_works(const course_paths *paths, const char *folder);

/* The uid of isolated processes if the grader is root. */
int isolation_uid(void);

/* ---- report.c ---------------------------------------------------------------------------------------------------- */

/* What one exercise of one submission is worth. */
typedef struct grade_result {
    const exercise *exercise;
    bool passed;
    /* why it failed: the check, and a line of text */
    char check[COURSE_WORD];
    char why[512];
} grade_result;

typedef struct grade_submission {
    const char *folder;
    grade_result *results;
    int count;
} grade_submission;

typedef struct grade_report {
    grade_submission *submissions;
    int count;
    uint64_t seed;
    bool is_isolated;
} grade_report;

/* Writes `path` as JSON, and `path`.xml as JUnit. Returns false after printing an error. */
bool report_write(const grade_report *report, const char *path);

/* Whether a report can be written there, which is asked before anything is graded; prints why not. */
bool report_can_be_written(const char *path);

/* The points of a submission, and whether all mandatory exercises are passed. */
int report_points(const grade_submission *submission, bool *has_mandatory);

#endif
