/* ledger: one line an op, and the first line in which two ledgers differ. The format is in tapegrad/ledger.h.
 *
 * A ledger is an observer of its tape, and costs nothing when there is none. Lines are read with a fixed buffer and
 * every field is checked: a ledger may come from another program.
 */
#include <tapegrad/ledger.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tape/tape.h"

#define FIRST_LINE "tapegrad ledger 1\n"
#define LINE 1024
#define NAME "%.200s" /* of an op, so that a line fits */
#define FIELDS 9

struct tg_ledger {
    FILE *file;
    tg_tape *tape;
    int64_t count;
    bool failed;
};

/* ---- writing ---- */

typedef struct summary {
    double sum, size;
    uint64_t checksum;
} summary;

static summary summarize(const tg_tensor *x)
{
    summary s = {.checksum = 0xcbf29ce484222325};
    size_t width = tg_dtype_size(tg_dtype_of(x));
    for (int64_t i = 0; i < x->count; i++) {
        double value = tg_value_at(x, i);
        s.sum += value;
        s.size += fabs(value);
        float narrow = (float)value;
        int32_t id = x->dtype == TG_I32 ? (int32_t)value : 0;
        uint8_t mask = x->dtype == TG_U8 ? (uint8_t)value : 0;
        const void *parts[] = {[TG_F32] = &narrow, [TG_F64] = &value, [TG_I32] = &id, [TG_U8] = &mask};
        const unsigned char *bytes = parts[x->dtype];
        for (size_t k = 0; k < width; k++) {
            s.checksum = (s.checksum ^ bytes[k]) * 0x100000001b3;
        }
    }
    return s;
}

static void write_line(tg_ledger *ledger, const char *op, const tg_tensor *y, uint64_t draws, uint64_t position)
{
    char shape[TG_MAX_RANK * 21 + 2] = "-";
    for (int axis = 0, at = 0; axis < y->rank; axis++) {
        at += snprintf(shape + at, sizeof shape - (size_t)at, axis ? ",%" PRId64 : "%" PRId64, y->shape[axis]);
    }
    summary s = summarize(y);
    int written =
        fprintf(ledger->file, "%" PRId64 "\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%.17g\t%.17g\t%016" PRIx64 "\n",
                ++ledger->count, op, tg_dtype_name(tg_dtype_of(y)), shape, draws, position, s.sum, s.size, s.checksum);
    ledger->failed = ledger->failed || written < 0;
}

static void observe(void *context, const tg_op_call *call)
{
    if (!call->op->f32.forward && !call->op->f64.forward) {
        return; /* a view */
    }
    uint64_t position = call->rng ? tg_rng_position(call->rng) : 0;
    for (int i = 0; i < call->output_count; i++) {
        char name[256];
        snprintf(name, sizeof name, i ? NAME "[%d]" : NAME, call->op->name, i);
        write_line(context, name, call->outputs[i], i ? 0 : position - call->tape->position_before, position);
    }
}

tg_ledger *tg_ledger_new(FILE *file, tg_tape *tape, tg_error *error)
{
    if (!file || !tape) {
        tg_error_set(error, TG_ERROR_STATE, "ledger: the %s is NULL", file ? "tape" : "file");
        return NULL;
    }
    tg_ledger *ledger = tg_alloc_zeroed(1, sizeof *ledger);
    if (!ledger) {
        tg_error_set(error, TG_ERROR_MEMORY, "ledger: out of memory");
        return NULL;
    }
    if (fputs(FIRST_LINE, file) < 0) {
        tg_free(ledger);
        tg_error_set(error, TG_ERROR_FILE, "ledger: the file cannot be written");
        return NULL;
    }
    ledger->file = file;
    ledger->tape = tape;
    tg_tape_set_observer(tape, observe, ledger);
    return ledger;
}

bool tg_ledger_free(tg_ledger *ledger)
{
    if (!ledger) {
        return true;
    }
    if (ledger->tape->observer_context == ledger) { /* not a later observer's */
        tg_tape_set_observer(ledger->tape, NULL, NULL);
    }
    bool written = !ledger->failed && fflush(ledger->file) == 0;
    tg_free(ledger);
    return written;
}

/* ---- comparing ---- */

static const char *const field_names[FIELDS] = {"number",   "op",  "dtype", "shape",   "draws",
                                                "position", "sum", "size",  "checksum"};

enum { NUMBER, OP, DTYPE, SHAPE, DRAWS, POSITION, SUM, SIZE, CHECKSUM };

typedef struct reader {
    FILE *file;
    const char *name;
    int64_t line;
    char text[LINE];
    const char *fields[FIELDS];
    const char *flaw; /* of a bad line: what is wrong, or the name of the field that is */
    double sum, size;
} reader;

typedef enum reading { READ_LINE, READ_END, READ_BAD } reading;

/* Cuts the line at its tabs. */
static bool split(reader *r)
{
    int count = 0;
    char *at = r->text;
    for (; at && count < FIELDS; count++) {
        r->fields[count] = at;
        at = strchr(at, '\t');
        if (at) {
            *at++ = '\0';
        }
    }
    return count == FIELDS && !at;
}

/* As "%.17g" writes it: no space before it, and nothing behind. */
static bool to_double(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return strchr("+-.0123456789in", text[0]) && end != text && *end == '\0';
}

/* At least one of these characters, and no other. */
static bool made_of(const char *text, const char *characters)
{
    return text[0] != '\0' && text[strspn(text, characters)] == '\0';
}

/* Printed when it differs, so nothing that moves a terminal's cursor. */
static bool is_name(const char *text)
{
    const char *at = text;
    while ((unsigned char)*at >= ' ' && *at != 0x7f) {
        at++;
    }
    return at != text && *at == '\0';
}

static bool is_dtype(const char *text)
{
    bool known = false;
    for (int dtype = TG_F32; dtype <= TG_U8; dtype++) {
        known |= strcmp(text, tg_dtype_name((tg_dtype)dtype)) == 0;
    }
    return known;
}

/* The first field that cannot be a ledger's, or -1. Line 2 has number 1. */
static int bad_field(reader *r)
{
    const char *const *field = r->fields;
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, r->line - 1);
    const bool good[FIELDS] = {
        [NUMBER] = strcmp(field[NUMBER], number) == 0,
        [OP] = is_name(field[OP]),
        [DTYPE] = is_dtype(field[DTYPE]),
        [SHAPE] = strcmp(field[SHAPE], "-") == 0 || made_of(field[SHAPE], "0123456789,"),
        [DRAWS] = made_of(field[DRAWS], "0123456789"),
        [POSITION] = made_of(field[POSITION], "0123456789"),
        [SUM] = to_double(field[SUM], &r->sum),
        [SIZE] = to_double(field[SIZE], &r->size) && !(r->size < 0),
        [CHECKSUM] = strcmp(field[CHECKSUM], "-") == 0 ||
                     (strlen(field[CHECKSUM]) == 16 && made_of(field[CHECKSUM], "0123456789abcdef")),
    };
    for (int i = 0; i < FIELDS; i++) {
        if (!good[i]) {
            return i;
        }
    }
    return -1;
}

static reading bad(reader *r, const char *flaw)
{
    r->flaw = flaw;
    return READ_BAD;
}

static reading read_line(reader *r)
{
    r->line++;
    if (!fgets(r->text, sizeof r->text, r->file)) {
        return ferror(r->file) || r->line == 1 ? bad(r, "nothing can be read") : READ_END;
    }
    if (r->line == 1) {
        return strcmp(r->text, FIRST_LINE) == 0 ? READ_LINE : bad(r, "it must be \"tapegrad ledger 1\"");
    }
    size_t length = strlen(r->text);
    if (length == 0 || r->text[length - 1] != '\n') {
        return bad(r, "it is too long, has a NUL, or is cut off");
    }
    r->text[length - 1] = '\0';
    if (!split(r)) {
        return bad(r, "it must have nine fields with a tab between two");
    }
    int field = bad_field(r);
    return field < 0 ? READ_LINE : bad(r, field_names[field]);
}

/* An infinity is near to itself alone, though what it allows would be infinite. */
static bool near(double a, double b, double allowed)
{
    return a == b || (isnan(a) && isnan(b)) || (isfinite(a) && isfinite(b) && fabs(a - b) <= allowed);
}

/* The first field in which two lines differ, or -1. */
static int first_difference(const reader *a, const reader *b, double tolerance)
{
    for (int field = OP; field <= POSITION; field++) {
        if (strcmp(a->fields[field], b->fields[field]) != 0) {
            return field;
        }
    }
    double allowed = tolerance * fmax(a->size, b->size);
    if (!near(a->size, b->size, allowed)) {
        return SIZE;
    }
    if (!near(a->sum, b->sum, allowed)) {
        return SUM;
    }
    bool known = strcmp(a->fields[CHECKSUM], "-") != 0 && strcmp(b->fields[CHECKSUM], "-") != 0;
    return tolerance == 0 && known && strcmp(a->fields[CHECKSUM], b->fields[CHECKSUM]) != 0 ? CHECKSUM : -1;
}

tg_ledger_verdict tg_ledger_compare(FILE *a, FILE *b, double tolerance, char *text, size_t size)
{
    if (!a || !b || !(tolerance >= 0 && isfinite(tolerance))) {
        snprintf(text, size, "the files must not be NULL, and the tolerance %g must be finite and at least 0",
                 tolerance);
        return TG_LEDGER_BAD;
    }
    reader first = {.file = a, .name = "first"}, second = {.file = b, .name = "second"};
    for (int64_t ops = -1;; ops++) {
        reading one = read_line(&first), other = read_line(&second);
        if (one == READ_BAD || other == READ_BAD) {
            const reader *bad_one = one == READ_BAD ? &first : &second;
            snprintf(text, size, "line %" PRId64 " of the %s file is not a ledger's: %s", bad_one->line, bad_one->name,
                     bad_one->flaw);
            return TG_LEDGER_BAD;
        }
        if (one == READ_END && other == READ_END) {
            snprintf(text, size, "%" PRId64 " ops are equal", ops);
            return TG_LEDGER_EQUAL;
        }
        if (one != other) {
            snprintf(text, size, "the %s ledger ends after %" PRId64 " ops; the other goes on with %s",
                     one == READ_END ? "first" : "second", ops, (one == READ_END ? second : first).fields[OP]);
            return TG_LEDGER_DIFFERENT;
        }
        if (first.line == 1) {
            continue;
        }
        int field = first_difference(&first, &second, tolerance);
        if (field >= 0) {
            snprintf(text, size, "op %s, %s of shape %s: %s is %s in the first ledger and %s in the second",
                     first.fields[NUMBER], first.fields[OP], first.fields[SHAPE], field_names[field],
                     first.fields[field], second.fields[field]);
            return TG_LEDGER_DIFFERENT;
        }
    }
}
