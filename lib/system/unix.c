/* unix: other systems of the family, such as the BSDs. */
#include "system/system.h"

#if !defined _WIN32 && !defined __linux__ && !defined __APPLE__ && !defined __wasm__

#include <unistd.h>

int tg_system_processors(void)
{
    long count = 1;
#if defined _SC_NPROCESSORS_ONLN
    count = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return count < 1 ? 1 : count > INT16_MAX ? INT16_MAX : (int)count;
}

void tg_system_ask_for_huge_pages(char *block, size_t bytes)
{
    (void)block, (void)bytes;
}

#endif
