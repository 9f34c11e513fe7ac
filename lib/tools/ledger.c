/* ledger: writes a ledger, a trace of operations, and compares two of them. tapegrad/ledger.h describes the format.
 *
 * A ledger watches the kernels of its tape (extend.h); a tape without one has no overhead. Numbers are written and read
 * with a point in every locale, so a ledger does not depend on that of the program. Lines are read into a fixed buffer
 * and every field is checked, because a ledger may come from another program.
 */
#include <tapegrad/ledger.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

#define FIRST_LINE "tapegrad ledger 1\n"
#define LEDGER_LINE 1024
/* The bytes of an op's name with its NUL, so that a line fits into LEDGER_LINE bytes. */
#define NAME 201
#define FIELDS 9

struct tg_ledger {
    FILE *file;
    tg_tape *tape;
    tg_kernel_watch watch;
    uint64_t position_before; /* of the generator, before the kernel */
    int64_t count;
    bool failed;
};

/* ---- writing ---- */

typedef struct summary {
    double sum, size;
    uint64_t checksum;
} summary;

/* The checksum reads bytes in little-endian order, so that it does not depend on the machine. */
static summary summarize(const tg_tensor *x)
{
    summary s = {.checksum = 0xcbf29ce484222325};
    tg_dtype dtype = tg_tensor_dtype(x);
    size_t width = tg_dtype_size(dtype);
    int64_t count = tg_tensor_count(x);
    for (int64_t i = 0; i < count; i++) {
        double value = tg_tensor_value_at(x, i);
        s.sum += value;
        s.size += fabs(value);
        float narrow = (float)value;
        uint64_t bits = (uint64_t)(int64_t)(dtype == TG_I32 || dtype == TG_U8 ? value : 0);
        uint32_t narrow_bits;
        memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
        bits = dtype == TG_F32 ? narrow_bits : bits;
        if (dtype == TG_F64) {
            memcpy(&bits, &value, sizeof bits);
        }
        for (size_t k = 0; k < width; k++) {
            s.checksum = (s.checksum ^ (bits >> 8 * k & 0xff)) * 0x100000001b3;
        }
    }
    return s;
}

static void write_line(tg_ledger *ledger, const char *op, const tg_tensor *y, uint64_t draws, uint64_t position)
{
    char shape[TG_MAX_RANK * 21 + 2] = "-";
    for (int axis = 0, at = 0; axis < tg_tensor_rank(y); axis++) {
        at += snprintf(shape + at, sizeof shape - (size_t)at, axis ? ",%" PRId64 : "%" PRId64, tg_tensor_size(y, axis));
    }
    summary s = summarize(y);
    char sum[TG_NUMBER_TEXT], size[TG_NUMBER_TEXT];
    int written = fprintf(ledger->file, "%" PRId64 "\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%016" PRIx64 "\n",
                          ++ledger->count, op, tg_dtype_name(tg_tensor_dtype(y)), shape, draws, position,
                          tg_format_number(s.sum, 17, sum), tg_format_number(s.size, 17, size), s.checksum);
    ledger->failed = ledger->failed || written < 0;
}

static void begin_kernel(void *context, const tg_op_call *call, bool is_backward)
{
    (void)is_backward;
    tg_ledger *ledger = context;
    ledger->position_before = tg_rng_position(call->rng);
}

static void end_kernel(void *context, const tg_op_call *call, bool is_backward)
{
    bool is_view = !call->op->f32.forward && !call->op->f64.forward;
    if (is_view || is_backward || call->is_repeated) {
        return;
    }
    tg_ledger *ledger = context;
    uint64_t position = tg_rng_position(call->rng);
    for (int i = 0; i < call->output_count; i++) {
        char name[NAME + 16];
        size_t length = tg_escape(name, NAME, call->op->name); /* a tab or a newline would end the field */
        if (i > 0) {
            snprintf(name + length, sizeof name - length, "[%d]", i);
        }
        write_line(ledger, name, call->outputs[i], i ? 0 : position - ledger->position_before, position);
    }
}

tg_ledger *tg_ledger_open(tg_tape *tape, FILE *file)
{
    if (!tape || tg_tape_error(tape)->code != TG_OK) {
        return NULL;
    }
    if (!file) {
        tg_tape_fail(tape, TG_ERROR_STATE, "ledger_open", "the file is NULL");
        return NULL;
    }
    tg_ledger *ledger = tg_alloc_zeroed(1, sizeof *ledger);
    bool begun = ledger && fputs(FIRST_LINE, file) >= 0;
    if (!begun) {
        tg_tape_fail(tape, ledger ? TG_ERROR_FILE : TG_ERROR_MEMORY, "ledger_open", "%s",
                     ledger ? "the file cannot be written" : "out of memory");
        tg_free(ledger);
        return NULL;
    }
    tg_kernel_watch watch = {.before = begin_kernel, .after = end_kernel, .context = ledger, .keeps_results = true};
    *ledger = (tg_ledger){.file = file, .tape = tape, .watch = watch};
    tg_tape_add_watch(tape, &ledger->watch);
    return ledger;
}

bool tg_ledger_close(tg_ledger *ledger, tg_error *error)
{
    if (!ledger) {
        return true;
    }
    tg_tape_remove_watch(ledger->tape, &ledger->watch);
    bool written = fflush(ledger->file) == 0 && !ledger->failed;
    tg_free(ledger);
    return written || tg_error_set(error, TG_ERROR_FILE, "ledger_close: the file cannot be written");
}

/* ---- comparing ---- */

static const char *const field_names[FIELDS] = {"number",   "op",  "dtype", "shape",   "draws",
                                                "position", "sum", "size",  "checksum"};

enum { NUMBER, OP, DTYPE, SHAPE, DRAWS, POSITION, SUM, SIZE, CHECKSUM };

typedef struct reader {
    FILE *file;
    const char *name;
    int64_t line;
    char text[LEDGER_LINE];
    const char *fields[FIELDS];
    char flaw[120]; /* the reason why the line is invalid: a sentence, or the name and the text of a field */
    double sum, size;
} reader;

typedef enum reading { READ_LINE, READ_END, READ_BAD } reading;

/* Splits the line at its tabs. */
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

/* Parses a number in the form of "%.17g". Returns false if a space precedes it or anything follows it. */
static bool to_double(const char *text, double *value)
{
    return strchr("+-.0123456789in", text[0]) && tg_parse_number(text, value);
}

/* Returns whether a text is not empty and has only these characters. */
static bool made_of(const char *text, const char *characters)
{
    return text[0] != '\0' && text[strspn(text, characters)] == '\0';
}

/* Returns whether a text is a valid name: control characters are escaped in a ledger. */
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

/* Returns the first invalid field, or -1. The number of line 2 is 1. */
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
    snprintf(r->flaw, sizeof r->flaw, "%s", flaw);
    return READ_BAD;
}

static reading bad_text(reader *r, int field)
{
    snprintf(r->flaw, sizeof r->flaw, "%s \"%.*s\"", field_names[field], TG_CUT(r->fields[field], 80));
    return READ_BAD;
}

static reading read_line(reader *r)
{
    r->line++;
    if (!fgets(r->text, sizeof r->text, r->file)) {
        return ferror(r->file) || r->line == 1 ? bad(r, "it cannot be read") : READ_END;
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
    return field < 0 ? READ_LINE : bad_text(r, field);
}

/* Returns whether two numbers are equal within a tolerance. An infinity is equal only to itself, although its tolerance
 * would be infinite. */
static bool near(double a, double b, double allowed)
{
    return a == b || (isnan(a) && isnan(b)) || (isfinite(a) && isfinite(b) && fabs(a - b) <= allowed);
}

/* Returns the first field in which two lines differ, or -1. */
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

/* Compares line by line. Returns false for an invalid line. */
static bool compare(reader *a, reader *b, double tolerance, tg_ledger_difference *difference, tg_error *error)
{
    for (int64_t equal = -1;; equal++) {
        difference->equal_lines = equal < 0 ? 0 : equal;
        reading one = read_line(a), other = read_line(b);
        if (one == READ_BAD || other == READ_BAD) {
            const reader *bad_one = one == READ_BAD ? a : b;
            return tg_error_set(error, TG_ERROR_FORMAT,
                                "ledger_compare: line %" PRId64 " of the %s file is invalid: %s", bad_one->line,
                                bad_one->name, bad_one->flaw);
        }
        if (one == READ_END && other == READ_END) {
            difference->is_equal = true;
            tg_format_line(difference->text, sizeof difference->text, "%" PRId64 " ops are equal", equal);
            return true;
        }
        if (one != other) {
            tg_format_line(difference->text, sizeof difference->text,
                           "the %s ledger ends after %" PRId64 " ops; the other continues with %s",
                           one == READ_END ? "first" : "second", equal, (one == READ_END ? b : a)->fields[OP]);
            return true;
        }
        int field = a->line == 1 ? -1 : first_difference(a, b, tolerance);
        if (field >= 0) {
            tg_format_line(difference->text, sizeof difference->text,
                           "op %s, %.*s of shape %s: %s is %.*s in the first ledger and %.*s in the second",
                           a->fields[NUMBER], TG_CUT(a->fields[OP], 80), a->fields[SHAPE], field_names[field],
                           TG_CUT(a->fields[field], 80), TG_CUT(b->fields[field], 80));
            return true;
        }
    }
}

bool tg_ledger_compare(FILE *a, FILE *b, double tolerance, tg_ledger_difference *difference, tg_error *error)
{
    if (!a || !b || !difference) {
        return tg_error_set(error, TG_ERROR_STATE, "ledger_compare: the %s is NULL",
                            !a   ? "first file"
                            : !b ? "second file"
                                 : "difference");
    }
    if (!(tolerance >= 0 && isfinite(tolerance))) {
        return tg_error_set(error, TG_ERROR_VALUE, "ledger_compare: the tolerance %g must be finite and at least 0",
                            tolerance);
    }
    reader first = {.file = a, .name = "first"}, second = {.file = b, .name = "second"};
    tg_ledger_difference found = {.is_equal = false};
    bool compared = compare(&first, &second, tolerance, &found, error);
    if (compared) {
        *difference = found;
    }
    return compared;
}
