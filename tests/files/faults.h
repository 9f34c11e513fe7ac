/* faults: functions of the system that fail. The linker replaces open, pread, write, fsync, fchmod, close and
 * rename by those of faults.c (--wrap), so a test decides which call fails. */
#ifndef TG_TESTS_IO_FAULTS_H
#define TG_TESTS_IO_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum fault_kind { OPEN, PREAD, WRITE, FSYNC, FCHMOD, CLOSE, RENAME, KINDS } fault_kind;

extern const char *const fault_names[KINDS];

typedef struct fault_state {
    fault_kind kind; /* of the calls that fail */
    int calls;       /* of this kind so far */
    int fail_at;     /* the number of the call that fails, from 1; 0: none */
    int error;       /* its errno */
    int64_t space;   /* bytes until the disk is full; -1: any number */
    bool is_slow;    /* one byte per read and write */
} fault_state;

extern fault_state fault;

/* Lets call number `fail_at` of a kind fail with an errno. */
void fault_arm(fault_kind kind, int fail_at, int error);

/* No call fails. */
void fault_disarm(void);

#endif
