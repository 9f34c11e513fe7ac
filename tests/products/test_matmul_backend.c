/* TG_BACKEND_AUTO: the built-in loops where the kernels of BLAS are older than the processor. */
#include "support.h"

#include <string.h>

#include "products/kernels.h"

/* This program's function replaces OpenBLAS's. */
char *openblas_get_corename(void);

static const char *corename = "Prescott";

char *openblas_get_corename(void)
{
    static char name[32];
    snprintf(name, sizeof name, "%s", corename);
    return name;
}

/* OpenBLAS describes itself once, at the first query. */
static void test_old_kernels(void **state)
{
    (void)state;
    if (strcmp(tg_get_blas().library, "OpenBLAS") != 0) {
        skip(); /* only OpenBLAS has kernels of a known level */
    }
    assert_string_equal(tg_get_blas().kernels, "Prescott");
    for (int level = TG_CPU_BASELINE; level <= TG_CPU_AVX512; level++) {
        assert_int_equal(tg_blas_has_level(level), level == TG_CPU_BASELINE);
    }
    bool is_old = tg_get_cpu_level() > TG_CPU_BASELINE;
    assert_int_equal(tg_get_matmul_backend(), is_old ? TG_BACKEND_BUILTIN : TG_BACKEND_BLAS);
    tg_error error = TG_NO_ERROR;
    assert_int_equal(tg_set_matmul_backend(TG_BACKEND_BLAS, &error), !is_old);
    assert_int_equal(error.code, is_old ? TG_ERROR_STATE : TG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_old_kernels)};
    return cmocka_run_group_tests_name("matmul_backend", tests, NULL, NULL);
}
