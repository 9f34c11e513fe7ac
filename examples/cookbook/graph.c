/* graph: what a tape records, and what backward does, step by step. Four ids look up rows of a table, one of them
 * twice, and a linear layer maps the rows to two numbers each. --dot FILE draws the same for Graphviz. */
#include "recipe.h"

#include <tapegrad_tools.h>

#include "../common/command_line.h"

const char program_name[] = "cookbook_graph";

typedef struct values {
    const char *dot;
} values;

static bool draw(tg_graph *graph, const char *path)
{
    tg_error error = TG_NO_ERROR;
    FILE *file = file_begin(path);
    bool written = file && (tg_graph_write_dot(graph, file, &error) || complain("%s", error.text));
    return file && file_end(file, path) && written;
}

int main(int argc, char **argv)
{
    const command_line_option options[] = {{"dot", "FILE", VALUE_TEXT, offsetof(values, dot), NULL,
                                            "draw each step; dot -Tsvg -O FILE makes pictures", 1}};
    values given = {NULL};
    program_begin();
    int status = command_line_read(options, 1, 1, "cookbook_graph: shows what backward does, step by step\n", &given,
                                   argc, argv);
    if (status >= 0) {
        return program_end(status);
    }
    recipe r = recipe_begin(123);
    tg_nn_embedding table = tg_nn_embedding_make(r.params, "table", 6, 3, NULL);
    tg_nn_linear head = tg_nn_linear_make(r.params, "head", 3, 2, TG_BIAS);
    tg_graph_config config = tg_graph_config_default();
    config.params = r.params;
    config.values = 6;
    config.steps = true;
    tg_graph *graph = tg_graph_new(r.tape, &config);

    tg_tensor *ids = tg_constant_i32(r.tape, TG_SHAPE(4), (int32_t[]){2, 3, 5, 2});
    tg_tensor *goal = tg_full(r.tape, TG_F32, TG_SHAPE(4, 2), 1);
    /* (4) -> (4,3) -> (4,2) -> a scalar */
    tg_tensor *y = tg_nn_linear_forward(r.tape, &head, tg_nn_embedding_forward(r.tape, &table, ids));
    tg_backward(r.tape, tg_mse_loss(r.tape, y, goal, TG_REDUCTION_SUM), NULL);
    recipe_check(&r);

    tg_graph_write_text(graph, stdout, &r.error);
    bool drawn = !given.dot || draw(graph, given.dot);
    tg_graph_free(graph);
    status = recipe_end(&r);
    return drawn ? status : 1;
}
