#include "program.h"

#include "products.h"
#include "system.h"
#include "terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- begin and end ---- */

void program_begin(void)
{
    system_begin();
}

int program_end(int status)
{
    progress_break();
    bool is_printed = fflush(stdout) == 0;
    int cause = errno;
    is_printed = is_printed && !ferror(stdout);
    if (!is_printed) {
        complain("not all of the output could be written to stdout: %s", strerror(cause));
    }
    return is_printed || status != 0 ? status : 1;
}

void program_version(void)
{
    char text[PRODUCTS_TEXT];
    printf("%s (tapegrad) %s, %s\n", program_name, tg_version(), products_text(text));
}

bool complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    progress_break();
    /* keeps the messages in order if stdout and stderr go to one file */
    fflush(stdout);
    fprintf(stderr, "%s: ", program_name);
    print_line_of(stderr, format, arguments);
    va_end(arguments);
    return false;
}

double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- progress ---- */

static bool line_is_open;

void progress_break(void)
{
    if (line_is_open) {
        putchar('\n');
        fflush(stdout);
    }
    line_is_open = false;
}

/* Prints the line, and ends it if it is the last one or not on a terminal. */
static void show(bool terminal, const char *noun, int64_t done, int64_t all, const char *format, va_list arguments)
{
    /* the escape sequence clears the line */
    fputs(terminal ? "\r\033[K" : "", stdout);
    printf("%s %5lld/%lld  ", noun, (long long)done, (long long)all);
    vprintf(format, arguments);
    line_is_open = terminal && done != all;
    if (!line_is_open) {
        putchar('\n');
    }
    fflush(stdout);
}

void progress(int64_t step, int64_t steps, const char *format, ...)
{
    static double shown;
    bool terminal = isatty(STDOUT_FILENO), ends = step == 1 || step == steps;
    double now = seconds();
    if (!ends && (terminal ? now - shown < 0.1 : step % ((steps + 9) / 10) != 0)) {
        return;
    }
    shown = now;
    va_list arguments;
    va_start(arguments, format);
    show(terminal, "step", step, steps, format, arguments);
    va_end(arguments);
}

void progress_of(const char *noun, int64_t done, int64_t all, const char *format, ...)
{
    static double shown;
    static int64_t tenth;
    bool terminal = isatty(STDOUT_FILENO);
    int64_t now = all > 0 ? 10 * done / all : 10;
    if (terminal ? done != all && seconds() - shown < 0.1 : now == tenth) {
        return;
    }
    shown = seconds();
    tenth = now;
    va_list arguments;
    va_start(arguments, format);
    show(terminal, noun, done, all, format, arguments);
    va_end(arguments);
}

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t stop;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

void interrupt_catch(void)
{
    system_catch_interrupt(on_interrupt);
}

bool interrupted(void)
{
    return stop != 0;
}

void interrupt_release(void)
{
    signal(SIGINT, SIG_DFL);
}

/* ---- files ---- */

/* PATH_BYTES without the bytes for a name */
#define FOLDER 4096

bool folder_make(const char *path)
{
    char part[FOLDER];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        return complain("folder '%.40s': must have a path of 1 to %d bytes", path, FOLDER - 1);
    }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            snprintf(part, sizeof part, "%.*s", (int)i, path);
            if (!system_make_folder(part) && errno != EEXIST) {
                return complain("folder '%s': %s", part, strerror(errno));
            }
        }
    }
    return access(path, W_OK | X_OK) == 0 || complain("folder '%s': %s", path, strerror(errno));
}

const char *folder_file(const char *folder, const char *name)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

FILE *file_begin(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        complain("opening '%s': %s", path, strerror(errno));
    }
    return file;
}

bool file_end(FILE *file, const char *path)
{
    bool good = !ferror(file);
    good = fclose(file) == 0 && good;
    return good || complain("writing '%s': %s", path, strerror(errno));
}
