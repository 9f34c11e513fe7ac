/* blas: matrix products by the CBLAS of the build (-Dblas).
 *
 * BLAS has its own threads. Large products run on them, one after the other. The tiles of attention are divided among
 * the library's threads, and OpenBLAS computes their small products in the calling thread (TG_GEMM_ONE_THREAD). Setting
 * another number of OpenBLAS threads for one loop would change the bits of other tapes' products. Between two products
 * OpenBLAS's threads wait without sleeping, and take the processor from the library's; only OPENBLAS_THREAD_TIMEOUT
 * stops that.
 *
 * Other libraries may divide a product of any size, so their number of threads is 1 during small products. The number
 * is global, except MKL's: while another tape computes small products, a large one may have one thread. Its values are
 * right, and with BLIS the bits do not depend on the number. An OpenBLAS that was compiled without threads has no
 * locks, and two products at the same time overwrite each other's buffers. So its products take turns, and so do those
 * of a BLAS that is known by its name alone. tests/ci/blas runs the suites with each.
 */
#include "tensor/blas.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- the library ---- */
/* What differs between the libraries: the header; describe, which sets what the library reports of itself; and the
 * number of threads of the next product. DIVIDES_SMALL is true of a library that may divide even the smallest product
 * among its threads. */

/* Whether two products at the same time could overwrite each other's buffers, so that they must take turns. */
static bool takes_turns;

#if defined TG_BLAS_BLIS

#include <blis.h>
#define LIBRARY "BLIS"
#define DIVIDES_SMALL true

static void describe(tg_blas *blas)
{
    snprintf(blas->version, sizeof blas->version, "%s", bli_info_get_version_str());
    snprintf(blas->kernels, sizeof blas->kernels, "%s", bli_arch_string(bli_arch_query_id()));
    blas->most_threads = bli_info_get_enable_threading() ? 0 : 1;
}

static int get_threads(void)
{
    return (int)bli_thread_get_num_threads();
}

static void set_threads(int threads)
{
    bli_thread_set_num_threads(threads);
}

#elif defined TG_BLAS_FLEXIBLAS

#include <cblas.h>
#include <flexiblas_api.h>
#define LIBRARY "FlexiBLAS"
#define DIVIDES_SMALL true

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

static int get_threads(void)
{
    return flexiblas_get_num_threads();
}

static void set_threads(int threads)
{
    flexiblas_set_num_threads(threads);
}

#elif defined TG_BLAS_MKL

#include <mkl.h>
#define LIBRARY "MKL"
#define DIVIDES_SMALL true

static void describe(tg_blas *blas)
{
    MKLVersion version;
    MKL_Get_Version(&version);
    snprintf(blas->version, sizeof blas->version, "%d.%d.%d", version.MajorVersion, version.MinorVersion,
             version.UpdateVersion);
    snprintf(blas->kernels, sizeof blas->kernels, "%s", version.Processor);
}

static int get_threads(void)
{
    return MKL_Get_Max_Threads();
}

/* Sets the number of the calling thread alone. */
static void set_threads(int threads)
{
    MKL_Set_Num_Threads_Local(threads);
}

#elif defined TG_BLAS_OTHER

/* Accelerate or a CBLAS that the build knows by its name alone: the number of threads is the library's own. */
#include TG_BLAS_HEADER
#define LIBRARY TG_BLAS_OTHER
#define DIVIDES_SMALL false

static void describe(tg_blas *blas)
{
    takes_turns = strcmp(blas->library, "Accelerate") != 0;
}

static int get_threads(void)
{
    return tg_threads();
}

static void set_threads(int threads)
{
    (void)threads;
}

#else

#include <cblas.h>
#define LIBRARY "OpenBLAS"
#define DIVIDES_SMALL false

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

static int get_threads(void)
{
    return openblas_get_num_threads();
}

static void set_threads(int threads)
{
    openblas_set_num_threads(threads);
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

/* ---- threads ---- */

/* Sets the number of the library's threads for a product of so many multiplications: tg_threads(), or 1 if it is small.
 * OpenBLAS itself decides what is small. Reading the number is cheap, but setting it is not. */
static void follow_threads(double multiplications)
{
    bool is_small = DIVIDES_SMALL && multiplications <= TG_GEMM_ONE_THREAD;
    int threads = is_small ? 1 : tg_threads(), most = library()->most_threads;
    threads = most > 0 && threads > most ? most : threads;
    if (get_threads() != threads) {
        set_threads(threads);
    }
}

void tg_gemm_begin_parallel(void)
{
    follow_threads(0);
}

/* ---- products ---- */

static void begin_product(const tg_gemm *g)
{
    follow_threads((double)g->m * (double)g->n * (double)g->k);
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

void tg_gemm_f32(const tg_gemm *g, const float *a, const float *b, float beta, float *c)
{
    begin_product(g);
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans,
                (int)g->m, (int)g->n, (int)g->k, 1.0f, a, distance(g->lda), b, distance(g->ldb), beta, c,
                distance(g->ldc));
    end_product();
}

void tg_gemm_f64(const tg_gemm *g, const double *a, const double *b, double beta, double *c)
{
    begin_product(g);
    cblas_dgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans, g->transpose_b ? CblasTrans : CblasNoTrans,
                (int)g->m, (int)g->n, (int)g->k, 1.0, a, distance(g->lda), b, distance(g->ldb), beta, c,
                distance(g->ldc));
    end_product();
}
