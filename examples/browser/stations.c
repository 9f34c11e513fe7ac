/* stations: answers requests of the page in a console, one line each. Requests are read from stdin, and each ends with
 * a byte 0, because a request contains newlines. */
#include <stdio.h>
#include <stdlib.h>

#include "station.h"

int main(void)
{
    char *text = NULL;
    size_t length = 0, capacity = 0;
    for (int c; (c = getchar()) != EOF;) {
        if (length == capacity) {
            capacity = 2 * capacity + 4096;
            char *moved = realloc(text, capacity);
            if (!moved) {
                free(text);
                fprintf(stderr, "stations: out of memory\n");
                return 1;
            }
            text = moved;
        }
        text[length++] = (char)c;
        if (c == 0) {
            puts(page_call(text));
            length = 0;
        }
    }
    free(text);
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
