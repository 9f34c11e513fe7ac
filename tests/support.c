#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "optim/optim.h"

/* The blocks have the form of those of the default allocator (lib/base/alloc.c: what malloc returned stands before
 * them), because some tests count while older objects exist. A program must not do that. */
static void *aligned_block(size_t bytes, size_t alignment)
{
    size_t before = alignment + sizeof(void *);
    char *given = malloc(bytes + before);
    char *block = given ? given + before - (uintptr_t)(given + before) % alignment : NULL;
    if (block) {
        memcpy(block - sizeof given, &given, sizeof given);
    }
    return block;
}

static void *counted_allocate(void *context, size_t bytes, size_t alignment)
{
    counting_allocator *counting = context;
    size_t call = __atomic_add_fetch(&counting->calls, 1, __ATOMIC_RELAXED); /* threads allocate, too */
    if (counting->fail_at && (counting->fail_on ? call >= counting->fail_at : call == counting->fail_at)) {
        return NULL;
    }
    void *block = aligned_block(bytes, alignment);
    if (block) {
        memset(block, 0xcd, bytes); /* nobody may rely on zeros */
        __atomic_add_fetch(&counting->live, 1, __ATOMIC_RELAXED);
    }
    return block;
}

static void counted_release(void *context, void *block)
{
    counting_allocator *counting = context;
    void *given;
    memcpy(&given, (char *)block - sizeof given, sizeof given);
    __atomic_sub_fetch(&counting->live, 1, __ATOMIC_RELAXED);
    free(given);
}

void allocator_install(counting_allocator *counting)
{
    memset(counting, 0, sizeof *counting);
    tg_allocator allocator = {counted_allocate, counted_release, counting};
    tg_set_allocator(&allocator);
}

static void *metered_allocate(void *context, size_t bytes, size_t alignment)
{
    metered_allocator *m = context;
    size_t *block = aligned_alloc(alignment, (bytes + 2 * alignment - 1) / alignment * alignment);
    if (!block) {
        return NULL;
    }
    *block = bytes;
    m->now += bytes;
    m->most = m->now > m->most ? m->now : m->most;
    return (char *)block + alignment;
}

static void metered_release(void *context, void *block)
{
    metered_allocator *m = context;
    char *start = (char *)block - 64;
    m->now -= *(size_t *)(void *)start;
    aligned_free(start);
}

void allocator_measure(metered_allocator *meter)
{
    *meter = (metered_allocator){0, 0};
    tg_allocator allocator = {metered_allocate, metered_release, meter};
    tg_set_allocator(&allocator);
}

void allocator_restore(void)
{
    tg_set_allocator(NULL);
}

void allocator_arm(counting_allocator *counting, size_t fail_at, bool fail_on)
{
    counting->calls = 0;
    counting->fail_at = fail_at;
    counting->fail_on = fail_on;
}

static tg_tensor *from(tg_dtype dtype, tg_shape shape, const void *values)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = tg_tensor_new_from(dtype, shape, values, &error);
    if (!x) {
        fail_msg("%s", error.text);
    }
    return x;
}

tg_tensor *tensor_f32(tg_shape shape, const float *values)
{
    return from(TG_F32, shape, values);
}

tg_tensor *tensor_f64(tg_shape shape, const double *values)
{
    return from(TG_F64, shape, values);
}

tg_tensor *tensor_i32(tg_shape shape, const int32_t *values)
{
    return from(TG_I32, shape, values);
}

tg_tensor *leaf(tg_tensor *x)
{
    assert_true(tg_tensor_set_requires_grad(x, true, NULL));
    return x;
}

static const char *code_name(tg_code code)
{
    static const char *const names[] = {"no", "MEMORY", "SHAPE", "DTYPE", "RANGE", "VALUE", "STATE", "FILE", "FORMAT"};
    return names[code];
}

static void check_error(const tg_error *error, tg_code expected, const char *part)
{
    if (error->code != expected || !strstr(error->text, part)) {
        fail_msg("expected a %s error with \"%s\", found %s: \"%s\"", code_name(expected), part, code_name(error->code),
                 error->text);
    }
}

void clear_tape_error(tg_tape *tape)
{
    tg_run_clear_error(tg_tape_run(tape));
}

void clear_params_error(tg_params *params)
{
    tg_run_clear_error(tg_params_run(params));
}

void clear_optim_error(tg_optim *optim)
{
    tg_run_clear_error(optim ? optim->run : NULL);
}

void clear_loader_error(tg_loader *loader)
{
    tg_run_clear_error(loader ? loader->run : NULL);
}

const tg_error *optim_error(const tg_optim *optim)
{
    return tg_run_error(optim ? optim->run : NULL);
}

void assert_tape_error(tg_tape *tape, tg_code code, const char *part)
{
    check_error(tg_tape_error(tape), code, part);
    clear_tape_error(tape);
}

void assert_params_error(tg_params *params, tg_code code, const char *part)
{
    check_error(tg_params_error(params), code, part);
    clear_params_error(params);
}

void assert_optim_error(tg_optim *optim, tg_code code, const char *part)
{
    check_error(optim_error(optim), code, part);
    clear_optim_error(optim);
}

void assert_error(tg_error *error, tg_code code, const char *part)
{
    check_error(error, code, part);
    tg_error_clear(error);
}

void assert_values(const tg_tensor *x, const double *expected, int64_t count, double relative, double absolute)
{
    assert_non_null(x);
    assert_int_equal(tg_tensor_count(x), count);
    for (int64_t i = 0; i < count; i++) {
        double value = tg_tensor_value_at(x, i);
        bool close = value == expected[i] || (isnan(value) && isnan(expected[i])) ||
                     fabs(value - expected[i]) <= absolute + relative * fabs(expected[i]);
        if (!close) {
            fail_msg("value %lld is %.17g, expected %.17g", (long long)i, value, expected[i]);
        }
    }
}

void assert_resizes_are_seen(tg_params *params, tg_gradcheck_function call, void *context, tg_tensor *const *inputs,
                             int count, const char *may)
{
    for (int64_t cell = 0; cell < 4 * tg_params_count(params); cell++) {
        tg_entry entry = tg_params_at(params, cell / 4);
        int64_t rows = tg_tensor_size(entry.tensor, 0), sizes[] = {1, rows - 1, rows + 1, 2 * rows};
        tg_tensor *values = tg_tensor_new_copy(entry.tensor, NULL);
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tape_set_training(t, false);
        tg_tensor_zero_grad(entry.tensor);
        assert_true(tg_tensor_resize_rows(entry.tensor, sizes[cell % 4], NULL));
        const tg_tensor *y = call(t, inputs, count, context);
        tg_code code = tg_tape_error(t)->code;
        if (y ? !strstr(may, entry.name) : code != TG_ERROR_SHAPE && code != TG_ERROR_RANGE) {
            fail_msg("'%s' of %d rows, with %d: %s", entry.name, (int)rows, (int)sizes[cell % 4],
                     y ? "no error" : tg_tape_error(t)->text);
        }
        tg_tape_free(t);
        assert_true(tg_tensor_resize_rows(entry.tensor, rows, NULL) && tg_tensor_copy_from(entry.tensor, values, NULL));
        tg_release(values);
    }
}

size_t read_little_endian(void *numbers, size_t size, size_t count, FILE *file)
{
    const uint16_t one = 1;
    size_t done = fread(numbers, size, count, file);
    bool is_little_endian = *(const uint8_t *)&one == 1;
    for (uint8_t *number = numbers; !is_little_endian && number < (uint8_t *)numbers + done * size; number += size) {
        for (size_t i = 0; i < size / 2; i++) {
            uint8_t byte = number[i];
            number[i] = number[size - 1 - i];
            number[size - 1 - i] = byte;
        }
    }
    return done;
}
