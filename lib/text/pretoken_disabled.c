/* pretoken_disabled: replaces pretoken.c in a build with -Dtokenizer=disabled, which does not use PCRE2. */
#include "base/error.h"
#include "text/pretoken.h"

tg_pretokenizer *tg_pretokenizer_new(tg_error *error)
{
    tg_error_set(error, TG_ERROR_STATE,
                 "tokenizer: this build has no tokenizer (-Dtokenizer=disabled); build with PCRE2");
    return NULL;
}

void tg_pretokenizer_free(tg_pretokenizer *pretokenizer)
{
    (void)pretokenizer;
}

size_t tg_pretokenizer_next(tg_pretokenizer *pretokenizer, const char *text, size_t length, size_t begin,
                            tg_error *error)
{
    (void)pretokenizer, (void)text, (void)length, (void)begin, (void)error;
    return SIZE_MAX;
}
