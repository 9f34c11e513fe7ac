/* encodings FILE: draws three maps of positions, whose values the library computes: the sinusoidal table, the products
 * of its rows, and the products of one vector that tg_rotary has turned to two positions. */
#include "../../common/program.h"
#include "../../common/svg.h"

const char program_name[] = "site_encodings";

enum { POSITIONS = 32, WIDTH = 32, CELL = 7, MAP = CELL * POSITIONS, GAP = 44 };

static void map(FILE *file, const tg_tensor *values, double scale, int left, const char *title, const char *across)
{
    char color[SVG_COLOR];
    fprintf(file, "<text x=\"%d\" y=\"%d\">%s</text>\n", left, GAP - 12, title);
    for (int i = 0; i < POSITIONS; i++) {
        for (int j = 0; j < POSITIONS; j++) {
            double value = tg_tensor_value_at(values, (int64_t)i * POSITIONS + j) / scale;
            fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", left + j * CELL,
                    GAP + i * CELL, CELL, CELL, svg_color(value, color));
        }
    }
    for (int i = 0; i < POSITIONS; i += 10) {
        fprintf(file, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>\n", left - 4,
                GAP + i * CELL + CELL, i);
        fprintf(file, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                left + i * CELL + CELL / 2, GAP + MAP + 14, i);
    }
    fprintf(file, "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", left + MAP / 2,
            GAP + MAP + 32, across);
}

int main(int argc, char **argv)
{
    program_begin();
    if (argc != 2) {
        complain("takes the path of the picture");
        return program_end(2);
    }
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_nn_positional sines = tg_nn_positional_make(params, "pos_emb", TG_POSITION_SINUSOIDAL, POSITIONS, WIDTH, NULL);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *table = tg_nn_positional_forward(t, &sines, tg_full(t, TG_F32, TG_SHAPE(POSITIONS, WIDTH), 0), 0);
    tg_tensor *products = tg_matmul(t, table, tg_transpose(t, table, 0, 1));
    tg_tensor *turned = tg_rotary(t, tg_full(t, TG_F32, TG_SHAPE(POSITIONS, WIDTH), 1), 0, NULL);
    tg_tensor *scores = tg_matmul(t, turned, tg_transpose(t, turned, 0, 1));
    bool good = tg_tape_error(t)->code == TG_OK || complain("%s", tg_tape_error(t)->text);
    FILE *file = good ? svg_begin(argv[1], 3 * (MAP + GAP) + GAP, MAP + 2 * GAP) : NULL;
    if (file) {
        map(file, table, 1, GAP, "sinusoidal table", "channel");
        map(file, products, WIDTH / 2, 2 * GAP + MAP, "products of its rows", "position");
        map(file, scores, WIDTH, 3 * GAP + 2 * MAP, "rotary: product of query and key", "position of the key");
        good = svg_end(file, argv[1]);
    }
    tg_tape_free(t);
    tg_params_free(params);
    return program_end(good && file ? 0 : 1);
}
