#include "products/onednn.h"

#include <string.h>

#include <dnnl.h>

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "base/parallel.h"

/* OpenMP's functions for the number of threads that the calling thread gets, which is the number of oneDNN's threads.
 * They are declared here because clang has no omp.h for the OpenMP library that oneDNN uses. */
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);

/* Sizes of parts are multiples of this number, the number of columns that oneDNN's kernels compute together. */
#define PART_STEP 64

/* The number of multiplications that is worth the wake-up of a thread. */
#define PART_PRODUCT (1 << 20)

/* Below this number of multiplications, BLAS is faster. */
#define SMALLEST_PRODUCT (64 * 64 * 64)

/* The largest matrix, in values: 2 GiB of floats. */
#define LARGEST_MATRIX ((int64_t)1 << 29)

/* One thread's part of a product: some rows of C, or some columns. */
typedef struct part {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_memory_t a, b, c, scratch;
    int64_t first, m, n; /* of the whole product's rows or columns, and the sizes of this part of C */
} part;

/* The parts of a product. */
typedef struct parts {
    int threads; /* tg_threads() when the parts were made */
    int count;
    part *part;
    size_t scratch_bytes; /* of the part that needs most */
} parts;

typedef struct prepared {
    tg_gemm gemm;
    bool add;
    bool is_used; /* whether the product was prepared again since the end of the last step */
    parts parts;
} prepared;

struct tg_onednn {
    dnnl_engine_t engine;
    prepared *products;
    size_t count, capacity;
    char *scratch;
    size_t scratch_bytes;
};

const char *tg_onednn_missing(void)
{
    int bf16 = dnnl_cpu_isa_avx512_core_bf16;
    return ((int)dnnl_get_effective_cpu_isa() & bf16) == bf16
               ? NULL
               : "oneDNN finds no instructions for bf16 (AVX512_BF16 or AMX_BF16) in this processor";
}

tg_onednn *tg_onednn_new(void)
{
    tg_onednn *o = tg_alloc_zeroed(1, sizeof *o);
    if (o && dnnl_engine_create(&o->engine, dnnl_cpu, 0) != dnnl_success) {
        tg_free(o);
        return NULL;
    }
    return o;
}

/* ---- preparation ---- */

static void free_parts(parts *p)
{
    for (int i = 0; i < p->count; i++) {
        part *one = &p->part[i];
        dnnl_memory_destroy(one->a);
        dnnl_memory_destroy(one->b);
        dnnl_memory_destroy(one->c);
        dnnl_memory_destroy(one->scratch);
        dnnl_stream_destroy(one->stream);
        dnnl_primitive_destroy(one->primitive);
    }
    tg_free(p->part);
    *p = (parts){0};
}

/* Describes a row-major matrix, or one whose memory holds its transpose. */
static dnnl_status_t describe(dnnl_memory_desc_t *matrix, int64_t rows, int64_t columns, dnnl_data_type_t type,
                              bool transpose, int64_t distance)
{
    dnnl_dims_t sizes = {rows, columns}, strides = {transpose ? 1 : distance, transpose ? distance : 1};
    return dnnl_memory_desc_init_by_strides(matrix, 2, sizes, type, strides);
}

/* Sets *attributes: the caller gives the scratch memory, and with `add` the product is added to C. */
static dnnl_status_t describe_attributes(dnnl_primitive_attr_t *attributes, bool add)
{
    dnnl_post_ops_t sum = NULL;
    dnnl_status_t s = dnnl_primitive_attr_create(attributes);
    s = s ? s : dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (add) {
        s = s ? s : dnnl_post_ops_create(&sum);
        s = s ? s : dnnl_post_ops_append_sum(sum, 1);
        s = s ? s : dnnl_primitive_attr_set_post_ops(*attributes, sum);
        dnnl_post_ops_destroy(sum);
    }
    return s;
}

/* Creates the oneDNN objects of a part, whose sizes and position are set. */
static dnnl_status_t make_part(const tg_onednn *o, const tg_gemm *g, bool add, part *p, size_t *scratch_bytes)
{
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t product;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t s = describe(&a, p->m, g->k, dnnl_bf16, g->transpose_a, g->lda);
    s = s ? s : describe(&b, g->k, p->n, dnnl_bf16, g->transpose_b, g->ldb);
    s = s ? s : describe(&c, p->m, p->n, dnnl_f32, false, g->ldc);
    s = s ? s : describe_attributes(&attributes, add);
    s = s ? s : dnnl_matmul_desc_init(&product, &a, &b, NULL, &c);
    s = s ? s : dnnl_primitive_desc_create(&description, &product, attributes, o->engine, NULL);
    s = s ? s : dnnl_primitive_create(&p->primitive, description);
    s = s ? s : dnnl_stream_create(&p->stream, o->engine, dnnl_stream_default_flags);
    s = s ? s : dnnl_memory_create(&p->a, &a, o->engine, DNNL_MEMORY_NONE);
    s = s ? s : dnnl_memory_create(&p->b, &b, o->engine, DNNL_MEMORY_NONE);
    s = s ? s : dnnl_memory_create(&p->c, &c, o->engine, DNNL_MEMORY_NONE);
    if (!s) {
        const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
        *scratch_bytes = dnnl_memory_desc_get_size(scratch);
        s = dnnl_memory_create(&p->scratch, scratch, o->engine, DNNL_MEMORY_NONE);
    }
    dnnl_primitive_desc_destroy(description);
    dnnl_primitive_attr_destroy(attributes);
    return s;
}

/* Divides the longer side of C into parts, one per thread. *made is empty after an error. */
static dnnl_status_t make_parts(const tg_onednn *o, const tg_gemm *g, bool add, parts *made)
{
    bool by_columns = g->n >= g->m;
    int64_t length = by_columns ? g->n : g->m, most = g->m * g->n * g->k / PART_PRODUCT + 1;
    int64_t count = tg_threads() < most ? tg_threads() : most;
    int64_t step = (length + count * PART_STEP - 1) / (count * PART_STEP) * PART_STEP;
    count = (length + step - 1) / step;
    *made = (parts){.threads = tg_threads(), .part = tg_alloc_zeroed((uint64_t)count, sizeof *made->part)};
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    dnnl_status_t s = made->part ? dnnl_success : dnnl_out_of_memory;
    while (!s && made->count < count) {
        part *p = &made->part[made->count];
        size_t bytes = 0;
        p->first = made->count++ * step;
        int64_t size = length - p->first < step ? length - p->first : step;
        p->m = by_columns ? g->m : size;
        p->n = by_columns ? size : g->n;
        s = make_part(o, g, add, p, &bytes);
        made->scratch_bytes = bytes > made->scratch_bytes ? bytes : made->scratch_bytes;
    }
    omp_set_num_threads(threads);
    made->scratch_bytes = (made->scratch_bytes + TG_ALIGNMENT - 1) / TG_ALIGNMENT * TG_ALIGNMENT;
    if (s) {
        free_parts(made);
    }
    return s;
}

/* Reserves scratch memory for the parts. */
static bool reserve_scratch(tg_onednn *o, const parts *p)
{
    size_t needed = p->scratch_bytes * (size_t)p->count;
    char *scratch = needed > o->scratch_bytes ? tg_alloc(1, needed) : o->scratch;
    if (scratch != o->scratch) {
        if (!scratch) {
            return false;
        }
        tg_free(o->scratch);
        o->scratch = scratch;
        o->scratch_bytes = needed;
    }
    return true;
}

static prepared *find(const tg_onednn *o, const tg_gemm *g, bool add)
{
    for (size_t i = 0; i < o->count; i++) {
        const tg_gemm *p = &o->products[i].gemm;
        if (p->m == g->m && p->n == g->n && p->k == g->k && p->transpose_a == g->transpose_a &&
            p->transpose_b == g->transpose_b && p->lda == g->lda && p->ldb == g->ldb && p->ldc == g->ldc &&
            o->products[i].add == add) {
            return &o->products[i];
        }
    }
    return NULL;
}

bool tg_onednn_accepts(int64_t m, int64_t n, int64_t k)
{
    return m * k <= LARGEST_MATRIX && k * n <= LARGEST_MATRIX && m * n <= LARGEST_MATRIX &&
           m * k * n >= SMALLEST_PRODUCT;
}

bool tg_onednn_prepare(tg_onednn *o, const char *call, const tg_gemm *g, bool add, tg_error *error)
{
    prepared *found = find(o, g, add);
    if (found && found->parts.threads == tg_threads()) {
        found->is_used = true;
        return true;
    }
    /* Parts for another number of threads stay until the new ones are complete: a recorded product may need them. */
    parts made;
    dnnl_status_t s = make_parts(o, g, add, &made);
    if (!s && (!reserve_scratch(o, &made) ||
               !tg_grow(&o->products, &o->capacity, o->count, o->count + 1, sizeof *o->products))) {
        free_parts(&made);
        s = dnnl_out_of_memory;
    }
    if (s) {
        return tg_error_set(error, s == dnnl_out_of_memory ? TG_ERROR_MEMORY : TG_ERROR_STATE,
                            s == dnnl_out_of_memory ? "%s: out of memory for oneDNN's product (%lld,%lld) x (%lld,%lld)"
                                                    : "%s: oneDNN refuses the product (%lld,%lld) x (%lld,%lld)",
                            call, (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n);
    }
    found = find(o, g, add);
    if (found) {
        free_parts(&found->parts);
    } else {
        found = &o->products[o->count++];
    }
    *found = (prepared){*g, add, true, made};
    return true;
}

/* ---- the product ---- */

static float from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The product without oneDNN, if oneDNN has not enough memory for a few objects when it runs. */
static void multiply_slowly(const tg_gemm *g, bool add, const uint16_t *a, const uint16_t *b, float *c)
{
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            float sum = add ? c[i * g->ldc + j] : 0;
            for (int64_t l = 0; l < g->k; l++) {
                sum += from_bf16(a[g->transpose_a ? l * g->lda + i : i * g->lda + l]) *
                       from_bf16(b[g->transpose_b ? j * g->ldb + l : l * g->ldb + j]);
            }
            c[i * g->ldc + j] = sum;
        }
    }
}

typedef struct product {
    tg_onednn *o;
    const prepared *prepared;
    const uint16_t *a, *b;
    float *c;
} product;

static void run_part(const product *p, int i)
{
    const tg_gemm *g = &p->prepared->gemm;
    const part *own = &p->prepared->parts.part[i];
    bool by_columns = own->m == g->m && own->n < g->n;
    int64_t row = by_columns ? 0 : own->first, column = by_columns ? own->first : 0;
    const uint16_t *a = p->a + (g->transpose_a ? row : row * g->lda);
    const uint16_t *b = p->b + (g->transpose_b ? column * g->ldb : column);
    float *c = p->c + row * g->ldc + column;
    char *scratch = p->o->scratch + (size_t)i * p->prepared->parts.scratch_bytes;
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, own->a},
                                   {DNNL_ARG_WEIGHTS, own->b},
                                   {DNNL_ARG_DST, own->c},
                                   {DNNL_ARG_SCRATCHPAD, own->scratch}};
    dnnl_status_t s = dnnl_memory_set_data_handle(own->a, (void *)a);
    s = s ? s : dnnl_memory_set_data_handle(own->b, (void *)b);
    s = s ? s : dnnl_memory_set_data_handle(own->c, c);
    s = s ? s : dnnl_memory_set_data_handle(own->scratch, scratch);
    s = s ? s : dnnl_primitive_execute(own->primitive, own->stream, 4, arguments);
    s = s ? s : dnnl_stream_wait(own->stream);
    if (s) {
        tg_gemm rest = *g;
        rest.m = own->m;
        rest.n = own->n;
        multiply_slowly(&rest, p->prepared->add, a, b, c);
    }
}

static void run_parts(void *context, int64_t begin, int64_t end)
{
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    for (int64_t i = begin; i < end; i++) {
        run_part(context, (int)i);
    }
    omp_set_num_threads(threads);
}

void tg_onednn_run(tg_onednn *o, const tg_gemm *g, bool add, const uint16_t *a, const uint16_t *b, float *c)
{
    product p = {o, find(o, g, add), a, b, c};
    tg_parallel_for(p.prepared->parts.count, 1, run_parts, &p);
}

/* ---- the end ---- */

void tg_onednn_end_step(tg_onednn *o)
{
    size_t kept = 0;
    bool is_full = o->count > TG_ONEDNN_KEPT;
    for (size_t i = 0; i < o->count; i++) {
        if (is_full && !o->products[i].is_used) {
            free_parts(&o->products[i].parts);
            continue;
        }
        o->products[kept] = o->products[i];
        o->products[kept++].is_used = false;
    }
    o->count = kept;
}

int64_t tg_onednn_count(const tg_onednn *o)
{
    return o ? (int64_t)o->count : 0;
}

void tg_onednn_free(tg_onednn *o)
{
    if (!o) {
        return;
    }
    for (size_t i = 0; i < o->count; i++) {
        free_parts(&o->products[i].parts);
    }
    dnnl_engine_destroy(o->engine);
    tg_free(o->products);
    tg_free(o->scratch);
    tg_free(o);
}
