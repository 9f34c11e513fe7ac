/* internal: what the files of the checks' library share. */
#ifndef COURSE_INTERNAL_H
#define COURSE_INTERNAL_H

#include <sys/types.h>

#include "check.h"

/* The generator of the random inputs. */
extern tg_run *course_run;

/* Ends the check as failed, with a message and its values: "got=%d\texpected=%d". */
void fail_with(const char *key, const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* Ends the check because it is wrong itself, or because the system refuses something. */
void broken(const char *what, const char *why);

#endif
