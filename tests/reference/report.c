/* report: the notes of a call, and what a failing call prints. */
#include "trial.h"

#include <stdarg.h>
#include <string.h>

void note(trial *t, const char *format, ...)
{
    size_t used = strlen(t->notes);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->notes + used, sizeof t->notes - used, format, arguments);
    va_end(arguments);
}

int64_t note_integer(trial *t, const char *name, int64_t value)
{
    note(t, "    %s = %lld\n", name, (long long)value);
    return value;
}

double note_double(trial *t, const char *name, double value)
{
    note(t, "    %s = %.17g\n", name, value);
    return value;
}

bool note_bool(trial *t, const char *name, bool value)
{
    note(t, "    %s = %s\n", name, value ? "true" : "false");
    return value;
}

static void print_values(const char *name, const array *x)
{
    printf("    %s:", name);
    for (int64_t i = 0; i < x->count && i < 64; i++) {
        printf(" %.9g", x->values[i]);
    }
    printf(x->count > 64 ? " ...\n" : "\n");
}

static void print_inputs(const trial *t)
{
    char text[TG_SHAPE_TEXT];
    for (int k = 0; k < t->input_count; k++) {
        const input *in = &t->inputs[k];
        if (!in->is_present) {
            printf("    %s = NULL\n", in->name);
            continue;
        }
        printf("    %s %s %s%s (%s)\n", in->name, tg_dtype_name(in->dtype), tg_shape_format(in->x.shape, text),
               in->requires_grad ? ", requires grad" : "", in->layout);
        print_values(in->name, &in->x);
    }
}

FILE *shapes_file;

void print_shapes(const trial *t)
{
    char text[TG_SHAPE_TEXT];
    for (int k = 0; shapes_file && k < t->input_count; k++) {
        if (t->inputs[k].is_present) {
            fprintf(shapes_file, "shape %s %s\n", t->reference->op, tg_shape_format(t->inputs[k].x.shape, text));
        }
    }
}

void trial_fail(trial *t, const char *format, ...)
{
    if (!t->has_failed) {
        t->describe(t);
        printf("%s", t->notes);
        print_inputs(t);
    }
    t->has_failed = true;
    va_list arguments;
    va_start(arguments, format);
    printf("    ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}
