/* The start of a program (examples/common/blas.h): the choice of OpenBLAS's kernels, and that the program is started
 * again with the variables that it lacks, once. */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../examples/common/blas.h"

/* This program's function replaces OpenBLAS's: the library reports kernels that are too old for the processor. */
char *openblas_get_corename(void);

char *openblas_get_corename(void)
{
    static char prescott[] = "Prescott";
    return prescott;
}

/* ---- the choice ---- */

static void expect(const char *kernels, tg_cpu_level level, const char *better)
{
    tg_blas blas = {.library = "OpenBLAS", .version = "0.3.21", .most_threads = 64};
    snprintf(blas.kernels, sizeof blas.kernels, "%s", kernels);
    const char *found = blas_better_kernels(&blas, level);
    if (strcmp(found ? found : "none", better) != 0) {
        fail_msg("kernels %s, level %d: expected %s, found %s", kernels, (int)level, better, found ? found : "none");
    }
}

static void test_better_kernels(void **state)
{
    (void)state;
    const char *const old[] = {"Prescott", "Northwood", "Core2", "Nehalem", "Barcelona", "Bulldozer", "Sandybridge"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        expect(old[i], TG_CPU_BASELINE, "none");
        expect(old[i], TG_CPU_AVX2, "Haswell");
        expect(old[i], TG_CPU_AVX512, "SkylakeX");
    }
    expect("Haswell", TG_CPU_BASELINE, "none");
    expect("Haswell", TG_CPU_AVX2, "none");
    expect("Haswell", TG_CPU_AVX512, "SkylakeX");
    expect("Zen", TG_CPU_AVX2, "none");
    expect("Zen", TG_CPU_AVX512, "SkylakeX");
    /* these use AVX-512, or are chosen when OpenBLAS is compiled, or are those of another processor */
    const char *const right[] = {"SkylakeX", "Cooperlake", "SapphireRapids", "HASWELL", "neoversen1", "generic", ""};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        expect(right[i], TG_CPU_AVX2, "none");
        expect(right[i], TG_CPU_AVX512, "none");
    }
}

static void test_text(void **state)
{
    (void)state;
    char text[BLAS_TEXT], threads[40];
    snprintf(threads, sizeof threads, ", %d thread", tg_threads());
    blas_text(text);
    assert_true(strncmp(text, tg_get_blas().library, strlen(tg_get_blas().library)) == 0);
    assert_true(tg_get_blas().most_threads == 1 || strstr(text, threads));
    const char *level = tg_cpu_level_name(tg_get_cpu_level());
    assert_string_equal(text + strlen(text) - strlen(level), level);
}

/* ---- the start ---- */

static char program[4096];

#define KERNELS "OPENBLAS_CORETYPE"
#define TIMEOUT "OPENBLAS_THREAD_TIMEOUT"

static const char *value_of(const char *variable)
{
    const char *value = getenv(variable);
    return value ? value : "unset";
}

/* What the program does when a test starts it: begins, and prints how often it was started, and the variables. */
static int begin_and_print(char **argv)
{
    const char *starts = getenv("STARTS");
    setenv("STARTS", starts ? "2" : "1", 1);
    if (starts && strcmp(starts, "2") == 0) {
        puts("the program is started again and again");
        return 1;
    }
    blas_begin(argv);
    printf("starts %s, kernels %s, timeout %s, arguments %s %s\n", value_of("STARTS"), value_of(KERNELS),
           value_of(TIMEOUT), argv[1], argv[2]);
    return 0;
}

/* Starts this program with these values of the variables (NULL: unset), and compares what it prints. */
static void expect_start(const char *kernels, const char *timeout, const char *printed)
{
    unsetenv("STARTS");
    kernels ? setenv(KERNELS, kernels, 1) : unsetenv(KERNELS);
    timeout ? setenv(TIMEOUT, timeout, 1) : unsetenv(TIMEOUT);
    char command[sizeof program + 40], line[200] = "";
    snprintf(command, sizeof command, "'%s' begin 'a b'", program);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_non_null(fgets(line, sizeof line, output));
    assert_int_equal(pclose(output), 0);
    assert_string_equal(line, printed);
}

static void test_starts_once(void **state)
{
    (void)state;
    tg_blas blas = tg_get_blas();
    const char *better = blas_better_kernels(&blas, tg_get_cpu_level());
    bool has_threads = tg_threads() > 1 && blas.most_threads != 1;
    const char *name = strrchr(program, '/');
    if (strcmp(blas.library, "OpenBLAS") != 0 || !name || !strstr(name, "test_blas_begin") || getenv("TG_EMULATED")) {
        skip(); /* there is nothing to set, or the file that runs is that of a loader or an emulator */
    }
    char line[200];
    snprintf(line, sizeof line, "starts %d, kernels %s, timeout %s, arguments begin a b\n",
             better || has_threads ? 2 : 1, better ? better : "unset", has_threads ? "4" : "unset");
    expect_start(NULL, NULL, line);
    snprintf(line, sizeof line, "starts %d, kernels %s, timeout 9, arguments begin a b\n", better ? 2 : 1,
             better ? better : "unset");
    expect_start(NULL, "9", line);
    snprintf(line, sizeof line, "starts %d, kernels Nehalem, timeout %s, arguments begin a b\n", has_threads ? 2 : 1,
             has_threads ? "4" : "unset");
    expect_start("Nehalem", NULL, line);
    expect_start("Nehalem", "9", "starts 1, kernels Nehalem, timeout 9, arguments begin a b\n");
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "begin") == 0) {
        return begin_and_print(argv);
    }
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) {
        program[0] = '\0';
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_better_kernels), cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_starts_once)};
    return cmocka_run_group_tests_name("blas_begin", tests, NULL, NULL);
}
