#include "station.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lighthouse.h"

bool refuse(tg_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->code = TG_ERROR_VALUE;
    return false;
}

int64_t request_number(const request *r, int i, int64_t least, int64_t most, int64_t otherwise)
{
    return i < r->count && r->numbers[i] >= least && r->numbers[i] <= most ? r->numbers[i] : otherwise;
}

int read_ids(const request *r, int32_t ids[MOST_IDS], tg_error *error)
{
    static const char separators[] = " ,;\t\r\n";
    int count = 0;
    for (const char *at = r->text + strspn(r->text, separators); *at; at += strspn(at, separators)) {
        int size = (int)strcspn(at, separators), shown = size > 20 ? 20 : size;
        char *end;
        long long id = strtoll(at, &end, 10);
        if (end != at + size || size > 9) {
            while (shown < size && shown > 0 && ((unsigned char)at[shown] & 0xc0) == 0x80) {
                shown--;
            }
            refuse(error, "\"%.*s%s\" is not an id: ids are whole numbers such as 2 3 5 1", shown, at,
                   shown < size ? "…" : "");
            return 0;
        }
        if (count == MOST_IDS) {
            refuse(error, "there are more than %d ids; this page shows at most %d", MOST_IDS, MOST_IDS);
            return 0;
        }
        ids[count++] = (int32_t)id;
        at += size;
    }
    if (count == 0) {
        refuse(error, "there is no id: type one to %d whole numbers such as 2 3 5 1", MOST_IDS);
    }
    return count;
}

tg_tape *station_tape(tg_run *run)
{
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tape_set_reproducible(t, true);
    return t;
}

bool tape_is_good(const tg_tape *t, tg_error *error)
{
    if (tg_tape_error(t)->code == TG_OK) {
        return true;
    }
    *error = *tg_tape_error(t);
    return false;
}

bool lookup_is_good(const tg_tape *t, int rows, tg_error *error)
{
    bool good = tape_is_good(t, error);
    if (!good && error->code == TG_ERROR_RANGE) {
        size_t length = strlen(error->text);
        snprintf(error->text + length, sizeof error->text - length, ": ids go from 0 to %d", rows - 1);
    }
    return good;
}

void json_bits(const tg_tensor *x)
{
    /* FNV-1a over whole words, so that the order of the bytes in memory does not matter */
    const uint32_t *words = tg_tensor_data(x);
    uint32_t sum = 2166136261u;
    for (int64_t i = 0; words && i < tg_tensor_count(x); i++) {
        sum = (sum ^ words[i]) * 16777619u;
    }
    json_format("%08" PRIx32, sum);
}

tg_tokenizer *lighthouse_tokenizer(tg_error *error)
{
    static tg_tokenizer *bpe;
    if (!bpe) {
        bpe = tg_tokenizer_new_from_text((const char *)lighthouse_vocabulary, sizeof lighthouse_vocabulary - 1, error);
    }
    return bpe;
}

const char *lighthouse_text(size_t *length)
{
    *length = sizeof lighthouse_story - 1;
    return (const char *)lighthouse_story;
}

void json_token(const tg_tokenizer *bpe, int32_t id)
{
    size_t length, at = 0;
    const char *bytes = tg_tokenizer_bytes(bpe, id, &length);
    char shown[400];
    for (size_t i = 0; bytes && i < length && at + 4 < sizeof shown; i++) {
        const char *sign = bytes[i] == ' ' ? "·" : bytes[i] == '\n' ? "⏎" : NULL;
        if (sign) {
            memcpy(shown + at, sign, strlen(sign));
            at += strlen(sign);
        } else {
            shown[at++] = bytes[i];
        }
    }
    json_bytes(shown, at);
}

/* ---- requests ---- */

static const struct {
    char letter;
    station *answer;
} stations[] = {
    {'a', station_text}, {'b', station_table},    {'c', station_positions},
    {'d', station_step}, {'e', station_training}, {'f', station_gradient},
};

static bool answer(const char *text, tg_error *error)
{
    char name[32];
    size_t head = strcspn(text, " \n");
    request r = {.name = name + 2, .text = ""};
    if (head < 3 || head >= sizeof name || text[1] != '.') {
        return refuse(error, "a request is like \"b.lookup\" and a newline and a text");
    }
    memcpy(name, text, head);
    name[head] = 0;
    const char *at = text + head;
    for (char *end; *at == ' ' && r.count < REQUEST_NUMBERS; at = end) {
        r.numbers[r.count++] = strtoll(at, &end, 10);
        if (end == at) {
            return refuse(error, "%s: a number is missing", name);
        }
    }
    if (*at == '\n') {
        r.text = at + 1;
    }
    r.length = strlen(r.text);
    for (size_t i = 0; i < sizeof stations / sizeof *stations; i++) {
        if (stations[i].letter == name[0]) {
            return stations[i].answer(&r, error);
        }
    }
    return refuse(error, "%s: this page has no such station", name);
}

const char *page_call(const char *text)
{
    tg_error error = TG_NO_ERROR;
    json_begin();
    json_open('{');
    if (!answer(text, &error)) {
        json_begin();
        json_open('{');
        json_key("error");
        json_text(error.text);
    }
    json_close('}');
    return json_end();
}
