/* profile: sums of the times of kernels, by op. The rows are part of the object, so a step allocates nothing. */
#include <tapegrad/profile.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

#define MAX_ROWS 256

struct tg_profile {
    tg_tape *tape;
    tg_kernel_watch watch;
    double begin; /* when the kernel began, in seconds */
    int64_t count;
    tg_profile_row rows[MAX_ROWS];
};

/* Returns the row of an op. The last row is that of all further ops. */
static tg_profile_row *row_of(tg_profile *p, const char *op)
{
    for (int64_t i = 0; i < p->count; i++) {
        if (p->rows[i].op == op || strcmp(p->rows[i].op, op) == 0) {
            return &p->rows[i];
        }
    }
    if (p->count == MAX_ROWS) {
        return &p->rows[MAX_ROWS - 1];
    }
    tg_profile_row *added = &p->rows[p->count++];
    *added = (tg_profile_row){.op = p->count == MAX_ROWS ? "others" : op};
    return added;
}

/* Returns the seconds of a clock that never goes back. */
static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int64_t bytes_of(const tg_tensor *x)
{
    return tg_tensor_count(x) * (int64_t)tg_dtype_size(tg_tensor_dtype(x));
}

static void begin_kernel(void *context, const tg_op_call *call, bool is_backward)
{
    (void)call;
    (void)is_backward;
    tg_profile *p = context;
    p->begin = seconds_now();
}

static void end_kernel(void *context, const tg_op_call *call, bool is_backward)
{
    tg_profile *p = context;
    double seconds = seconds_now() - p->begin;
    tg_profile_row *row = row_of(p, call->op->name);
    if (is_backward) {
        row->backward_seconds += seconds;
        return;
    }
    row->calls++;
    row->forward_seconds += seconds;
    bool is_view = !call->op->f32.forward && !call->op->f64.forward;
    for (int i = 0; i < call->output_count && !is_view; i++) {
        row->bytes += bytes_of(call->outputs[i]);
    }
}

tg_profile *tg_profile_new(tg_tape *tape)
{
    if (!tape || tg_tape_error(tape)->code != TG_OK) {
        return NULL;
    }
    tg_profile *p = tg_alloc_zeroed(1, sizeof *p);
    if (!p) {
        tg_tape_fail(tape, TG_ERROR_MEMORY, "profile_new", "out of memory");
        return NULL;
    }
    p->tape = tape;
    p->watch = (tg_kernel_watch){.before = begin_kernel, .after = end_kernel, .context = p};
    tg_tape_add_watch(tape, &p->watch);
    return p;
}

void tg_profile_free(tg_profile *p)
{
    if (p) {
        tg_tape_remove_watch(p->tape, &p->watch);
    }
    tg_free(p);
}

void tg_profile_reset(tg_profile *p)
{
    if (p) {
        p->count = 0;
    }
}

int64_t tg_profile_count(const tg_profile *p)
{
    return p ? p->count : 0;
}

static double seconds_of(const tg_profile_row *row)
{
    return row->forward_seconds + row->backward_seconds;
}

tg_profile_row tg_profile_at(const tg_profile *p, int64_t index)
{
    if (!p || index < 0 || index >= p->count) {
        return (tg_profile_row){.op = NULL};
    }
    double total = 0;
    for (int64_t i = 0; i < p->count; i++) {
        total += seconds_of(&p->rows[i]);
    }
    tg_profile_row row = p->rows[index];
    row.share = total > 0 ? seconds_of(&row) / total : 0;
    return row;
}

static int slower_first(const void *a, const void *b)
{
    double left = seconds_of(a), right = seconds_of(b);
    return left > right ? -1 : left < right;
}

bool tg_profile_write(const tg_profile *p, FILE *file, tg_error *error)
{
    if (!p || !file) {
        return tg_error_set(error, TG_ERROR_STATE, "profile_write: the %s is NULL", p ? "file" : "profile");
    }
    tg_profile_row rows[MAX_ROWS];
    for (int64_t i = 0; i < p->count; i++) {
        rows[i] = tg_profile_at(p, i);
    }
    qsort(rows, (size_t)p->count, sizeof *rows, slower_first);
    bool written = fprintf(file, "%-32s %8s %11s %12s %7s %12s\n", "op", "calls", "forward ms", "backward ms", "share",
                           "bytes") >= 0;
    for (int64_t i = 0; written && i < p->count; i++) {
        char op[256];
        tg_escape(op, sizeof op, rows[i].op);
        written = fprintf(file, "%-32s %8lld %11.3f %12.3f %6.1f%% %12lld\n", op, (long long)rows[i].calls,
                          1e3 * rows[i].forward_seconds, 1e3 * rows[i].backward_seconds, 100 * rows[i].share,
                          (long long)rows[i].bytes) >= 0;
    }
    return (written && fflush(file) == 0) ||
           tg_error_set(error, TG_ERROR_FILE, "profile_write: the file cannot be written");
}
