/* system (private): what differs between operating systems. No other file of the library or the examples has an #ifdef
 * of a system (tests/lint/systems).
 *
 * Each file beside this header is compiled everywhere, and empty on other systems. posix.c has what all of them but
 * Windows share, linux.c what Linux does better, and windows.c all of it. Paths are UTF-8 on each system. As in POSIX,
 * a call that fails sets errno, and so messages are those of strerror. A companion compiles the folder into its own
 * library, because the calls are hidden.
 */
#ifndef TG_SYSTEM_SYSTEM_H
#define TG_SYSTEM_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- paths ---- */

typedef enum tg_path_kind {
    TG_PATH_NONE, /* nothing has this path; errno says why */
    TG_PATH_FILE,
    TG_PATH_FOLDER,
    TG_PATH_PIPE,
    TG_PATH_OTHER /* a device or a socket */
} tg_path_kind;

typedef struct tg_path_status {
    tg_path_kind kind;
    uint64_t size; /* in bytes */
    unsigned mode; /* who may read and write; 0 where a system has no modes */
} tg_path_status;

tg_path_status tg_system_status(const char *path);

/* Returns whether a character ends the name of a folder in a path. */
bool tg_system_is_separator(char c);

/* Writes the target of a symbolic link without a NUL. Returns its length; -1 if the path is none. */
int64_t tg_system_link_target(const char *path, char *target, size_t size);

bool tg_system_rename(const char *from, const char *to); /* replaces `to`, also while another program reads it */
bool tg_system_remove(const char *path);
bool tg_system_make_folder(const char *path);

/* Calls `visit` for each entry of a folder. Returns 0, or the errno with which it could not be opened, or as a negative
 * number with which it could not be read. */
int tg_system_visit(const char *folder, void (*visit)(void *context, const char *name), void *context);

/* Writes the entries of a folder to the disk. A file system that cannot do so, and a folder that the program may not
 * read, are no errors. */
bool tg_system_sync_folder(const char *folder);

/* ---- files ---- */

typedef enum tg_open_how {
    TG_OPEN_READ,   /* never waits for the writer of a pipe */
    TG_OPEN_WRITE,  /* a file that exists */
    TG_OPEN_UPDATE, /* a file that exists, to read and to write it */
    TG_OPEN_NEW,    /* writes; EEXIST if the path exists */
    TG_OPEN_APPEND, /* as TG_OPEN_NEW, and always writes at the end */
    TG_OPEN_LOCK    /* a file for tg_system_lock, which is created if it does not exist */
} tg_open_how;

/* Returns a descriptor that programs which this one starts do not inherit; -1 after an error. */
int tg_system_open(const char *path, tg_open_how how);
bool tg_system_close(int file);
tg_path_status tg_system_status_of(int file);

/* Read and write up to `length` bytes. Return their number, 0 at the end, and -1 after an error. */
int64_t tg_system_read_at(int file, void *bytes, size_t length, uint64_t offset);
int64_t tg_system_write(int file, const void *bytes, size_t length);
int64_t tg_system_write_at(int file, const void *bytes, size_t length, uint64_t offset);

/* Tells the system what the program will read soon, so that the disk can read several parts of a file at a time. A
 * refusal is no error. */
void tg_system_will_read(int file, size_t length, uint64_t offset);

bool tg_system_seek(int file, uint64_t offset);
bool tg_system_set_size(int file, uint64_t size);
bool tg_system_set_mode(int file, unsigned mode);
bool tg_system_sync(int file); /* writes the file to the disk */

/* Locks a file for this process. EWOULDBLOCK if another one holds the lock. */
bool tg_system_lock(int file);
void tg_system_unlock(int file);

/* ---- the process ---- */

int64_t tg_system_pid(void); /* its number */

/* Writes the name of the machine, with a NUL; "" if it is unknown. */
void tg_system_host(char *name, size_t size);

/* Returns the number of processors that the process may run on, or, if that is unknown, of those that are online; at
 * least 1. Under Linux at most those whose time its control group may use. */
int tg_system_processors(void);

/* Linux: returns that limit, rounded up, for a file like /proc/self/cgroup and a folder like /sys/fs/cgroup; INT_MAX if
 * there is none. */
int tg_system_processor_limit(const char *groups, const char *root);

/* After each fork the child calls `forget`. */
void tg_system_after_fork(void (*forget)(void));

/* Asks for huge pages for a large block. A refusal is no error. */
void tg_system_ask_for_huge_pages(char *block, size_t bytes);

#endif
