/* compare: reads the ledgers (operation traces) of two runs and prints the first op in which they differ. */
#include <errno.h>
#include <string.h>

#include <tapegrad_tools.h>

#include "../common/program.h"
#include "commands.h"

static FILE *open_ledger(const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        complain("%s: %s", path ? path : "--ledger and --with", path ? strerror(errno) : "must both be given");
    }
    return file;
}

int compare(const options *o)
{
    FILE *first = open_ledger(o->ledger), *second = first ? open_ledger(o->with) : NULL;
    int status = 2;
    if (second) {
        tg_error error = TG_NO_ERROR;
        tg_ledger_difference difference;
        if (!tg_ledger_compare(first, second, o->tolerance, &difference, &error)) {
            complain("%s", error.text);
        } else {
            printf("%s\n", difference.text);
            status = difference.is_equal ? 0 : 1;
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
