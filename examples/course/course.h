/* course: what the files of the program `course` share. */
#ifndef COURSE_H
#define COURSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COURSE_PATH 4096
#define COURSE_WORD 64
#define COURSE_TEXT 1024

/* Formats as printf does; the text is cut where it does not fit. */
#define FORMAT(text, ...) ((void)snprintf(text, sizeof text, __VA_ARGS__))

/* ---- text.c: files and lines ------------------------------------------------------------------------------------- */

/* Returns the file's bytes and a 0, or NULL with errno set; EFBIG above `limit` bytes. `count` receives their number,
 * unless it is NULL. The caller frees them. */
char *file_read_all(const char *path, size_t limit, size_t *count);
#define FILE_LIMIT (1 << 20)
char *file_read(const char *path); /* of at most FILE_LIMIT */
/* The same, of a longer file the first FILE_LIMIT. */
char *file_read_beginning(const char *path);
/* Replaces a file as a whole: after an error, which is returned as false with errno set, it is what it was. */
bool file_replace(const char *path, const char *bytes, size_t count);
bool file_exists(const char *path);
/* Creates a folder and its parents. */
bool folder_create(const char *path);

/* Prints text to stdout in lines of the terminal's width, which begin with `indent` blanks. A newline in it stays. */
void print_wrapped(int indent, const char *text);
/* Returns the length of the UTF-8 character at the start of a text of `length` bytes, at least one. 0 for a control
 * character but newline and tab, for bytes that are no character, and for one that XML does not have. */
size_t visible_character(const char *text, size_t length);
/* Writes at most `length` bytes of a text. Control characters but newlines and tabs, and bytes that are not UTF-8,
 * become \xNN: they could change the state of the terminal. */
void print_visible(FILE *file, const char *text, size_t length);
/* Prints to stderr "course: ...". Returns false. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- messages.c: the texts of a language ------------------------------------------------------------------------- */

/* A value for "{name}" in a message. A list ends with a NULL name. */
typedef struct message_value {
    const char *name, *value;
} message_value;

/* Reads messages/en.txt and, over it, messages/LANGUAGE.txt; says so if that is missing and was chosen. Returns false
 * after printing an error. */
bool messages_read(const char *source, const char *language, bool is_chosen);
/* Returns the text of a key as it stands in the file, or NULL. */
const char *message_find(const char *key);
/* Prints a message with its values. A key without a text prints the key. */
void message_print(int indent, const char *key, const message_value *values);
#define SAY(indent, key, ...) message_print(indent, key, (message_value[]){__VA_ARGS__, {NULL, NULL}})
#define SAY_PLAIN(indent, key) message_print(indent, key, (message_value[]){{NULL, NULL}})

/* ---- index.c: the exercises -------------------------------------------------------------------------------------- */

typedef struct exercise {
    /* "embeddings/scatter_add", the part before the slash, and that behind it */
    char id[COURSE_WORD], unit[COURSE_WORD], name[COURSE_WORD];
    char title[COURSE_WORD];
    /* functions that the file may call, besides those that every file may: names, and PREFIX* */
    char symbols[COURSE_TEXT];
    /* the headers that it may include besides, and the functions that it has */
    char headers[COURSE_WORD], defines[COURSE_WORD];
    /* the check at which the unchanged exercise fails */
    char fails[COURSE_WORD];
    /* of a file with two marked parts the calls of its checks that belong to the parts: "forward backward" */
    char parts[COURSE_WORD];
    /* of the fast track; needed to pass the course; needs the library */
    bool is_fast, is_mandatory, needs_library;
    int points;
} exercise;

typedef struct course_index {
    exercise *exercises;
    int count;
    /* functions that every file may call, and headers that it may include */
    char symbols[COURSE_TEXT], headers[COURSE_TEXT];
} course_index;

/* Reads index.txt. Returns false after printing an error. */
bool index_read(course_index *index, const char *source);
/* Finds an exercise by its id or its name, or returns NULL. */
const exercise *index_find(const course_index *index, const char *name);
/* Reads a number, which a seed is; prints what is wrong. */
bool seed_read(const char *word, uint64_t *seed);

/* ---- build.c: a file becomes a worker ---------------------------------------------------------------------------- */

typedef struct course_paths {
    /* examples/course of the sources; the folder with the checkers of the build; the library's headers and folder */
    const char *source, *checkers, *include, *library;
    /* where the student's files are, and where objects go */
    const char *student, *build;
} course_paths;

typedef enum outcome_kind { PASSED, FAILED, BROKEN } outcome_kind;

#define MAX_VALUES 12

/* What the checks found. */
typedef struct outcome {
    outcome_kind kind;
    /* the last check that began, and its number; compile is 1 */
    char check[COURSE_WORD];
    int number;
    /* the message of a failure, and the values in it */
    char key[COURSE_WORD];
    char text[2048];
    message_value values[MAX_VALUES + 1];
    int value_count;
    /* what the compiler printed, or the program, and which of them */
    char *output;
    bool is_of_program;
    /* a line of the student's file, or 0; whether it is only that where the part begins */
    int line;
    bool is_part_line;
} outcome;

/* Adds a value to a failure. */
void outcome_value(outcome *o, const char *name, const char *value);
void outcome_free(outcome *o);
/* Both return false. A check has failed; or the course itself cannot check. */
bool outcome_fail(outcome *o, const char *check, int number, const char *key);
bool outcome_broken(outcome *o, const char *what, const char *why);

typedef struct run_options {
    uint64_t seed;
    bool without_sanitizers;
    /* grading: commands stand in front of the compiler and of the worker, such as bubblewrap; NULL: none. With one the
     * worker closes its doors, too (checks/seal.c). */
    char *const *compile_prefix, *const *link_prefix, *const *worker_prefix;
} run_options;

/* Compiles and links a file. False: the outcome says why. `worker` receives the path of the program. */
bool build_worker(const course_paths *paths, const course_index *index, const exercise *e, const char *file,
                  const run_options *options, outcome *o, char worker[COURSE_PATH]);

/* ---- command.c: other programs ----------------------------------------------------------------------------------- */

/* Runs a command; its output goes to a file. Returns its status, or -1; COMMAND_LATE if it took longer than a minute,
 * and COMMAND_LARGE if it used more than 4 GB of memory. Then it was killed. */
int command_run(char *const *command, const char *output_path);
enum { COMMAND_LATE = 1000, COMMAND_LARGE };

/* ---- rules.c: what a student's file may contain ------------------------------------------------------------------ */

/* Each returns false with an outcome that names the rule and the line. The text of the file, of `count` bytes, is
 * changed by the call: joined lines are moved. */
bool rules_of_text(const course_index *index, const exercise *e, char *text, size_t count, outcome *o);
/* What the preprocessor writes for this file: only the tokens of the file itself have rules. */
bool rules_of_tokens(const char *preprocessed, const char *file, outcome *o);
/* What `objdump -h -t` lists of the object, which is changed, too. An object with sanitizers has sections of theirs. */
bool rules_of_object(const course_index *index, const exercise *e, char *listing, const char *text, bool is_plain,
                     outcome *o);
/* Whether a list of words has the name: as a word, or by PREFIX*. */
bool course_has_word(const char *list, const char *name);

/* ---- verdict.c: compiles, and runs the checks -------------------------------------------------------------------- */

void check_file(const course_paths *paths, const course_index *index, const exercise *e, const char *file,
                const run_options *options, outcome *o);
/* Prints an outcome for a student. */
void outcome_print(const course_paths *paths, const exercise *e, const char *file, const outcome *o);

/* ---- student.c: the student's folder ----------------------------------------------------------------------------- */

#define MAX_EXERCISES 128

typedef struct student {
    const course_paths *paths;
    const course_index *index;
    /* whether the folder has exercises; otherwise nothing is saved */
    bool is_there;
    bool passed[MAX_EXERCISES];
    int hints[MAX_EXERCISES];
} student;

/* Reads the progress. On the first start copies the exercises that are not there if `creates`. False after an error. */
bool student_open(student *s, const course_paths *paths, const course_index *index, bool creates);
bool student_save(const student *s);
void student_file(const student *s, const exercise *e, char path[COURSE_PATH]);
/* Whether the file is what it was in the beginning. */
bool student_is_unchanged(const student *s, const exercise *e);
/* Puts the exercise back; the file is kept under another name, which `kept` receives ("" if there was none). */
bool student_reset(const student *s, const exercise *e, char kept[COURSE_PATH]);
/* The next exercise that is not passed, of the fast track alone if `fast`; NULL: all are passed. */
const exercise *student_next(const student *s, const exercise *after, bool fast);

/* ---- watch.c: waiting -------------------------------------------------------------------------------------------- */

typedef enum build_state { BUILD_DONE, BUILD_RUNS, BUILD_FAILED } build_state;

/* Says whether examples/course/run still builds the library. The environment variable COURSE_BUILD names the folder in
 * which course.log grows, and course.status has the exit status at the end; without it the library is there. Prints
 * why it could not be built. */
build_state build_look(void);
/* The check of this exercise waits for the library: watch_wait shows how far it is, and returns when it is there.
 * Commands are obeyed meanwhile; one that goes on to another exercise ends the wait. */
void watch_for_build(const exercise *e);

/* Regards the files of the student as they are now as unchanged. */
void watch_begin(const student *s);
/* Waits for a command, or until the file of an exercise has changed and stays unchanged for a moment, or until the
 * library is there for a check that waits. Returns false at the end of the input. The command is empty if the file
 * is to be checked. Says so if the file of another exercise was saved. */
bool watch_wait(const student *s, const exercise *e, char *line, size_t size);

/* ---- grade.c ----------------------------------------------------------------------------------------------------- */

int grade(const course_paths *paths, const course_index *index, int argc, char **argv);

#endif
