/* report: the results of `course grade` as JSON, and as JUnit's XML. */
#include "grade.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A text that grows. */
typedef struct text {
    char *bytes;
    size_t count, capacity;
    bool failed;
} text;

static void put(text *t, const char *bytes, size_t count)
{
    if (t->count + count > t->capacity) {
        size_t capacity = 2 * (t->count + count) + 4096;
        char *more = realloc(t->bytes, capacity);
        if (!more) {
            t->failed = true;
            return;
        }
        t->bytes = more;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->count, bytes, count);
    t->count += count;
}

static void print(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(text *t, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    put(t, line, length < 0 ? 0 : length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

/* What a submission printed may be in a message, and the name of a folder may have any bytes: what is no printable
 * character is escaped, and bytes that are not UTF-8 become U+FFFD. */
static void print_json(text *t, const char *value)
{
    put(t, "\"", 1);
    while (*value) {
        unsigned char c = (unsigned char)*value;
        size_t count = visible_character(value, 4);
        if (c == '"' || c == '\\') {
            print(t, "\\%c", c);
        } else if (count == 0 || c < ' ') {
            print(t, "\\u%04x", c < 128 ? c : 0xfffd);
        } else {
            put(t, value, count);
        }
        value += count ? count : 1;
    }
    put(t, "\"", 1);
}

static void print_xml(text *t, const char *value)
{
    put(t, "\"", 1);
    while (*value) {
        unsigned char c = (unsigned char)*value;
        size_t count = visible_character(value, 4);
        if (c == '"' || c == '&' || c == '<' || c == '>' || c == '\n' || c == '\t') {
            print(t, "&#%d;", c);
        } else if (count == 0) {
            print(t, "&#xfffd;");
        } else {
            put(t, value, count);
        }
        value += count ? count : 1;
    }
    put(t, "\"", 1);
}

int report_points(const grade_submission *submission, bool *has_mandatory)
{
    int points = 0;
    *has_mandatory = true;
    for (int i = 0; i < submission->count; i++) {
        const grade_result *r = &submission->results[i];
        points += r->passed ? r->exercise->points : 0;
        *has_mandatory = *has_mandatory && (r->passed || !r->exercise->is_mandatory);
    }
    return points;
}

static int all_points(const grade_submission *submission)
{
    int points = 0;
    for (int i = 0; i < submission->count; i++) {
        points += submission->results[i].exercise->points;
    }
    return points;
}

static void print_submission(text *t, const grade_submission *s)
{
    bool has_mandatory;
    int points = report_points(s, &has_mandatory);
    print(t, "    {\"folder\": ");
    print_json(t, s->folder);
    print(t, ", \"points\": %d, \"of\": %d, \"mandatory_passed\": %s, \"exercises\": [\n", points, all_points(s),
          has_mandatory ? "true" : "false");
    for (int i = 0; i < s->count; i++) {
        const grade_result *r = &s->results[i];
        print(t, "      {\"exercise\": \"%s\", \"points\": %d, \"mandatory\": %s, \"passed\": %s", r->exercise->id,
              r->passed ? r->exercise->points : 0, r->exercise->is_mandatory ? "true" : "false",
              r->passed ? "true" : "false");
        if (!r->passed) {
            print(t, ", \"check\": ");
            print_json(t, r->check);
            print(t, ", \"why\": ");
            print_json(t, r->why);
        }
        print(t, "}%s\n", i + 1 < s->count ? "," : "");
    }
    print(t, "    ]}");
}

static void print_suite(text *t, const grade_submission *s)
{
    int failures = 0;
    for (int i = 0; i < s->count; i++) {
        failures += !s->results[i].passed;
    }
    print(t, "  <testsuite name=");
    print_xml(t, s->folder);
    print(t, " tests=\"%d\" failures=\"%d\">\n", s->count, failures);
    for (int i = 0; i < s->count; i++) {
        const grade_result *r = &s->results[i];
        print(t, "    <testcase classname=\"%s\" name=\"%s\"", r->exercise->unit, r->exercise->name);
        if (r->passed) {
            print(t, "/>\n");
        } else {
            print(t, "><failure type=");
            print_xml(t, r->check);
            print(t, " message=");
            print_xml(t, r->why);
            print(t, "/></testcase>\n");
        }
    }
    print(t, "  </testsuite>\n");
}

static bool save(text *t, const char *path)
{
    bool good = !t->failed && file_replace(path, t->bytes, t->count);
    if (!good) {
        complain("%s: %s", path, t->failed ? "out of memory" : strerror(errno));
    }
    free(t->bytes);
    return good;
}

bool report_write(const grade_report *report, const char *path)
{
    text json = {0}, xml = {0};
    print(&json, "{\n  \"isolation\": \"%s\",\n  \"seed\": %llu,\n  \"submissions\": [\n",
          report->is_isolated ? "bubblewrap" : "none", (unsigned long long)report->seed);
    print(&xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"course, isolation: %s\">\n",
          report->is_isolated ? "bubblewrap" : "none");
    for (int i = 0; i < report->count; i++) {
        print_submission(&json, &report->submissions[i]);
        print(&json, "%s\n", i + 1 < report->count ? "," : "");
        print_suite(&xml, &report->submissions[i]);
    }
    print(&json, "  ]\n}\n");
    print(&xml, "</testsuites>\n");
    char xml_path[COURSE_PATH];
    FORMAT(xml_path, "%s.xml", path);
    bool good = save(&json, path);
    return save(&xml, xml_path) && good;
}

bool report_can_be_written(const char *path)
{
    char trial[COURSE_PATH];
    struct stat status;
    FORMAT(trial, "%s.%ld.tmp", path, (long)getpid());
    bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    int file = is_folder ? -1 : open(trial, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (file < 0) {
        return complain("grade: --report %s: %s", path, is_folder ? "a folder" : strerror(errno));
    }
    close(file);
    unlink(trial);
    return true;
}
