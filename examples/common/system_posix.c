#include "system.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

void system_begin(void)
{
    /* open returns the lowest free descriptor. A closed stdout becomes read-only, so that printing is an error. */
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", file == STDERR_FILENO ? O_WRONLY : O_RDONLY) != file) {
            _exit(1);
        }
    }
}

void system_catch_interrupt(void (*handler)(int signal_number))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
}

bool system_make_folder(const char *path)
{
    return mkdir(path, 0777) == 0;
}
