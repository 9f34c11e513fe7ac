/* scaling: a program of tests/bench/program.h with any number of threads, its bounds, and where its time goes, for
 * tests/bench/scaling.
 *
 *     bench_scaling [--products=auto|blas|builtin] NAME
 *     bench_scaling --list
 *
 * Answers lines "WHAT THREADS ROUNDS" with the seconds of each round. WHAT is "step"; "products", the matrix products
 * of a step alone, on memory of their own; "outer", those of them that no loop of threads has; "read" and "copy", loops
 * over as many bytes as a step has to read, or to read and write; or "profile" and "shapes" (replay_print_outer), which
 * are answered with JSON. A bound that the program has not is answered with an empty line.
 *
 * The linker puts the functions __wrap_... before those of the library, so that all loops of threads, products, kernels
 * and steps of optimizers are seen, also those of a check's own tapes.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <tapegrad.h>
#include <tapegrad/extend.h>

#include "base/parallel.h"
#include "bench/figure.h"
#include "bench/op_bound.h"
#include "bench/program.h"
#include "bench/read_bound.h"
#include "bench/replay.h"
#include "tape/tape.h"

/* ---- where the time of a step goes ---- */

/* The time of the calling thread between two events belongs to a row: an op, a pass, or what is between them. */
typedef struct share {
    const char *name;
    bool is_backward;
    int64_t calls;
    /* loops that woke threads */
    int64_t loops;
    /* the time that passed, that in such loops, and that of all threads in their parts */
    double seconds, loop_seconds, busy;
} share;

enum { MOST_ROWS = 256 };

static struct {
    bool is_on;
    share rows[MOST_ROWS];
    int count;
    share *now;
    double since;
} profile;

static share *share_of(const char *name, bool is_backward)
{
    for (int i = 0; i < profile.count; i++) {
        if (profile.rows[i].is_backward == is_backward && strcmp(profile.rows[i].name, name) == 0) {
            return &profile.rows[i];
        }
    }
    if (profile.count < MOST_ROWS) {
        profile.rows[profile.count++] = (share){.name = name, .is_backward = is_backward};
    }
    return &profile.rows[profile.count - 1];
}

/* Returns the row that was there. */
static share *change_row(share *next)
{
    share *before = profile.now;
    const double time = bench_seconds();
    before->seconds += time - profile.since;
    profile.since = time;
    profile.now = next;
    return before;
}

static share *between(void)
{
    return &profile.rows[0];
}

void __real_tg_watch_before(const tg_tape *t, const tg_op_call *call, bool is_backward),
    __wrap_tg_watch_before(const tg_tape *t, const tg_op_call *call, bool is_backward);
void __wrap_tg_watch_before(const tg_tape *t, const tg_op_call *call, bool is_backward)
{
    __real_tg_watch_before(t, call, is_backward);
    if (profile.is_on) {
        share *next = share_of(call->op->name, is_backward);
        next->calls++;
        change_row(next);
    }
}

void __real_tg_watch_after(const tg_tape *t, const tg_op_call *call, bool is_backward),
    __wrap_tg_watch_after(const tg_tape *t, const tg_op_call *call, bool is_backward);
void __wrap_tg_watch_after(const tg_tape *t, const tg_op_call *call, bool is_backward)
{
    if (profile.is_on) {
        change_row(between());
    }
    __real_tg_watch_after(t, call, is_backward);
}

bool __real_tg_optim_step(tg_optim *optim), __wrap_tg_optim_step(tg_optim *optim);
bool __wrap_tg_optim_step(tg_optim *optim)
{
    if (!profile.is_on) {
        return __real_tg_optim_step(optim);
    }
    share *next = share_of("optimizer", false);
    next->calls++;
    change_row(next);
    const bool good = __real_tg_optim_step(optim);
    change_row(between());
    return good;
}

/* ---- loops of threads ---- */

typedef struct loop {
    loop_body *body;
    void *context;
    atomic_llong nanoseconds;
    atomic_int ranges;
} loop;

static _Thread_local bool is_inside;

static void run_range(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    const bool was_inside = is_inside;
    const double start = bench_seconds();
    is_inside = true;
    l->body(l->context, begin, end);
    is_inside = was_inside;
    atomic_fetch_add(&l->nanoseconds, (long long)(1e9 * (bench_seconds() - start)));
    atomic_fetch_add(&l->ranges, 1);
}

void __real_tg_parallel_for(int64_t count, int64_t grain, loop_body *body, void *context),
    __wrap_tg_parallel_for(int64_t count, int64_t grain, loop_body *body, void *context);
void __wrap_tg_parallel_for(int64_t count, int64_t grain, loop_body *body, void *context)
{
    if (is_inside || !(profile.is_on || replay_is_recording())) {
        __real_tg_parallel_for(count, grain, body, context);
        return;
    }
    loop l = {.body = body, .context = context};
    replay_begin_loop(grain > 0 ? count / grain : count);
    const double start = bench_seconds();
    __real_tg_parallel_for(count, grain, run_range, &l);
    const double seconds = bench_seconds() - start;
    replay_end_loop();
    if (profile.is_on && l.ranges > 1) {
        profile.now->loops++;
        profile.now->loop_seconds += seconds;
        profile.now->busy += 1e-9 * (double)l.nanoseconds;
    }
}

void __real_tg_gemm_f32(const tg_gemm *g, const float *a, const float *b, float *c),
    __wrap_tg_gemm_f32(const tg_gemm *g, const float *a, const float *b, float *c);
void __wrap_tg_gemm_f32(const tg_gemm *g, const float *a, const float *b, float *c)
{
    replay_add(&(replay_call){.g = *g, .kind = REPLAY_F32, .a = a, .b = b, .c = c});
    __real_tg_gemm_f32(g, a, b, c);
}

void __real_tg_gemm_f64(const tg_gemm *g, const double *a, const double *b, double *c),
    __wrap_tg_gemm_f64(const tg_gemm *g, const double *a, const double *b, double *c);
void __wrap_tg_gemm_f64(const tg_gemm *g, const double *a, const double *b, double *c)
{
    replay_add(&(replay_call){.g = *g, .kind = REPLAY_F64, .a = a, .b = b, .c = c});
    __real_tg_gemm_f64(g, a, b, c);
}

void __real_tg_gemm_bf16(const tg_gemm *g, const float *a, const uint16_t *b, float *c),
    __wrap_tg_gemm_bf16(const tg_gemm *g, const float *a, const uint16_t *b, float *c);
void __wrap_tg_gemm_bf16(const tg_gemm *g, const float *a, const uint16_t *b, float *c)
{
    replay_add(&(replay_call){.g = *g, .kind = REPLAY_BF16, .a = a, .b = b, .c = c});
    __real_tg_gemm_bf16(g, a, b, c);
}

/* ---- answers ---- */

typedef struct served {
    program program;
    replay products;
    read_bound read;
    char *from, *to;
} served;

static void run_step(void *context)
{
    served *s = context;
    s->program.row->step(&s->program);
}

static void run_products(void *context)
{
    served *s = context;
    replay_run(&s->products);
}

static void run_outer(void *context)
{
    served *s = context;
    replay_run_outer(&s->products);
}

static void run_read(void *context)
{
    served *s = context;
    read_bound_run(&s->read);
}

static void run_copy(void *context)
{
    served *s = context;
    bench_copy(s->to, s->from, (int64_t)(s->program.copied_bytes / 2), 1 << 16);
}

/* Records the products of a step, and makes the memory of the bounds. */
static void prepare(served *s)
{
    tg_set_threads(1, NULL);
    run_step(s);
    replay_record(&s->products);
    run_step(s);
    replay_prepare(&s->products);
    s->read = read_bound_new(s->program.read_bytes);
    const size_t half = (size_t)(s->program.copied_bytes / 2) + 1;
    s->from = bench_must(malloc(half));
    s->to = bench_must(malloc(half));
    memset(s->from, 1, half);
    memset(s->to, 1, half);
}

static void print_profile(served *s, int rounds)
{
    struct rusage before, after;
    memset(&profile, 0, sizeof profile);
    profile.rows[profile.count++] = (share){.name = "between kernels"};
    profile.now = between();
    getrusage(RUSAGE_SELF, &before);
    const double start = bench_seconds();
    profile.since = start;
    profile.is_on = true;
    for (int round = 0; round < rounds; round++) {
        run_step(s);
    }
    profile.is_on = false;
    change_row(between());
    getrusage(RUSAGE_SELF, &after);
    printf("{\"seconds\": %.9f, \"sleeps\": %.1f, \"rows\": [", (bench_seconds() - start) / rounds,
           (double)(after.ru_nvcsw - before.ru_nvcsw) / rounds);
    for (int i = 0; i < profile.count; i++) {
        const share *r = &profile.rows[i];
        printf("%s{\"name\": \"%s%s\", \"calls\": %.1f, \"loops\": %.1f, \"seconds\": %.9f, \"loop_seconds\": %.9f, "
               "\"busy\": %.9f}",
               i ? ", " : "", r->name, r->is_backward ? " backward" : "", (double)r->calls / rounds,
               (double)r->loops / rounds, r->seconds / rounds, r->loop_seconds / rounds, r->busy / rounds);
    }
    printf("]}\n");
    fflush(stdout);
}

static void answer(served *s, const char *what, int rounds)
{
    const struct {
        const char *what;
        void (*run)(void *served);
        bool exists;
    } loops[] = {
        {"step", run_step, true},
        {"products", run_products, replay_count(&s->products) > 0},
        {"outer", run_outer, replay_count(&s->products) > 0},
        {"read", run_read, s->program.read_bytes > 0},
        {"copy", run_copy, s->program.copied_bytes > 0},
    };
    if (s->program.again) {
        s->program.again(&s->program);
    }
    if (strcmp(what, "profile") == 0) {
        print_profile(s, rounds);
        return;
    }
    if (strcmp(what, "shapes") == 0) {
        replay_print_outer(&s->products);
        return;
    }
    for (int i = 0; i < 5; i++) {
        if (strcmp(what, loops[i].what) == 0) {
            bench_print_seconds(loops[i].run, s, loops[i].exists ? rounds : -2);
        }
    }
}

static int serve(const program_row *row)
{
    char what[16];
    int threads, rounds;
    served s = {.program = program_new(row)};
    prepare(&s);
    while (scanf("%15s %d %d", what, &threads, &rounds) == 3) {
        tg_error error = TG_NO_ERROR;
        program_must(tg_set_threads(threads, &error), &error);
        answer(&s, what, rounds);
    }
    replay_free(&s.products);
    read_bound_free(&s.read);
    free(s.from);
    free(s.to);
    program_free(&s.program);
    return 0;
}

static int list(void)
{
    const program_row *row;
    for (int i = 0; (row = program_at(i)); i++) {
        puts(row->name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const products[] = {"--products=auto", "--products=blas", "--products=builtin"};
    for (int i = 0; i < 3 && argc > 1; i++) {
        if (strcmp(argv[1], products[i]) == 0) {
            tg_error error = TG_NO_ERROR;
            program_must(tg_set_matmul_backend((tg_matmul_backend)i, &error), &error);
            argv++;
            argc--;
        }
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list();
    }
    const program_row *row = argc == 2 ? program_named(argv[1]) : NULL;
    if (!row) {
        fprintf(stderr, "bench_scaling: [--products=auto|blas|builtin] NAME, or --list\n");
        return 2;
    }
    return serve(row);
}
