/* compare: two ledgers, and the first op in which their runs differ. */
#include <errno.h>
#include <string.h>

#include "../common/program.h"
#include "commands.h"

static FILE *open_ledger(const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        complain("%s: %s", path ? path : "--ledger and --with", path ? strerror(errno) : "two files are wanted");
    }
    return file;
}

int compare(const options *o)
{
    FILE *first = open_ledger(o->ledger), *second = first ? open_ledger(o->with) : NULL;
    int status = 2;
    if (second) {
        char text[400];
        tg_ledger_verdict verdict = tg_ledger_compare(first, second, o->tolerance, text, sizeof text);
        if (verdict == TG_LEDGER_BAD) {
            complain("%s", text);
        } else {
            printf("%s\n", text);
            status = verdict == TG_LEDGER_EQUAL ? 0 : 1;
        }
    }
    if (first) {
        fclose(first);
    }
    if (second) {
        fclose(second);
    }
    return status;
}
