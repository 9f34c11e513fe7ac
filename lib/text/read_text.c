#include <tapegrad/tokenizer.h>

#include <tapegrad/extend.h>

char *tg_text_read(const char *path, size_t *length, tg_error *error)
{
    return tg_file_read_text("text_read", path, length, error);
}
