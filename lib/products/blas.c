/* blas: matrix products by the CBLAS of the build (-Dblas), in the thread that calls it.
 *
 * The library divides a product among its own threads (products/choose.c), so the number of BLAS's is 1. If it had
 * more, they would wait for the next product without sleeping, and take the processors from the library's. A BLAS whose
 * number cannot be set (-Dblas with another name) divides its products itself.
 *
 * An OpenBLAS that was compiled without threads has no locks, and two products at the same time overwrite each other's
 * buffers. So its products take turns, and those of a BLAS that is known by its name alone.
 */
#include "products/kernels.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- the library ---- */
/* What differs between the libraries: the header; describe, which sets what the library reports of itself, and is
 * called once, before the first product; and use_one_thread, which is called before each product. DIVIDES is true of a
 * library that divides a product itself. */

/* Whether two products at the same time could overwrite each other's buffers, so that they must take turns. */
static bool takes_turns;

#if defined TG_BLAS_BLIS

#include <blis.h>
#define LIBRARY "BLIS"
#define DIVIDES false

static void describe(tg_blas *blas)
{
    snprintf(blas->version, sizeof blas->version, "%s", bli_info_get_version_str());
    snprintf(blas->kernels, sizeof blas->kernels, "%s", bli_arch_string(bli_arch_query_id()));
    blas->most_threads = bli_info_get_enable_threading() ? 0 : 1;
}

static void use_one_thread(void)
{
    if (bli_thread_get_num_threads() != 1) {
        bli_thread_set_num_threads(1);
    }
}

#elif defined TG_BLAS_FLEXIBLAS

#include <cblas.h>
#include <flexiblas_api.h>
#define LIBRARY "FlexiBLAS"
#define DIVIDES false

static void describe(tg_blas *blas)
{
    int major = 0, minor = 0, patch = 0;
    flexiblas_get_version(&major, &minor, &patch);
    snprintf(blas->version, sizeof blas->version, "%d.%d.%d", major, minor, patch);
    flexiblas_current_backend(blas->kernels, sizeof blas->kernels);
    /* The library behind it may be an OpenBLAS without threads, which stays at 1. */
    int before = flexiblas_get_num_threads();
    flexiblas_set_num_threads(2);
    blas->most_threads = flexiblas_get_num_threads() == 1;
    flexiblas_set_num_threads(before);
    takes_turns = blas->most_threads == 1;
}

static void use_one_thread(void)
{
    if (flexiblas_get_num_threads() != 1) {
        flexiblas_set_num_threads(1);
    }
}

#elif defined TG_BLAS_MKL

#include <mkl.h>
#define LIBRARY "MKL"
#define DIVIDES false

static void describe(tg_blas *blas)
{
    MKLVersion version;
    MKL_Get_Version(&version);
    snprintf(blas->version, sizeof blas->version, "%d.%d.%d", version.MajorVersion, version.MinorVersion,
             version.UpdateVersion);
    snprintf(blas->kernels, sizeof blas->kernels, "%s", version.Processor);
}

/* Sets the number of the calling thread alone. */
static void use_one_thread(void)
{
    MKL_Set_Num_Threads_Local(1);
}

#elif defined TG_BLAS_OTHER

/* Accelerate or a CBLAS that the build knows by its name alone. */
#include TG_BLAS_HEADER
#define LIBRARY TG_BLAS_OTHER
#define DIVIDES true

static void describe(tg_blas *blas)
{
    takes_turns = strcmp(blas->library, "Accelerate") != 0;
}

static void use_one_thread(void)
{
}

#else

#include <cblas.h>
#define LIBRARY "OpenBLAS"
#define DIVIDES false

/* The text of the configuration is "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Cooperlake MAX_THREADS=64". */
static void describe(tg_blas *blas)
{
    const char *config = openblas_get_config(), *most = strstr(config, "MAX_THREADS=");
    sscanf(config, "OpenBLAS %31[0-9.a-z]", blas->version);
    snprintf(blas->kernels, sizeof blas->kernels, "%s", openblas_get_corename());
    if (openblas_get_parallel() == OPENBLAS_SEQUENTIAL) {
        /* Its buffers have no lock, unless it was compiled with one, which it does not report. */
        blas->most_threads = 1;
        takes_turns = true;
    } else if (most) {
        sscanf(most, "MAX_THREADS=%d", &blas->most_threads);
    }
}

static void use_one_thread(void)
{
    if (openblas_get_num_threads() != 1) {
        openblas_set_num_threads(1);
    }
}

#endif

static tg_blas loaded = {.library = LIBRARY};

/* Held during a product of a library that takes turns. */
static pthread_mutex_t one_product = PTHREAD_MUTEX_INITIALIZER;

/* In the child of a fork no other thread exists that could release it. */
static void release_product(void)
{
    pthread_mutex_init(&one_product, NULL);
}

/* OpenBLAS writes its configuration into one buffer, so it is read once. */
static void describe_once(void)
{
    describe(&loaded);
    pthread_atfork(NULL, NULL, release_product);
}

/* Returns the library, described at the first call. */
static const tg_blas *library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe_once);
    return &loaded;
}

tg_blas tg_get_blas(void)
{
    return *library();
}

bool tg_blas_has_level(int level)
{
    /* The names in an OpenBLAS that chooses its kernels when it is loaded. One with kernels for a single processor
     * writes HASWELL, and other libraries have other names: these are right for the processor. */
    static const struct {
        const char *name;
        int level;
    } kernels[] = {{"Prescott", TG_CPU_BASELINE},    {"Northwood", TG_CPU_BASELINE}, {"Core2", TG_CPU_BASELINE},
                   {"Nehalem", TG_CPU_BASELINE},     {"Barcelona", TG_CPU_BASELINE}, {"Bulldozer", TG_CPU_BASELINE},
                   {"Sandybridge", TG_CPU_BASELINE}, {"Haswell", TG_CPU_AVX2},       {"Zen", TG_CPU_AVX2}};
    const tg_blas *blas = library();
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(blas->kernels, kernels[i].name) == 0) {
            return kernels[i].level >= level;
        }
    }
    return true;
}

int tg_blas_callers(void)
{
    const tg_blas *blas = library();
    return DIVIDES || takes_turns ? 1 : blas->most_threads > 0 ? blas->most_threads : INT_MAX;
}

/* ---- products ---- */

static void begin_product(void)
{
    library();
    use_one_thread();
    if (takes_turns) {
        pthread_mutex_lock(&one_product);
    }
}

static void end_product(void)
{
    if (takes_turns) {
        pthread_mutex_unlock(&one_product);
    }
}

/* Returns a leading dimension that BLAS accepts: at least 1, even for an empty matrix. */
static int distance(int64_t ld)
{
    return ld < 1 ? 1 : (int)ld;
}

void tg_blas_gemm_f32(const tg_gemm *g, const void *a, const void *b, void *c)
{
    begin_product();
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                g->b_layout == TG_TRANSPOSED ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k, 1, a,
                distance(g->lda), b, distance(g->ldb), g->add ? 1 : 0, c, distance(g->ldc));
    end_product();
}

void tg_blas_gemm_f64(const tg_gemm *g, const void *a, const void *b, void *c)
{
    begin_product();
    cblas_dgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                g->b_layout == TG_TRANSPOSED ? CblasTrans : CblasNoTrans, (int)g->m, (int)g->n, (int)g->k, 1, a,
                distance(g->lda), b, distance(g->ldb), g->add ? 1 : 0, c, distance(g->ldc));
    end_product();
}
