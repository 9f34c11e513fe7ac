#include "bench/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tapegrad.h>

#include "base/file.h"
#include "bench/figure.h"
#include "files/safetensors.h"

static const char path[] = "bench.safetensors";

typedef struct model {
    tg_params *params;
    char *warm; /* as many bytes as the file has, in use already */
    size_t bytes;
} model;

/* The shapes of GPT-2 with 124 million parameters, and the masks of its file: 548 MB. */
static tg_params *make_params(void)
{
    tg_params *params = bench_must(tg_params_new(NULL, TG_F32));
    tg_params_add(params, "wte.weight", TG_SHAPE(50257, 768));
    tg_params_add(params, "wpe.weight", TG_SHAPE(1024, 768));
    for (int layer = 0; layer < 12; layer++) {
        static const int64_t sizes[][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}, {1024, 1024}, {9, 768}};
        for (int i = 0; i < 6; i++) {
            char name[32];
            snprintf(name, sizeof name, "h.%d.%d", layer, i);
            tg_params_add(params, name, tg_shape_make(2, sizes[i]));
        }
    }
    return params;
}

static void run_open(void *context)
{
    (void)context;
    tg_safetensors_close(bench_must(tg_safetensors_open("bench", path, TG_SAFETENSORS_HEADER, NULL)));
}

static void run_load(void *context)
{
    tg_error error = TG_NO_ERROR;
    if (!tg_params_load(((model *)context)->params, path, NULL, &error)) {
        fprintf(stderr, "bench: %s\n", error.text);
        exit(1);
    }
}

/* The bound: the same bytes, in order, into memory that is in use already. */
static void run_pread(void *context)
{
    const model *m = context;
    tg_file file;
    bench_must(tg_file_open(&file, "bench", path, NULL) ? &file : NULL);
    tg_file_read(&file, 0, m->warm, m->bytes, NULL);
    tg_file_close(&file);
}

void bench_io(void)
{
    model m = {.params = make_params()};
    tg_file file;
    bench_must(tg_params_save(m.params, path, NULL, NULL) && tg_file_open(&file, "bench", path, NULL) ? &m : NULL);
    m.bytes = (size_t)file.size;
    tg_file_close(&file);
    m.warm = bench_must(malloc(m.bytes));
    memset(m.warm, 1, m.bytes);
    bench_measure(
        &(bench_figure){.name = "safetensors: open 548 MB", .unit = "ms", .run = run_open, .scale = 1e3, .rounds = 41});
    bench_measure(&(bench_figure){.name = "safetensors: load 548 MB",
                                  .unit = "ms",
                                  .bound_name = "pread",
                                  .run = run_load,
                                  .bound = run_pread,
                                  .context = &m,
                                  .scale = 1e3,
                                  .rounds = 11});
    free(m.warm);
    tg_params_free(m.params);
    remove(path);
}
