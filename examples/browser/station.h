/* station: what the six stations of the page share.
 *
 * The page asks by a request, "b.lookup 1 0" and a newline and a text, and gets JSON. The console program `stations`
 * answers the same requests with the same functions, so a test can compare the page with it. All products are
 * reproducible, so both have the same bits. */
#ifndef BROWSER_STATION_H
#define BROWSER_STATION_H

#include <tapegrad.h>
#include <tapegrad_text.h>

#include "json.h"

/* The largest number of integers in a request, and of ids that a visitor may type. */
#define REQUEST_NUMBERS 8
#define MOST_IDS 12

typedef struct request {
    /* "lookup" of "b.lookup" */
    const char *name;
    int64_t numbers[REQUEST_NUMBERS];
    int count;
    /* the text after the first newline */
    const char *text;
    size_t length;
} request;

/* A station answers by members of an open JSON object. Returns false after writing an error into *error. */
typedef bool station(const request *r, tg_error *error);
station station_text, station_table, station_positions, station_step, station_training, station_gradient;

/* Answers a request; the text is valid until the next call. */
const char *page_call(const char *text);

/* Returns number i of a request if it is in [least,most], and else `otherwise`. */
int64_t request_number(const request *r, int i, int64_t least, int64_t most, int64_t otherwise);

/* Reads ids that a visitor typed, separated by spaces or commas. Returns their number, 1 to MOST_IDS, or 0 with an
 * error that names what is not a number. Whether a row has the id is the library's question. */
int read_ids(const request *r, int32_t ids[MOST_IDS], tg_error *error);

/* Writes an error and returns false. */
bool refuse(tg_error *error, const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* Returns a tape whose products are reproducible. */
tg_tape *station_tape(tg_run *run);

/* Returns whether the tape has no error, and else copies its error. */
bool tape_is_good(const tg_tape *t, tg_error *error);

/* The same after a lookup: if a row is missing, the error also names the ids of the table's rows. */
bool lookup_is_good(const tg_tape *t, int rows, tg_error *error);

/* A checksum of a tensor's bits, "a1b2c3d4": equal on the page and in the console, or a bit differs. */
void json_bits(const tg_tensor *x);

/* The vocabulary of examples/lighthouse.txt, trained when the page was built, and that text. The tokenizer is borrowed;
 * NULL after an error. */
tg_tokenizer *lighthouse_tokenizer(tg_error *error);
const char *lighthouse_text(size_t *length);

/* Writes a token for people: a space is "·", a newline "⏎". */
void json_token(const tg_tokenizer *bpe, int32_t id);

#endif
