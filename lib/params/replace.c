/* params: entries that get another tensor or are removed, because a model has changed: its head was replaced, or the
 * matrices of LoRA were merged. Both are counted, so that those who know the old entries can find out.
 */
#include "params/list.h"

#include <string.h>

void tg_params_replace(tg_params *params, int64_t number, tg_tensor *x)
{
    tg_named *named = &params->entries[number];
    tg_release(named->entry.tensor);
    named->required_grad = x->requires_grad;
    named->entry.tensor = x;
    named->entry.kind = TG_ENTRY_PARAMETER;
    x->requires_grad = true;
    params->changes++;
    tg_params_index_all(params);
}

void tg_params_remove(tg_params *params, int64_t number)
{
    tg_named *named = &params->entries[number];
    tg_release(named->entry.tensor);
    size_t behind = --params->count - (size_t)number;
    memmove(named, named + 1, behind * sizeof *named);
    params->changes++;
    tg_params_index_all(params);
}

int64_t tg_params_changes(const tg_params *params)
{
    return params ? params->changes : 0;
}
