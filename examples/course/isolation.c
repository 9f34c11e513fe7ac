/* isolation: commands that put bubblewrap around a compiler and a worker, for files that may be hostile.
 *
 * A process sees /usr, what it needs for its step, and an empty /tmp; no network, no other process, no environment. Its
 * time, memory, files and processes are limited. The solutions are never visible. As root, bubblewrap makes the mounts
 * as root, and the process runs under a uid of its own; else a user namespace is needed. A worker gives up most calls
 * of the system besides (checks/seal.c).
 *
 * Sanitizers reserve terabytes of addresses, so the run with them cannot limit addresses: there the checker watches the
 * memory that is used (checks/check.c). Without root, Linux before 5.14 counts all processes of the grader's user
 * against the limit of processes: the worker needs only one, and the compiler, which runs no code of the file, may have
 * more.
 */
#include "grade.h"
#include "memory.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add(prefix *p, const char *word)
{
    if (p->count < MAX_PREFIX && p->used + strlen(word) < sizeof p->text) {
        p->words[p->count++] = strcpy(p->text + p->used, word);
        p->used += strlen(word) + 1;
        p->words[p->count] = NULL;
    }
}

static void add_all(prefix *p, const char *const *words)
{
    for (; *words; words++) {
        add(p, *words);
    }
}

/* bubblewrap would make the folders above a mount for root alone. */
static void add_parents(prefix *p, const char *path)
{
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        char parent[COURSE_PATH];
        FORMAT(parent, "%.*s", (int)(slash - path), path);
        bool is_there = false;
        for (int i = 0; i < p->count; i++) {
            is_there = is_there || strcmp(p->words[i], parent) == 0;
        }
        if (!is_there) {
            add(p, "--perms");
            add(p, "0755");
            add(p, "--dir");
            add(p, parent);
        }
    }
}

/* A file or folder at the same place inside. */
static void bind(prefix *p, const char *how, const char *path)
{
    add_parents(p, path);
    add(p, how);
    add(p, path);
    add(p, path);
}

static void add_limit(prefix *p, const char *name, long long value)
{
    char word[64];
    FORMAT(word, "--%s=%lld", name, value);
    add(p, word);
}

static void begin(prefix *p)
{
    memset(p, 0, sizeof *p);
    /* clang-format off */
    static const char *const first[] = {
        "bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc",
        "--unshare-uts", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LC_ALL", "C",
        "--setenv", "OPENBLAS_NUM_THREADS", "1", "--setenv", "OMP_NUM_THREADS", "1",
        "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
        "--symlink", "usr/lib64", "/lib64", "--perms", "0755", "--dir", "/etc",
        "--ro-bind-try", "/etc/alternatives", "/etc/alternatives",
        "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev",
        "--size", "268435456", "--tmpfs", "/tmp", NULL,
    };
    /* clang-format on */
    add_all(p, first);
    if (getuid() != 0) {
        add(p, "--unshare-user");
    }
}

static void end(prefix *p, const char *folder, const limits *l)
{
    add(p, "--chdir");
    add(p, folder);
    add(p, "--");
    if (getuid() == 0) {
        char uid[32];
        FORMAT(uid, "%d", isolation_uid());
        static const char *const drop[] = {"--clear-groups", "--no-new-privs", "--bounding-set=-all", NULL};
        add(p, "setpriv");
        add(p, "--reuid");
        add(p, uid);
        add(p, "--regid");
        add(p, uid);
        add_all(p, drop);
    }
    add(p, "prlimit");
    add_limit(p, "cpu", l->seconds);
    add_limit(p, "fsize", l->file_bytes);
    add_limit(p, "nofile", l->files);
    add_limit(p, "nproc", l->processes);
    if (l->address_bytes > 0) {
        add_limit(p, "as", l->address_bytes);
    }
}

int isolation_uid(void)
{
    return 61000 + (int)(getpid() % 1000);
}

void isolation_compile(prefix *p, const course_paths *paths, const char *folder)
{
    begin(p);
    bind(p, "--ro-bind", paths->include);
    bind(p, "--bind", folder);
    end(p, folder, &(limits){30, 64 << 20, 64, 4096, 4LL << 30});
}

void isolation_link(prefix *p, const course_paths *paths, const char *folder)
{
    char checks[COURSE_PATH];
    FORMAT(checks, "%s/checks", paths->source);
    begin(p);
    bind(p, "--ro-bind", paths->include);
    bind(p, "--ro-bind", checks);
    bind(p, "--ro-bind", paths->library);
    bind(p, "--ro-bind", paths->checkers); /* the worker, whose archive names its objects */
    bind(p, "--bind", folder);
    end(p, folder, &(limits){30, 64 << 20, 64, 4096, 4LL << 30});
}

void isolation_run(prefix *p, const course_paths *paths, const char *folder, bool has_sanitizers)
{
    begin(p);
    bind(p, "--ro-bind", paths->library);
    bind(p, "--ro-bind", folder);
    end(p, folder, &(limits){20, has_sanitizers ? 1 << 20 : 0, 32, 24, has_sanitizers ? 0 : 1LL << 30});
}

bool isolation_works(const course_paths *paths, const char *folder)
{
    char output_path[COURSE_PATH];
    FORMAT(output_path, "%s/isolation.txt", folder);
    prefix p;
    isolation_run(&p, paths, folder, true);
    add(&p, "true");
    if (!memory_can_be_read()) {
        return complain("grade: the kernel does not list the children of a process (CONFIG_PROC_CHILDREN), so memory "
                        "cannot be limited");
    }
    int status = command_run(p.words, output_path);
    char *output = file_read_beginning(output_path);
    if (status == 127) {
        complain("grade: bubblewrap is not installed: apt-get install bubblewrap; or --no-isolation for files that you "
                 "trust");
    } else if (status != 0) {
        complain("grade: bubblewrap does not work here, so submissions cannot be isolated: %.*s; --no-isolation runs "
                 "files that you trust",
                 output ? (int)strcspn(output, "\n") : 0, output ? output : "");
    }
    free(output);
    return status == 0;
}
