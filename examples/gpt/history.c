#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/curves.h"
#include "../common/program.h"

bool history_make(history *h, int64_t steps)
{
    size_t n = (size_t)steps;
    *h = (history){.capacity = steps,
                   .loss = calloc(n, sizeof *h->loss),
                   .lr = calloc(n, sizeof *h->lr),
                   .norm = calloc(n, sizeof *h->norm),
                   .evaluated = calloc(n, sizeof *h->evaluated),
                   .validation = calloc(n, sizeof *h->validation)};
    return (h->loss && h->lr && h->norm && h->evaluated && h->validation) || complain("out of memory");
}

void history_free(history *h)
{
    free(h->loss);
    free(h->lr);
    free(h->norm);
    free(h->evaluated);
    free(h->validation);
}

void history_add_step(history *h, double loss, double lr, double norm)
{
    h->loss[h->steps] = (float)loss;
    h->lr[h->steps] = (float)lr;
    h->norm[h->steps] = (float)norm;
    h->steps++;
}

void history_add_evaluation(history *h, double loss)
{
    h->evaluated[h->evaluations] = h->steps;
    h->validation[h->evaluations] = (float)loss;
    h->evaluations++;
}

static void make_curves(const history *h, curve curves[2])
{
    curves[0] = (curve){"training", h->loss, NULL, h->steps};
    curves[1] = (curve){"validation", h->validation, h->evaluated, h->evaluations};
}

void history_show(const history *h)
{
    curve curves[2];
    make_curves(h, curves);
    curves_terminal(curves, 2);
    int64_t best = 0;
    for (int64_t i = 1; i < h->evaluations; i++) {
        best = h->validation[i] < h->validation[best] ? i : best;
    }
    if (h->evaluations > 0) {
        printf("\nThe lowest validation loss was %.4f, after step %lld.\n", (double)h->validation[best],
               (long long)h->evaluated[best]);
    }
}

/* The most bytes of a line of losses.tsv: a step, and four numbers of at most 9 digits. */
#define LINE 100

/* Returns the lines of losses.tsv, for free; NULL after printing an error. */
static char *make_table(const history *h, int digits, size_t *length)
{
    char *text = malloc((size_t)(h->steps + 1) * LINE);
    if (!text) {
        complain("out of memory");
        return NULL;
    }
    char *at = text + sprintf(text, "step\tloss\tlr\tgradient_norm\tvalidation\n");
    for (int64_t i = 0, next = 0; i < h->steps; i++) {
        at += snprintf(at, LINE, "%lld\t%.*g\t%.*g\t%.*g\t", (long long)i + 1, digits, (double)h->loss[i], digits,
                       (double)h->lr[i], digits, (double)h->norm[i]);
        if (next < h->evaluations && h->evaluated[next] == i + 1) {
            at += snprintf(at, LINE, "%.*g", digits, (double)h->validation[next++]);
        }
        *at++ = '\n';
    }
    *at = '\0';
    *length = (size_t)(at - text);
    return text;
}

static bool write_losses(const history *h, const char *path)
{
    size_t length;
    char *text = make_table(h, 7, &length);
    FILE *file = text ? file_begin(path) : NULL;
    bool is_open = file != NULL;
    if (is_open) {
        fwrite(text, 1, length, file);
    }
    free(text);
    return is_open && file_end(file, path);
}

bool history_write(const history *h, const char *folder)
{
    curve curves[2];
    make_curves(h, curves);
    return write_losses(h, folder_file(folder, "losses.tsv")) &&
           curves_svg(folder_file(folder, "loss.svg"), "loss", curves, 2);
}

/* ---- for checkpoints ---- */

bool history_is_best(const history *h)
{
    int64_t last = h->evaluations - 1;
    bool is_best = last >= 0 && h->evaluated[last] == h->steps;
    for (int64_t i = 0; is_best && i < last; i++) {
        is_best = h->validation[last] < h->validation[i];
    }
    return is_best;
}

char *history_text(const history *h, size_t *length)
{
    return make_table(h, 9, length); /* 9 digits determine a float */
}

/* Reads a number and the tab or newline after it. */
static bool read_number(const char **text, double *value)
{
    char *end;
    *value = strtod(*text, &end);
    bool is_read = end > *text && (*end == '\t' || *end == '\n');
    *text = end + is_read;
    return is_read;
}

bool history_parse(history *h, const char *text)
{
    const char *line = strchr(text, '\n');
    bool is_valid = line;
    for (line += is_valid; is_valid && *line;) {
        double step, loss, lr, norm, validation;
        is_valid = h->steps < h->capacity && read_number(&line, &step) && read_number(&line, &loss) &&
                   read_number(&line, &lr) && read_number(&line, &norm) && step == (double)(h->steps + 1);
        if (!is_valid) {
            break;
        }
        history_add_step(h, loss, lr, norm);
        if (*line == '\n') {
            line++;
        } else if ((is_valid = read_number(&line, &validation))) {
            history_add_evaluation(h, validation);
        }
    }
    return is_valid || complain("the losses in the checkpoint are damaged after step %lld", (long long)h->steps);
}
