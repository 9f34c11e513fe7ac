#include "check.h"

#include "internal.h"
#include "../memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A call that takes longer than this hangs. */
#define CALL_SECONDS 10
/* All calls together. */
#define ALL_SECONDS 30
/* The worker and what it is started by may use this much memory, which is read every TICK milliseconds. */
#define MOST_MEMORY (INT64_C(1) << 30)
#define TICK 10

uint64_t course_seed = 7;
tg_run *course_run;
static int verdicts = -1, requests = -1, replies = -1;
static pid_t worker = -1;
/* When the current call began, by the clock, and when the memory was read; how long the calls before took. */
static int64_t call_began, memory_read, all_waited;
static char current_case[256];
/* The function that was called last. */
static char current_call[MAX_CALL_NAME];

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

/* A verdict is lines of fields with tabs between them: "check NAME", and in the end "done", or "fail KEY NAME=VALUE". A
 * newline in a value becomes a vertical tab. Their descriptor is closed in the worker. */
static void say(const char *format, ...) TG_PRINTF_LIKE(1, 2);
static void say(const char *format, ...)
{
    char text[3072];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text - 1, format, arguments);
    va_end(arguments);
    length = length < 0 ? 0 : length < (int)sizeof text - 1 ? length : (int)sizeof text - 2;
    for (int i = 0; i < length; i++) {
        text[i] = text[i] == '\n' ? '\v' : text[i];
    }
    text[length++] = '\n';
    if (write(verdicts, text, (size_t)length) != length) {
        _exit(2);
    }
}

static void end(int status)
{
    if (worker > 0) {
        kill(worker, SIGKILL);
        waitpid(worker, NULL, 0);
    }
    _exit(status);
}

void broken(const char *what, const char *why)
{
    say("broken\twhat=%s\twhy=%s", what, why);
    end(2);
}

void fail_with(const char *key, const char *format, ...)
{
    char values[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(values, sizeof values, format, arguments);
    va_end(arguments);
    say("fail\t%s\t%s\tcall=%s\tcase=%s", key, values, current_call, current_case);
    end(1);
}

void describe(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(current_case, sizeof current_case, format, arguments);
    va_end(arguments);
}

void fail(const char *key)
{
    say("fail\t%s\tcall=%s\tcase=%s", key, current_call, current_case);
    end(1);
}

/* ---- the worker -------------------------------------------------------------------------------------------------- */

/* The command that starts the worker, and the descriptor for what it prints. */
static char *const *worker_command;
static int worker_output;

/* Starts a worker in which nothing of the student has run; the one before ends. */
static void start_worker(void)
{
    int to[2], from[2], output = worker_output;
    if (worker > 0) {
        kill(worker, SIGKILL);
        waitpid(worker, NULL, 0);
        close(requests);
        close(replies);
    }
    char *const *command = worker_command;
    if (pipe(to) != 0 || pipe(from) != 0) {
        broken("pipe", strerror(errno));
    }
    worker = fork();
    if (worker < 0) {
        broken("fork", strerror(errno));
    }
    if (worker == 0) {
        /* above the numbers that they get */
        int in = fcntl(to[0], F_DUPFD, 16), out = fcntl(from[1], F_DUPFD, 16);
        if (output >= 0) {
            dup2(output, STDOUT_FILENO);
            dup2(output, STDERR_FILENO);
        }
        int null = open("/dev/null", O_RDONLY);
        dup2(null, STDIN_FILENO);
        dup2(in, REQUESTS);
        dup2(out, REPLIES);
        for (int file = REPLIES + 1; file < 256; file++) {
            close(file);
        }
        setrlimit(RLIMIT_CPU, &(struct rlimit){2 * CALL_SECONDS, 2 * CALL_SECONDS + 1});
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20});
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        execvp(command[0], command);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    requests = to[1];
    replies = from[0];
    fcntl(requests, F_SETFL, O_NONBLOCK);
}

void check(const char *name)
{
    current_case[0] = 0;
    say("check\t%s", name);
    start_worker();
}

/* The worker has ended, or closed its pipe: it must not, however it did. */
static void worker_ended(void)
{
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 100 && ended == 0; i++) {
        ended = waitpid(worker, &status, WNOHANG);
        if (ended == 0) {
            poll(NULL, 0, 10);
        }
    }
    if (ended == 0) {
        fail_with("ended", "how=%s", "it closed its pipes");
        end(1);
    }
    worker = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_NOT_SEALED) {
        broken("seccomp", "the kernel does not let the worker give up its calls");
    }
    if (WIFSIGNALED(status)) {
        fail_with("ended", "how=signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    fail_with("ended", "how=exit status %d", WEXITSTATUS(status));
}

/* Waits until the pipe can be read or written. The limits are those of the clock, whatever the worker sends. */
static void wait_for(int file, short event)
{
    struct pollfd ready = {.fd = file, .events = event};
    for (bool is_ready = false; !is_ready;) {
        is_ready = poll(&ready, 1, TICK) > 0;
        int64_t now = milliseconds(), waited = now - call_began;
        if (waited >= CALL_SECONDS * 1000 || all_waited + waited >= ALL_SECONDS * 1000) {
            fail_with("hangs", "seconds=%d", waited >= CALL_SECONDS * 1000 ? CALL_SECONDS : ALL_SECONDS);
        }
        if (now - memory_read >= TICK) {
            memory_read = now;
            if (memory_below(worker) > MOST_MEMORY) {
                fail_with("memory", "megabytes=%d", (int)(MOST_MEMORY >> 20));
            }
        }
    }
}

static void send_to_worker(const void *from, size_t bytes)
{
    for (const char *at = from; bytes > 0;) {
        wait_for(requests, POLLOUT);
        ssize_t put = write(requests, at, bytes);
        if (put < 0 && errno == EAGAIN) {
            continue;
        }
        if (put <= 0) {
            worker_ended();
        }
        at += put;
        bytes -= (size_t)put;
    }
}

static void receive(void *to, size_t bytes)
{
    for (char *at = to; bytes > 0;) {
        wait_for(replies, POLLIN);
        ssize_t got = read(replies, at, bytes);
        if (got <= 0) {
            worker_ended();
        }
        at += got;
        bytes -= (size_t)got;
    }
}

void call(const char *name, const course_argument *arguments, int count)
{
    course_request request = {.count = count};
    if (count > MAX_ARGUMENTS || strlen(name) >= sizeof request.name) {
        broken(name, "too many arguments, or too long a name");
    }
    strcpy(request.name, name);
    strcpy(current_call, name);
    for (int i = 0; i < count; i++) {
        request.directions[i] = (int32_t)arguments[i].direction;
        request.bytes[i] = (int64_t)arguments[i].bytes;
    }
    call_began = memory_read = milliseconds();
    send_to_worker(&request, sizeof request);
    for (int i = 0; i < count; i++) {
        if (arguments[i].direction != COURSE_OUT) {
            send_to_worker(arguments[i].values, arguments[i].bytes);
        }
    }
    int64_t mark;
    receive(&mark, sizeof mark);
    if (mark != REPLY_MARK) {
        fail_with("ended", "how=%s", "it wrote to the pipes of the check");
        end(1);
    }
    for (int i = 0; i < count; i++) {
        if (arguments[i].direction != COURSE_IN) {
            receive(arguments[i].values, arguments[i].bytes);
        }
    }
    all_waited += milliseconds() - call_began;
}

/* ---- expectations ------------------------------------------------------------------------------------------------ */

course_map map_begin(int rows, int columns)
{
    course_map map = {.columns = columns > 0 ? columns : rows};
    int lines = columns > 0 ? rows : 1;
    for (int line = 0; lines <= 12 && map.columns <= 24 && line < lines; line++) {
        char *at = map.lines + line * (map.columns + 1);
        memset(at, '.', (size_t)map.columns);
        at[map.columns] = '\n';
    }
    return map;
}

void map_wrong(course_map *map, int64_t index)
{
    if (*map->lines) {
        map->lines[index + index / map->columns] = '#';
    }
}

/* With as many digits as it takes to see the difference. */
static void differs(const char *what, const char *place, double got, double expected, const char *map)
{
    if (isnan(got)) {
        fail_with("nan", "what=%s\tplace=%s\texpected=%.6g\tmap=%s", what, place, expected, map);
    }
    char left[32], right[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(left, sizeof left, "%.*g", digits, got);
        snprintf(right, sizeof right, "%.*g", digits, expected);
        if (strcmp(left, right) != 0) {
            break;
        }
    }
    fail_with("differs", "what=%s\tplace=%s\tgot=%s\texpected=%s\tmap=%s", what, place, left, right, map);
}

static bool is_near(double got, double expected, double tolerance)
{
    if (isinf(expected)) {
        return got == expected;
    }
    return fabs(got - expected) <= tolerance * fmax(1, fabs(expected));
}

void expect(const char *what, const double *got, const double *expected, int rows, int columns, double tolerance)
{
    course_map map = map_begin(rows, columns);
    int first = -1;
    for (int i = rows * (columns > 0 ? columns : 1) - 1; i >= 0; i--) {
        if (!is_near(got[i], expected[i], tolerance)) {
            first = i;
            map_wrong(&map, i);
        }
    }
    if (first >= 0) {
        char place[32];
        if (columns > 0) {
            snprintf(place, sizeof place, " [%d,%d]", first / columns, first % columns);
        } else {
            snprintf(place, sizeof place, " [%d]", first);
        }
        differs(what, place, got[first], expected[first], columns > 1 && rows > 1 ? map.lines : "");
    }
}

void expect_ints(const char *what, const int *got, const int *expected, int count)
{
    for (int i = 0; i < count; i++) {
        if (got[i] != expected[i]) {
            char place[32];
            snprintf(place, sizeof place, " [%d]", i);
            differs(what, place, got[i], expected[i], "");
        }
    }
}

void expect_int(const char *what, int64_t got, int64_t expected)
{
    if (got != expected) {
        differs(what, "", (double)got, (double)expected, "");
    }
}

void expect_number(const char *what, double got, double expected, double tolerance)
{
    if (!is_near(got, expected, tolerance)) {
        differs(what, "", got, expected, "");
    }
}

void expect_tensor(const char *what, const double *got, const tg_tensor *expected)
{
    int rank = tg_tensor_rank(expected), columns = rank > 1 ? (int)tg_tensor_size(expected, -1) : 0;
    int count = (int)tg_tensor_count(expected), rows = columns > 0 ? count / columns : count;
    double *values = malloc((size_t)(count + 1) * sizeof *values);
    if (!values || count == 0 || tg_tape_error(tape())->code != TG_OK) {
        broken("the library", tg_tape_error(tape())->text);
    }
    for (int i = 0; i < count; i++) {
        values[i] = tg_tensor_value_at(expected, i);
    }
    expect(what, got, values, rows, columns, tg_tensor_dtype(expected) == TG_F32 ? 1e-5 : 1e-9);
    free(values);
}

/* checker VERDICTS OUTPUT SEED WORKER...: two descriptors, a seed, and the command that starts the worker. */
int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "a program of the course, started by `course`\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    verdicts = atoi(argv[1]);
    course_seed = strtoull(argv[3], NULL, 10);
    course_run = tg_run_new(course_seed);
    worker_command = argv + 4;
    worker_output = atoi(argv[2]);
    course_checks();
    say("done");
    end(0);
}
