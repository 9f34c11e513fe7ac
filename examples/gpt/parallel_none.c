/* parallel_none: one process. */
#include "../common/program.h"
#include "parallel.h"

bool parallel_begin(void)
{
    return true;
}

int parallel_end(int status)
{
    return status;
}

void parallel_wait(void)
{
}

int parallel_rank(void)
{
    return 0;
}

int parallel_ranks(void)
{
    return 1;
}

uint64_t parallel_seed(uint64_t seed)
{
    return seed;
}

bool parallel_share(tg_params *params)
{
    return params != NULL;
}

bool parallel_backward(tg_tape *t, tg_tensor *loss, tg_params *params, bool last, const tg_error *cause)
{
    (void)params, (void)last;
    return parallel_agree(cause) && (tg_backward(t, loss, NULL) || complain("%s", tg_tape_error(t)->text));
}

bool parallel_reduce(tg_params *params)
{
    return params != NULL;
}

bool parallel_check(const tg_params *params)
{
    return params != NULL;
}

bool parallel_agree(const tg_error *local)
{
    return local->code == TG_OK || complain("%s", local->text);
}

bool parallel_same(const char *name, const char *text)
{
    (void)name, (void)text;
    return true;
}

double parallel_sum(double value)
{
    return value;
}
