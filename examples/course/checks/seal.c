/* seal: a graded worker gives up all calls of the system but the few that it needs, before the student's function runs.
 *
 * No list of functions shows what a file can reach by arithmetic on an address. What is left to such a file is its own
 * memory, and that is limited and read from outside: the kernel ends a process that starts another, shares memory,
 * opens a socket, or does anything else that is not listed here.
 */
#include "worker.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined __x86_64__
#define PROCESSOR AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define PROCESSOR AUDIT_ARCH_AARCH64
#elif defined __riscv && __riscv_xlen == 64
#define PROCESSOR AUDIT_ARCH_RISCV64
#else
#define PROCESSOR 0
#endif

/* What answers, and ends. */
static const int always[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group};
/* Memory of its own; what stdio and the sanitizers ask. */
static const int at_first[] = {SYS_brk,          SYS_munmap,      SYS_mremap,         SYS_madvise, SYS_fstat,
                               SYS_rt_sigaction, SYS_sigaltstack, SYS_rt_sigprocmask, SYS_getpid,  SYS_gettid};

/* What libraries ask and can do without. */
static const int refused[] = {
#ifdef SYS_open
    SYS_open,      SYS_readlink,   SYS_stat,
#endif
    SYS_openat,    SYS_newfstatat, SYS_ioctl, SYS_readlinkat, SYS_sched_getaffinity,
    SYS_prlimit64, SYS_getrandom,  SYS_mbind, /* OpenBLAS for its second block of memory, on some processors */
    SYS_futex,                                /* with one thread there is nobody to wake */
};

#define OFFSET(member) ((uint32_t)offsetof(struct seccomp_data, member))
#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OFFSET(member))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
/* Continues with the next instruction if the comparison holds, else behind it. */
#define IF(comparison, value) BPF_JUMP(BPF_JMP | (comparison) | BPF_K, (uint32_t)(value), 0, 1)

typedef struct program {
    struct sock_filter steps[128];
    unsigned short count;
} program;

static void add(program *p, struct sock_filter step)
{
    p->steps[p->count++] = step;
}

static void answer(program *p, const int *calls, size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++) {
        add(p, (struct sock_filter)IF(BPF_JEQ, calls[i]));
        add(p, (struct sock_filter)ANSWER(value));
    }
}

/* Allows mmap, whose fourth argument has flags, or mprotect, unless the memory would be executable, or shared with
 * others; continues behind another call. */
static void allow_memory(program *p, int call, bool has_flags)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, has_flags ? 6 : 4));
    add(p, (struct sock_filter)LOAD(args[2]));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, has_flags ? 2 : 0, has_flags ? 0 : 1));
    if (has_flags) {
        add(p, (struct sock_filter)LOAD(args[3]));
        add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 1));
    }
    add(p, (struct sock_filter)ANSWER(SECCOMP_RET_KILL_PROCESS));
    add(p, (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW));
}

bool seal(bool may_map)
{
    program p = {.count = 0};
    add(&p, (struct sock_filter)LOAD(arch));
    add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROCESSOR, 1, 0));
    add(&p, (struct sock_filter)ANSWER(SECCOMP_RET_KILL_PROCESS));
    add(&p, (struct sock_filter)LOAD(nr));
    answer(&p, always, sizeof always / sizeof *always, SECCOMP_RET_ALLOW);
    answer(&p, refused, sizeof refused / sizeof *refused, SECCOMP_RET_ERRNO | EINVAL);
    if (may_map) {
        answer(&p, at_first, sizeof at_first / sizeof *at_first, SECCOMP_RET_ALLOW);
        allow_memory(&p, SYS_mmap, true);
        allow_memory(&p, SYS_mprotect, false);
        add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3)); /* to seal itself again */
        add(&p, (struct sock_filter)LOAD(args[0]));
        add(&p, (struct sock_filter)IF(BPF_JEQ, PR_SET_SECCOMP));
        add(&p, (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW));
    }
    add(&p, (struct sock_filter)ANSWER(SECCOMP_RET_KILL_PROCESS));
    struct sock_fprog loaded = {p.count, p.steps};
    bool gains_nothing = !may_map || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    return PROCESSOR != 0 && gains_nothing && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &loaded, 0, 0) == 0;
}
