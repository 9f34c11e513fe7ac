#include "system.h"

#include <windows.h>

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

void system_begin(void)
{
    FILE *const files[] = {stdin, stdout, stderr};
    DWORD mode;
    _fmode = _O_BINARY;
    for (int i = 0; i < 3; i++) {
        _setmode(_fileno(files[i]), _O_BINARY);
    }
    SetConsoleOutputCP(CP_UTF8);
    if (GetConsoleMode(GetStdHandle(STD_OUTPUT_HANDLE), &mode)) {
        SetConsoleMode(GetStdHandle(STD_OUTPUT_HANDLE), mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
}

/* A handler in Windows is called once. */
void system_catch_interrupt(void (*handler)(int signal_number))
{
    signal(SIGINT, handler);
}

bool system_make_folder(const char *path)
{
    return _mkdir(path) == 0;
}
