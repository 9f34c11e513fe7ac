/* The ways to run a program, and what must agree. */
#include <string.h>

#include "../fuzz/fuzz.h"
#include "programs.h"

/* A way, and how near to the plain run of its dtype it must be. */
typedef struct variant {
    settings s;
    bool is_f64; /* in f64 whatever the dtype of the program */
    bool has_same_bits, except_products;
    closeness closeness; /* if the bits may differ */
} variant;

static const variant variants[] = {
    {.s = {.name = "spans", .has_spans = true, .recycles = true}, .has_same_bits = true},
    {.s = {.name = "recycled blocks", .has_spans = true, .recycles = true, .runs_twice = true}, .has_same_bits = true},
    {.s = {.name = "failing allocations", .has_spans = true, .fails = true}, .has_same_bits = true},
    {.s = {.name = "detected results", .has_spans = true, .recycles = true, .detects_freed = true},
     .has_same_bits = true},
    {.s = {.name = "baseline", .recycles = true, .is_baseline = true}, .has_same_bits = true},
    {.s = {.name = "three threads", .has_spans = true, .recycles = true, .threads = 3},
     .has_same_bits = true,
     .except_products = true,
     .closeness = {.tolerance = 1e-3, .until_step = true}},
    {.s = {.name = "dense rows", .recycles = true, .has_dense_rows = true}, .has_same_bits = true},
    {.s = {.name = "elementary", .recycles = true, .is_elementary = true},
     .closeness = {.tolerance = 1e-2, .until_step = true}},
    {.s = {.name = "elementary f64", .recycles = true, .is_elementary = true},
     .is_f64 = true,
     .closeness = {.tolerance = 1e-6, .until_step = true}},
    {.s = {.name = "deferred", .recycles = true, .is_deferred = true},
     .is_f64 = true,
     .closeness = {.tolerance = 1e-6}},
    {.s = {.name = "deferred, spans", .has_spans = true, .is_deferred = true},
     .is_f64 = true,
     .closeness = {.tolerance = 1e-6}},
    {.s = {.name = "copied inputs", .recycles = true, .copies_inputs = true},
     .is_f64 = true,
     .closeness = {.tolerance = 1e-6, .absent_is_zero = true}},
};

static bool report(finding *f, const char *first, const char *second, const char *text)
{
    f->is_found = true;
    snprintf(f->variants, sizeof f->variants, "%s and %s", first, second);
    snprintf(f->text, sizeof f->text, "%s", text);
    return true;
}

/* Runs a program in f64 with what finite differences need, and compares its gradients with them. */
static void check_gradients(const program *p, run_log *l, finding *f)
{
    static run r;
    static const settings plain = {.name = "plain f64",
                                   .dtype = TG_F64,
                                   .copies_gradients = true,
                                   .has_snapshots = true,
                                   .is_differentiated = true};
    fuzz_memory_begin();
    log_clear(l);
    run_begin(&r, p, &plain, l);
    run_all(&r);
    check_differences(p, &r, f);
    run_end(&r);
    fuzz_memory_end();
}

/* Compares one variant with the plain run. Returns whether they differ. */
static bool check_variant(const program *p, const variant *v, const run_log *plain, finding *f)
{
    static run_log l;
    settings s = v->s;
    s.dtype = v->is_f64 || p->is_f64 ? TG_F64 : TG_F32;
    run_program(p, &s, &l);
    bool has_bits =
        v->has_same_bits && !(v->except_products && !is_reproducible && (p->has_products || p->has_modules));
    static const closeness bits = {.tolerance = 0};
    closeness c = has_bits ? bits : v->closeness;
    char text[500];
    if (l.broken[0]) {
        return report(f, s.name, "the rules", l.broken);
    }
    return log_differ(plain, &l, p, &c, text, sizeof text) && report(f, "plain", s.name, text);
}

void check_program(const program *p, finding *f, char *now, size_t now_size)
{
    static run_log plain, plain_f64;
    settings s = {.name = "plain", .dtype = p->is_f64 ? TG_F64 : TG_F32, .copies_gradients = true};
    memset(f, 0, sizeof *f);
    snprintf(now, now_size, "plain");
    run_program(p, &s, &plain);
    s.dtype = TG_F64;
    run_program(p, &s, &plain_f64);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const variant *v = &variants[i];
        snprintf(now, now_size, "%s", v->s.name);
        if (check_variant(p, v, v->is_f64 ? &plain_f64 : &plain, f)) {
            return;
        }
    }
    snprintf(now, now_size, "finite differences");
    check_gradients(p, &plain_f64, f);
}
