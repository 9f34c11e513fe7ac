/* wasm: WebAssembly has one thread, and memory without pages that could be larger. flock of posix.c locks nothing. */
#include "system/system.h"

#if defined __wasm__

int tg_system_processors(void)
{
    return 1;
}

void tg_system_ask_for_huge_pages(char *block, size_t bytes)
{
    (void)block, (void)bytes;
}

#endif
