/* command: runs a compiler, or another program of the system, within limits of the clock and of memory. */
#include "course.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_SECONDS 60
#define MOST_MEMORY (INT64_C(4) << 30)
#define MOST_OUTPUT (64 << 20) /* a file can have a million warnings */

static void become(char *const *words, int output)
{
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    /* English messages, which are searched for names */
    setenv("LC_ALL", "C", 1);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){MOST_OUTPUT, MOST_OUTPUT});
    setrlimit(RLIMIT_CPU, &(struct rlimit){MOST_SECONDS, MOST_SECONDS + 1});
    execvp(words[0], words);
    dprintf(STDERR_FILENO, "%s: %s\n", words[0], strerror(errno));
    _exit(127);
}

int command_run(char *const *words, const char *output_path)
{
    int output = open(output_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (output < 0) {
        return -1;
    }
    pid_t child = fork();
    if (child == 0) {
        become(words, output);
    }
    close(output);
    if (child < 0) {
        return -1;
    }
    int status = 0, verdict = 0, wait = 1;
    int64_t end = milliseconds() + MOST_SECONDS * 1000;
    /* tells when it ends; an old kernel has none, and poll waits for its time */
    struct pollfd process = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
    for (pid_t ended; (ended = waitpid(child, &status, WNOHANG)) != child;) {
        if (ended < 0 && errno != EINTR) {
            verdict = -1;
            break;
        }
        verdict = milliseconds() > end                            ? COMMAND_LATE
                  : wait > 8 && memory_below(child) > MOST_MEMORY ? COMMAND_LARGE
                                                                  : 0;
        if (verdict) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            break;
        }
        poll(&process, 1, wait);
        wait = wait < 16 ? 2 * wait : 16;
    }
    if (process.fd >= 0) {
        close(process.fd);
    }
    return verdict ? verdict : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
