/* vocabulary: trains a vocabulary on texts, which may be larger than memory, for gpt tokenize and gpt train. */
#include "../common/vocabulary.h"

#include "../common/program.h"
#include "../common/terminal.h"
#include "commands.h"

int vocabulary(const options *o)
{
    if (o->texts.count == 0 || !o->out) {
        complain("vocabulary: the options must be --text FILE... --out FILE");
        return 2;
    }
    tg_error error = TG_NO_ERROR;
    double start = seconds();
    int64_t size = o->vocab_size == AS_CONFIGURED ? 50257 : o->vocab_size;
    tg_tokenizer *bpe = vocabulary_train((const char *const *)o->texts.values, o->texts.count, size, &error);
    bool good = bpe && tg_tokenizer_save(bpe, o->out, TG_VOCABULARY_MERGES, &error);
    if (good) {
        char more[40] = "";
        if (o->texts.count > 1) {
            snprintf(more, sizeof more, " and %d more", o->texts.count - 1);
        }
        print_line(stdout, "%s: a vocabulary of %d, trained in %.1f s on %s%s", o->out, tg_tokenizer_vocabulary(bpe),
                   seconds() - start, o->texts.values[0], more);
    }
    tg_tokenizer_free(bpe);
    return good || complain("%s", error.text) ? 0 : interrupted() ? 130 : 2;
}
