/* print: a tensor's numbers as PyTorch writes them.
 *
 * Follows torch 2.13's torch/_tensor_str.py. All numbers of a tensor share one style and one width:
 *   integers     i32 and u8                                                             -12
 *   whole        floats without a fraction; the point tells them from integers          -12.
 *   fixed        the other floats, `precision` digits after the point                   -12.5000
 *   scientific   floats when max / min > 1000, or max > 1e8, or min < 1e-4 (of the      -1.2500e+01
 *                absolute values, as doubles; whole numbers too), unless the options say `plain`
 * Only finite numbers other than zero vote on the style and the width: nan, inf and zeros are padded to that width and
 * may stick out. In a tensor of more than `threshold` values, only those that are shown vote: `edge_items` at each end
 * of every axis.
 *
 * The text is written twice where its length has to be known first (tg_print), so that nothing here needs a buffer that
 * grows. What torch adds after the numbers for autograd (requires_grad=True, grad_fn=...) is left out.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/tensor.h"

#define PREFIX "tensor("
#define INDENT ((int)sizeof PREFIX - 1)

/* No double has a digit other than 0 beyond this place after the point: the smallest is 2^-1074. */
#define PRECISION_MAX 1074

/* Sign, 309 digits, a point of several bytes in some locales, the decimals, NUL. */
#define NUMBER_TEXT (1 + 309 + 16 + PRECISION_MAX + 1)

typedef enum style { STYLE_INTEGERS, STYLE_WHOLE, STYLE_FIXED, STYLE_SCIENTIFIC } style;

typedef struct printer {
    const tg_tensor *x;
    tg_print_options options;
    bool summarize;
    /* how the numbers look, decided by the votes */
    style style;
    int width;
    double largest, smallest; /* absolute values; 0 while nobody has voted */
    bool fractions;
    /* the text: as much as there is room for, while `length` counts all of it */
    char *text;
    size_t room, length, line_start;
} printer;

/* ---- text ---------------------------------------------------------------------------------------------------- */

static void put(printer *p, char c, int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        if (p->length < p->room) {
            p->text[p->length] = c;
        }
        p->length++;
    }
}

static void put_text(printer *p, const char *text)
{
    for (; *text; text++) {
        put(p, *text, 1);
    }
}

static void put_new_lines(printer *p, int64_t lines, int64_t indent)
{
    put(p, '\n', lines);
    p->line_start = p->length;
    put(p, ' ', indent);
}

/* ---- which values are shown ---------------------------------------------------------------------------------- */

static bool is_cut(const printer *p, int axis)
{
    return p->summarize && p->x->shape[axis] > 2 * (int64_t)p->options.edge_items;
}

/* How many places an axis takes in the text: in a cut one, the dots are a place. */
static int64_t places(const printer *p, int axis)
{
    return is_cut(p, axis) ? 2 * (int64_t)p->options.edge_items + 1 : p->x->shape[axis];
}

/* The index that is shown at a place, or -1 for the dots. */
static int64_t index_at(const printer *p, int axis, int64_t place)
{
    if (!is_cut(p, axis) || place < p->options.edge_items) {
        return place;
    }
    return place == p->options.edge_items ? -1 : p->x->shape[axis] - places(p, axis) + place;
}

/* Calls `vote` for each shown value that is finite and not zero, in the part of x that begins at axis `axis` and is
 * number `flat` among its like. */
static void poll(printer *p, int axis, int64_t flat, void (*vote)(printer *p, double value))
{
    if (axis == p->x->rank) {
        double value = tg_value_at(p->x, flat);
        if (isfinite(value) && value != 0) {
            vote(p, value);
        }
        return;
    }
    for (int64_t place = 0; place < places(p, axis); place++) {
        int64_t index = index_at(p, axis, place);
        if (index >= 0) {
            poll(p, axis + 1, flat * p->x->shape[axis] + index, vote);
        }
    }
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

/* One number, without padding, as Python writes it: NaN has no sign, and the point is a point in every locale. Returns
 * its length. */
static int format_number(const printer *p, double value, char text[NUMBER_TEXT])
{
    if (!isfinite(value)) {
        strcpy(text, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return (int)strlen(text);
    }
    if (p->style == STYLE_SCIENTIFIC) {
        snprintf(text, NUMBER_TEXT, "%.*e", p->options.precision, value);
    } else if (p->style == STYLE_FIXED) {
        snprintf(text, NUMBER_TEXT, "%.*f", p->options.precision, value);
    } else {
        snprintf(text, NUMBER_TEXT, p->style == STYLE_WHOLE ? "%.0f." : "%.0f", value);
    }
    char *point = text + strspn(text, "-0123456789");
    size_t bytes = strcspn(point, "e0123456789"); /* of the point, and of nothing else */
    if (bytes > 0) {
        *point = '.';
        memmove(point + 1, point + bytes, strlen(point + bytes) + 1);
    }
    return (int)strlen(text);
}

static void vote_on_style(printer *p, double value)
{
    double size = fabs(value);
    p->largest = fmax(p->largest, size);
    p->smallest = p->smallest == 0 ? size : fmin(p->smallest, size);
    p->fractions = p->fractions || value != ceil(value);
}

static void vote_on_width(printer *p, double value)
{
    char text[NUMBER_TEXT];
    int length = format_number(p, value, text);
    p->width = length > p->width ? length : p->width;
}

static void choose_style_and_width(printer *p)
{
    poll(p, 0, 0, vote_on_style);
    bool any = p->smallest > 0;
    if (!tg_dtype_is_float((tg_dtype)p->x->dtype)) {
        p->style = STYLE_INTEGERS;
    } else if (!p->options.plain && any &&
               (p->largest / p->smallest > 1000 || p->largest > 1e8 || p->smallest < 1e-4)) {
        p->style = STYLE_SCIENTIFIC;
    } else {
        p->style = p->fractions ? STYLE_FIXED : STYLE_WHOLE;
    }
    p->width = 1;
    poll(p, 0, 0, vote_on_width);
}

static void put_number(printer *p, double value)
{
    char text[NUMBER_TEXT];
    put(p, ' ', p->width - format_number(p, value, text));
    put_text(p, text);
}

/* ---- brackets, lines and what follows them ------------------------------------------------------------------- */

/* The part of x that begins at axis `axis` and is number `flat` among its like. Rows of the last axis are wrapped at
 * the line width; the other axes put their parts on new lines, with one empty line more for each further axis. */
static void put_values(printer *p, int axis, int64_t flat)
{
    if (axis == p->x->rank) {
        put_number(p, tg_value_at(p->x, flat));
        return;
    }
    bool row = axis == p->x->rank - 1;
    int indent = INDENT + axis;
    int64_t per_line = ((int64_t)p->options.line_width - indent) / (p->width + 2); /* ", " goes with each number */
    per_line = per_line < 1 ? 1 : per_line;
    put(p, '[', 1);
    for (int64_t place = 0; place < places(p, axis); place++) {
        int64_t lines = row ? place % per_line == 0 : p->x->rank - axis - 1;
        if (place > 0) {
            put(p, ',', 1);
        }
        if (place > 0 && lines > 0) {
            put_new_lines(p, lines, indent + 1);
        } else if (place > 0) {
            put(p, ' ', 1);
        }
        int64_t index = index_at(p, axis, place);
        if (index < 0) {
            put_text(p, row && p->options.edge_items > 0 ? " ..." : "...");
        } else {
            put_values(p, axis + 1, flat * p->x->shape[axis] + index);
        }
    }
    put(p, ']', 1);
}

/* ", size=(0, 3)", on a line of its own when it does not fit. */
static void put_size(printer *p)
{
    char text[TG_SHAPE_TEXT + TG_MAX_RANK];
    size_t used = (size_t)snprintf(text, sizeof text, "size=(");
    for (int axis = 0; axis < p->x->rank; axis++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, axis ? ", %lld" : "%lld", (long long)p->x->shape[axis]);
    }
    snprintf(text + used, sizeof text - used, p->x->rank == 1 ? ",)" : ")");
    put(p, ',', 1);
    /* torch counts two characters for the line's end, and two more for the comma and the space */
    int64_t line = (int64_t)(p->length - 1 - p->line_start + 4 + strlen(text));
    if (line > p->options.line_width) {
        put_new_lines(p, 1, INDENT);
    } else {
        put(p, ' ', 1);
    }
    put_text(p, text);
}

static void put_tensor(printer *p)
{
    bool empty = p->x->count == 0;
    put_text(p, PREFIX);
    if (empty) {
        put_text(p, "[]");
    } else {
        choose_style_and_width(p);
        put_values(p, 0, 0);
    }
    /* where the values do not show the shape; torch says it for edge_items 0 even when nothing is left out */
    if (empty ? p->x->rank != 1 : p->options.edge_items == 0) {
        put_size(p);
    }
    put(p, ')', 1);
}

/* ---- public -------------------------------------------------------------------------------------------------- */

tg_print_options tg_print_options_default(void)
{
    return (tg_print_options){.precision = 4, .threshold = 1000, .edge_items = 3, .line_width = 80};
}

static int clamped(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

int64_t tg_format(const tg_tensor *x, const tg_print_options *options, char *text, size_t size)
{
    printer p = {.x = x, .text = text, .room = size > 0 ? size - 1 : 0};
    if (x) {
        p.options = options ? *options : tg_print_options_default();
        p.options.precision = clamped(p.options.precision, 0, PRECISION_MAX);
        p.options.edge_items = clamped(p.options.edge_items, 0, INT_MAX);
        p.summarize = x->count > p.options.threshold;
        put_tensor(&p);
    }
    if (size > 0) {
        text[p.length < p.room ? p.length : p.room] = '\0';
    }
    return x ? (int64_t)p.length : -1;
}

bool tg_print(FILE *file, const tg_tensor *x)
{
    return tg_print_with(file, x, NULL);
}

bool tg_print_with(FILE *file, const tg_tensor *x, const tg_print_options *options)
{
    int64_t length = tg_format(x, options, NULL, 0);
    if (!file || length < 0) {
        return false;
    }
    char *text = tg_alloc((size_t)length + 2, 1); /* newline and NUL */
    if (!text) {
        return false;
    }
    tg_format(x, options, text, (size_t)length + 1);
    text[length] = '\n';
    bool written = fwrite(text, 1, (size_t)length + 1, file) == (size_t)length + 1;
    tg_free(text);
    return written;
}
