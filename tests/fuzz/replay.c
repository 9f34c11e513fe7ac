/* replay PATH...: runs a fuzz target on each file, and on each file of each folder, without a fuzzer. The test suite
 * "fuzz" does this with the corpora and the regression files. A path that does not exist counts as an empty folder.
 * Fails if no file was found. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"

static int replayed;

static void replay_file(const char *path)
{
    size_t length;
    tg_error error = TG_NO_ERROR;
    char *text = tg_text_read(path, &length, &error);
    fuzz_require(text != NULL, "%s", error.text);
    /* A copy of the exact length lets a sanitizer see a read behind the end. */
    uint8_t *bytes = malloc(length > 0 ? length : 1);
    fuzz_require(bytes != NULL, "out of memory");
    memcpy(bytes, text, length);
    tg_text_free(text);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(bytes, length);
    free(bytes);
    replayed++;
}

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++) {
        DIR *folder = opendir(paths[i]);
        if (!folder) {
            if (errno == ENOTDIR) {
                replay_file(paths[i]);
            }
            continue;
        }
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", paths[i], entry->d_name);
            if (entry->d_name[0] != '.') {
                replay_file(path);
            }
        }
        closedir(folder);
    }
    printf("%d files\n", replayed);
    return replayed > 0 ? 0 : 1;
}
