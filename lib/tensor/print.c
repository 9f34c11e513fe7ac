/* print: the values of a tensor in PyTorch's format.
 *
 * Follows torch 2.13's torch/_tensor_str.py. All numbers of a tensor share one style and one width:
 *   integers     i32 and u8                                                             -12
 *   whole        floats without a fraction; the point distinguishes them from integers          -12.
 *   fixed        the other floats, `precision` digits after the point                   -12.5000
 *   scientific   floats when max / min > 1000, or max > 1e8, or min < 1e-4 (of the      -1.2500e+01
 *                absolute values, as doubles; whole numbers too), unless the config sets `plain`
 * Only finite numbers other than zero determine the style and the width. nan, inf and zeros are padded to that width
 * and may exceed it. A tensor of more than `threshold` values is abbreviated: only `edge_items` values at each end of
 * every axis are shown, and only those determine the style and the width.
 * torch's suffixes for autograd (requires_grad=True, grad_fn=...) are left out.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "base/text.h"
#include "tensor/tensor.h"

#define PREFIX "tensor("
#define INDENT ((int)sizeof PREFIX - 1)

/* The most digits after the point that a double has: the smallest is 2^-1074. */
#define PRECISION_MAX 1074

/* The size of a number's text: sign, 309 digits, a point of several bytes in some locales, the decimals, NUL. */
#define NUMBER_TEXT (1 + 309 + 16 + PRECISION_MAX + 1)

typedef enum style { STYLE_INTEGERS, STYLE_WHOLE, STYLE_FIXED, STYLE_SCIENTIFIC } style;

typedef struct printer {
    const tg_tensor *x;
    tg_tensor_print_config options;
    bool summarize;
    /* the format of the numbers */
    style style;
    int width;
    double largest, smallest; /* of the absolute values; 0: no value yet */
    bool fractions;
    tg_text_buffer *text;
    size_t line_start; /* the position in the text */
} printer;

/* ---- text ---------------------------------------------------------------------------------------------------- */

static void put(printer *p, const char *text)
{
    tg_text_add(p->text, text);
}

static void put_new_lines(printer *p, int lines, int indent)
{
    for (int i = 0; i < lines; i++) {
        put(p, "\n");
    }
    p->line_start = p->text->length;
    tg_text_add_format(p->text, "%*s", indent, "");
}

/* ---- which values are shown ---------------------------------------------------------------------------------- */

static bool is_cut(const printer *p, int axis)
{
    return p->summarize && p->x->shape[axis] > 2 * (int64_t)p->options.edge_items;
}

/* Returns the number of items of an axis in the text. The dots of an abbreviated axis are one item. */
static int64_t items(const printer *p, int axis)
{
    return is_cut(p, axis) ? 2 * (int64_t)p->options.edge_items + 1 : p->x->shape[axis];
}

/* Returns the index of an item on its axis, or -1 for the dots. */
static int64_t index_at(const printer *p, int axis, int64_t item)
{
    if (!is_cut(p, axis) || item < p->options.edge_items) {
        return item;
    }
    return item == p->options.edge_items ? -1 : p->x->shape[axis] - items(p, axis) + item;
}

/* Calls `visit` for each shown value of a subtensor that is finite and not zero. The subtensor has the axes from `axis`
 * on; `flat` is the row-major index of it on the axes before. */
static void visit_shown(printer *p, int axis, int64_t flat, void (*visit)(printer *p, double value))
{
    if (axis == p->x->rank) {
        double value = tg_tensor_value_at(p->x, flat);
        if (isfinite(value) && value != 0) {
            visit(p, value);
        }
        return;
    }
    for (int64_t item = 0; item < items(p, axis); item++) {
        int64_t index = index_at(p, axis, item);
        if (index >= 0) {
            visit_shown(p, axis + 1, flat * p->x->shape[axis] + index, visit);
        }
    }
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

/* Writes one number without padding, as Python does: NaN has no sign, and the decimal separator is a point in every
 * locale. Returns its length. */
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
    tg_text_set_point(text);
    return (int)strlen(text);
}

static void find_style(printer *p, double value)
{
    double size = fabs(value);
    p->largest = fmax(p->largest, size);
    p->smallest = p->smallest == 0 ? size : fmin(p->smallest, size);
    p->fractions = p->fractions || value != ceil(value);
}

static void find_width(printer *p, double value)
{
    char text[NUMBER_TEXT];
    int length = format_number(p, value, text);
    p->width = length > p->width ? length : p->width;
}

static void choose_style_and_width(printer *p)
{
    visit_shown(p, 0, 0, find_style);
    bool any = p->smallest > 0;
    if (p->x->dtype == TG_I32 || p->x->dtype == TG_U8) {
        p->style = STYLE_INTEGERS;
    } else if (!p->options.plain && any &&
               (p->largest / p->smallest > 1000 || p->largest > 1e8 || p->smallest < 1e-4)) {
        p->style = STYLE_SCIENTIFIC;
    } else {
        p->style = p->fractions ? STYLE_FIXED : STYLE_WHOLE;
    }
    p->width = 1;
    visit_shown(p, 0, 0, find_width);
}

static void put_number(printer *p, double value)
{
    char text[NUMBER_TEXT];
    format_number(p, value, text);
    tg_text_add_format(p->text, "%*s", p->width, text);
}

/* ---- brackets, lines and the size ---------------------------------------------------------------------------- */

/* Writes a subtensor, as in visit_shown. Rows of the last axis are wrapped at the line width. The subtensors of the
 * other axes begin on new lines, with one more empty line for each further axis. */
static void put_values(printer *p, int axis, int64_t flat)
{
    if (axis == p->x->rank) {
        put_number(p, tg_tensor_value_at(p->x, flat));
        return;
    }
    bool row = axis == p->x->rank - 1;
    int indent = INDENT + axis;
    /* Each number is followed by ", ". */
    int64_t per_line = ((int64_t)p->options.line_width - indent) / (p->width + 2);
    per_line = per_line < 1 ? 1 : per_line;
    put(p, "[");
    for (int64_t item = 0; item < items(p, axis); item++) {
        int lines = row ? item % per_line == 0 : p->x->rank - axis - 1;
        if (item > 0) {
            put(p, ",");
        }
        if (item > 0 && lines > 0) {
            put_new_lines(p, lines, indent + 1);
        } else if (item > 0) {
            put(p, " ");
        }
        int64_t index = index_at(p, axis, item);
        if (index < 0) {
            put(p, row && p->options.edge_items > 0 ? " ..." : "...");
        } else {
            put_values(p, axis + 1, flat * p->x->shape[axis] + index);
        }
    }
    put(p, "]");
}

/* Writes ", size=(0, 3)", on a line of its own if it does not fit. */
static void put_size(printer *p)
{
    char text[TG_SHAPE_TEXT + TG_MAX_RANK];
    size_t used = (size_t)snprintf(text, sizeof text, "size=(");
    for (int axis = 0; axis < p->x->rank; axis++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, axis ? ", %lld" : "%lld", (long long)p->x->shape[axis]);
    }
    snprintf(text + used, sizeof text - used, p->x->rank == 1 ? ",)" : ")");
    /* torch counts two characters for the end of the line, and two for the comma and the space. */
    int64_t line = (int64_t)(p->text->length - p->line_start + 4 + strlen(text));
    put(p, ",");
    if (line > p->options.line_width) {
        put_new_lines(p, 1, INDENT);
    } else {
        put(p, " ");
    }
    put(p, text);
}

static void put_tensor(printer *p)
{
    bool empty = p->x->count == 0;
    put(p, PREFIX);
    if (empty) {
        put(p, "[]");
    } else {
        choose_style_and_width(p);
        put_values(p, 0, 0);
    }
    /* torch writes the size if the values do not show the shape, and always if edge_items is 0. */
    if (empty ? p->x->rank != 1 : p->options.edge_items == 0) {
        put_size(p);
    }
    put(p, ")");
}

/* ---- public -------------------------------------------------------------------------------------------------- */

TG_CONFIG(tg_tensor_print_config, tg_tensor_print_config_default, mark, .mark = mark, .precision = 4, .threshold = 1000,
          .edge_items = 3, .line_width = 80);

void tg_tensor_format(tg_text_buffer *text, const tg_tensor *x, const tg_tensor_print_config *config)
{
    printer p = {.x = x, .text = text, .line_start = text->length};
    p.options = config ? *config : tg_tensor_print_config_default();
    p.summarize = x->count > p.options.threshold;
    put_tensor(&p);
}

static bool check(const tg_tensor *x, const FILE *file, const tg_tensor_print_config *c, tg_error *error)
{
    if (!tg_tensor_check("tensor_print", "tensor", x, error) || !tg_config_check("tensor_print", c, mark, error)) {
        return false;
    }
    if (c && (c->precision < 0 || c->precision > PRECISION_MAX || c->threshold < 0 || c->edge_items < 0 ||
              c->line_width < 0)) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "tensor_print: precision %d, threshold %lld, edge_items %d, line_width %d; they must be 0 "
                            "or more, and the precision at most %d",
                            c->precision, (long long)c->threshold, c->edge_items, c->line_width, PRECISION_MAX);
    }
    return file || tg_error_set(error, TG_ERROR_STATE, "tensor_print: the file is NULL");
}

bool tg_tensor_print(const tg_tensor *x, FILE *file, const tg_tensor_print_config *config, tg_error *error)
{
    if (!check(x, file, config, error)) {
        return false;
    }
    tg_text_buffer text = {0};
    tg_tensor_format(&text, x, config);
    tg_text_add(&text, "\n");
    bool written = text.failed ? tg_error_set(error, TG_ERROR_MEMORY, "tensor_print: out of memory")
                               : fwrite(text.bytes, 1, text.length, file) == text.length ||
                                     tg_error_set(error, TG_ERROR_FILE, "tensor_print: the file cannot be written");
    tg_free(text.bytes);
    return written;
}
