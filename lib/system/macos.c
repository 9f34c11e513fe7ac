/* macos: POSIX alone hides how many processors there are. Large blocks get pages of 16 KiB or more as it is. */
#define _DARWIN_C_SOURCE
#include "system/system.h"

#if defined __APPLE__

#include <unistd.h>

int tg_system_processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > INT16_MAX ? INT16_MAX : (int)count;
}

void tg_system_ask_for_huge_pages(char *block, size_t bytes)
{
    (void)block, (void)bytes;
}

#endif
