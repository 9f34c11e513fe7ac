#include "folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

char folder[] = "model.XXXXXX";

int folder_begin(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

int folder_end(void **state)
{
    static const char *const names[] = {"model.safetensors", "config.json", "adapter_model.safetensors",
                                        "adapter_config.json"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        remove(in_folder(names[i]));
    }
    return rmdir(folder);
}

const char *in_folder(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

void write_bytes(const char *name, const char *bytes, size_t length)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}
