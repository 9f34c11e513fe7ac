/* builtin_memory: the memory in which a thread copies factors (tile_gemm.c). It is not the tape's: a product
 * may run in any thread. Nor is it the stack: threads of musl have 128 KB. */
#include "products/kernels.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_key_t key;
static bool has_key;

static void make_key(void)
{
    has_key = pthread_key_create(&key, free) == 0;
}

void *tg_builtin_memory(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    char *memory = has_key ? pthread_getspecific(key) : NULL;
    if (has_key && !memory) {
        memory = malloc(TG_BUILTIN_MEMORY + TG_BUILTIN_PANEL + TG_BUILTIN_BLOCK + 64);
        if (pthread_setspecific(key, memory) != 0) {
            free(memory);
            memory = NULL;
        }
    }
    return memory ? memory + (64 - (uintptr_t)memory % 64) : NULL;
}
