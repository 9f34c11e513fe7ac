#include "bench/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const program_row *program_at(int index)
{
    const program_row *lists[] = {small_programs, large_programs};
    for (int list = 0; list < 2; list++) {
        for (const program_row *row = lists[list]; row->name; row++) {
            if (index-- == 0) {
                return row;
            }
        }
    }
    return NULL;
}

const program_row *program_named(const char *name)
{
    const program_row *row;
    for (int i = 0; (row = program_at(i)) && strcmp(row->name, name) != 0; i++) {
    }
    return row;
}

program program_new(const program_row *row)
{
    program p = {.row = row, .run = tg_run_new(123)};
    p.params = tg_params_new(p.run, TG_F32);
    p.tape = tg_tape_new(p.run, NULL);
    program_must(p.tape, &(tg_error){.text = "out of memory"});
    row->make(&p);
    program_must(!tg_run_error(p.run)->code, tg_run_error(p.run));
    return p;
}

void program_free(program *p)
{
    tg_row_file_free(p->file);
    tg_optim_free(p->optim);
    tg_tape_free(p->tape);
    tg_kv_cache_free(p->cache);
    tg_gpt_free(p->gpt);
    tg_tokenizer_free(p->tokenizer);
    free(p->text);
    tg_release(p->ids);
    tg_release(p->targets);
    tg_release(p->x);
    tg_release(p->next);
    tg_params_free(p->params);
    tg_run_free(p->run);
}

void program_must(bool good, const tg_error *error)
{
    if (!good) {
        fprintf(stderr, "programs: %s\n", error->text);
        exit(1);
    }
}

tg_tensor *program_ids(program *p, tg_shape shape, int64_t below)
{
    tg_error error = {0};
    tg_tensor *ids = tg_tensor_new(TG_I32, shape, &error);
    program_must(ids && tg_tensor_fill_randint(ids, tg_run_rng(p->run), 0, below, &error), &error);
    return ids;
}

tg_tensor *program_normal(program *p, tg_dtype dtype, tg_shape shape)
{
    tg_error error = {0};
    tg_tensor *x = tg_tensor_new(dtype, shape, &error);
    program_must(x && tg_tensor_fill_normal(x, tg_run_rng(p->run), 0, 1, &error), &error);
    return x;
}

void program_train(program *p, tg_tensor *loss)
{
    tg_optim_zero_grad(p->optim);
    tg_backward(p->tape, loss, NULL);
    program_must(tg_optim_step(p->optim), tg_run_error(p->run));
    tg_tape_reset(p->tape);
}
