/* tensorboard: a run's folder and its file of events. A record is written by one call of write, and removed if it could
 * not be written completely, so the file always ends with a complete record. */
#include "tools/tensorboard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "system/system.h"
#include "tools/event.h"

/* ---- checks ---- */

bool tg_tensorboard_check(const char *call, const tg_tensorboard *log, const char *tag, int64_t step, tg_error *error)
{
    if (!log || !tag) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, log ? "tag" : "log");
    }
    size_t length = strlen(tag);
    if (length == 0 || tg_utf8_check(tag, length) < length) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: the tag is %s", call, length ? "not UTF-8" : "empty");
    }
    return step >= 0 ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: step %lld; it must be at least 0", call, (long long)step);
}

bool tg_tensorboard_check_dtype(const char *call, const tg_tensor *x, tg_error *error)
{
    if (!tg_tensor_check(call, "tensor", x, error)) {
        return false;
    }
    tg_dtype dtype = tg_tensor_dtype(x);
    return dtype == TG_F32 || dtype == TG_F64 ||
           tg_error_set(error, TG_ERROR_DTYPE, "%s: the tensor is %s; it must be f32 or f64", call,
                        tg_dtype_name(dtype));
}

/* ---- files ---- */

static bool refuse(const char *call, const char *what, const char *path, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_FILE, "%s: %s '%s': %s", call, what, path, strerror(errno));
}

bool tg_folder_make(const char *call, const char *path, tg_error *error)
{
    size_t length = strlen(path);
    char *part = tg_alloc(length + 1, 1);
    if (!part) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", call, path);
    }
    memcpy(part, path, length + 1);
    bool is_ready = true;
    for (size_t i = 1; is_ready && i <= length; i++) {
        if (tg_system_is_separator(path[i]) || path[i] == '\0') {
            part[i] = '\0';
            is_ready = tg_system_make_folder(part);
            int cause = errno;
            is_ready = is_ready || tg_system_status(part).kind == TG_PATH_FOLDER;
            errno = cause;
            is_ready = is_ready || refuse(call, "create the folder", part, error);
            part[i] = path[i];
        }
    }
    tg_free(part);
    return is_ready;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Creates the file of events under a name that does not exist. */
static bool create(tg_tensorboard *log, tg_error *error)
{
    char host[256] = "";
    tg_system_host(host, sizeof host);
    for (char *c = host; *c; c++) {
        *c = tg_system_is_separator(*c) ? '_' : *c;
    }
    size_t size = strlen(log->folder) + sizeof host + 100;
    log->path = tg_alloc(size, 1);
    if (!log->path) {
        return tg_error_set(error, TG_ERROR_MEMORY, "tensorboard_open: '%s': out of memory", log->folder);
    }
    for (int number = 0; log->descriptor < 0 && number < 10000; number++) {
        snprintf(log->path, size, "%s/events.out.tfevents.%010lld.%s.%lld.%d", log->folder, (long long)now(),
                 *host ? host : "localhost", (long long)tg_system_pid(), number);
        log->descriptor = tg_system_open(log->path, TG_OPEN_APPEND);
        if (log->descriptor < 0 && errno != EEXIST) {
            break;
        }
    }
    return log->descriptor >= 0 || refuse("tensorboard_open", "create", log->path, error);
}

/* Writes the record and frees it. An error leaves the file unchanged. */
static bool write_record(const char *call, tg_tensorboard *log, tg_text_buffer *record, tg_error *error)
{
    size_t written = 0;
    bool is_written =
        !record->failed || tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", call, log->path);
    while (is_written && written < record->length) {
        int64_t count = tg_system_write(log->descriptor, record->bytes + written, record->length - written);
        if (count < 0 && errno != EINTR) {
            is_written = refuse(call, "write", log->path, error);
        }
        written += count > 0 ? (size_t)count : 0;
    }
    if (is_written) {
        log->size += (int64_t)record->length;
    } else if (written > 0 && !tg_system_set_size(log->descriptor, (uint64_t)log->size)) {
        /* the torn record stays: the reader stops before it */
    }
    tg_free(record->bytes);
    return is_written;
}

/* ---- public functions ---- */

tg_tensorboard *tg_tensorboard_open(const char *folder, tg_error *error)
{
    if (!folder || !*folder) {
        tg_error_set(error, folder ? TG_ERROR_VALUE : TG_ERROR_STATE, "tensorboard_open: the folder is %s",
                     folder ? "empty" : "NULL");
        return NULL;
    }
    tg_tensorboard *log = tg_alloc_zeroed(1, sizeof *log);
    char *copy = tg_alloc(strlen(folder) + 1, 1);
    if (!log || !copy) {
        tg_error_set(error, TG_ERROR_MEMORY, "tensorboard_open: '%s': out of memory", folder);
        tg_free(log);
        tg_free(copy);
        return NULL;
    }
    strcpy(copy, folder);
    *log = (tg_tensorboard){.folder = copy, .descriptor = -1};
    tg_text_buffer record = {0};
    bool is_ready = tg_folder_make("tensorboard_open", folder, error) && create(log, error);
    if (is_ready) {
        tg_event_version(&record, now());
        is_ready = write_record("tensorboard_open", log, &record, error);
    }
    if (!is_ready) {
        if (log->descriptor >= 0) {
            tg_system_remove(log->path);
        }
        tg_tensorboard_free(log);
        return NULL;
    }
    return log;
}

void tg_tensorboard_free(tg_tensorboard *log)
{
    if (log) {
        if (log->descriptor >= 0) {
            tg_system_close(log->descriptor);
        }
        tg_free(log->folder);
        tg_free(log->path);
        tg_free(log);
    }
}

bool tg_tensorboard_add_scalar(tg_tensorboard *log, const char *tag, double value, int64_t step, tg_error *error)
{
    static const char call[] = "tensorboard_add_scalar";
    tg_text_buffer record = {0};
    if (!tg_tensorboard_check(call, log, tag, step, error)) {
        return false;
    }
    tg_event_scalar(&record, now(), step, tag, value);
    return write_record(call, log, &record, error);
}

bool tg_tensorboard_add_histogram(tg_tensorboard *log, const char *tag, const tg_tensor *x, int64_t step,
                                  tg_error *error)
{
    static const char call[] = "tensorboard_add_histogram";
    tg_text_buffer record = {0};
    if (!tg_tensorboard_check(call, log, tag, step, error) || !tg_tensorboard_check_dtype(call, x, error)) {
        return false;
    }
    tg_histogram *histogram = tg_alloc(1, sizeof *histogram);
    if (!histogram) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    bool has_values = tg_histogram_make(histogram, x);
    if (has_values) {
        tg_event_histogram(&record, now(), step, tag, histogram);
    }
    tg_free(histogram);
    return has_values ? write_record(call, log, &record, error)
                      : tg_error_set(error, TG_ERROR_VALUE, "%s: no value of '%s' is within +-1e20", call, tag);
}
