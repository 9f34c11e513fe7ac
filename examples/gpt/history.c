#include "history.h"

#include <stdio.h>
#include <stdlib.h>

#include "../common/curves.h"
#include "../common/program.h"

bool history_make(history *h, int64_t steps)
{
    size_t n = (size_t)steps;
    *h = (history){.loss = calloc(n, sizeof *h->loss),
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

static bool write_losses(const history *h, const char *path)
{
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    fprintf(file, "step\tloss\tlr\tgradient_norm\tvalidation\n");
    for (int64_t i = 0, next = 0; i < h->steps; i++) {
        fprintf(file, "%lld\t%.6f\t%.6g\t%.6f\t", (long long)i + 1, (double)h->loss[i], (double)h->lr[i],
                (double)h->norm[i]);
        if (next < h->evaluations && h->evaluated[next] == i + 1) {
            fprintf(file, "%.6f", (double)h->validation[next++]);
        }
        fputc('\n', file);
    }
    return file_end(file, path);
}

bool history_write(const history *h, const char *folder)
{
    curve curves[2];
    make_curves(h, curves);
    return write_losses(h, folder_file(folder, "losses.tsv")) && curves_svg(folder_file(folder, "loss.svg"), curves, 2);
}
