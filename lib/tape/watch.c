/* watch: what libraries on top of this one see of a tape (tapegrad/extend.h): its records, and each kernel before and
 * after it runs. */
#include "tape/tape.h"

int64_t tg_tape_record_count(const tg_tape *t)
{
    return t ? (int64_t)t->record_count : 0;
}

tg_tape_record tg_tape_record_at(const tg_tape *t, int64_t index)
{
    if (index < 0 || index >= tg_tape_record_count(t)) {
        return (tg_tape_record){.op = NULL};
    }
    const tg_record *record = &t->records[index];
    return (tg_tape_record){record->op, tg_record_inputs(t, record), tg_record_outputs(t, record), record->input_count,
                            record->output_count};
}

tg_recorded_values tg_tape_recorded_values(const tg_tape *t, int64_t index, int tensor)
{
    tg_tape_record record = tg_tape_record_at(t, index);
    if (tensor < 0 || tensor >= record.input_count + record.output_count) {
        return TG_VALUES_GONE;
    }
    size_t number = t->records[index].first_tensor + (size_t)tensor;
    const tg_tensor *x = t->tensors[number];
    return tg_is_dropped(x)                                     ? TG_VALUES_GONE
           : t->states[number].version != tg_storage_version(x) ? TG_VALUES_CHANGED
                                                                : TG_VALUES_KEPT;
}

int64_t tg_tape_record_of(const tg_tape *t, const tg_tensor *x)
{
    return t && x && tg_tape_recorded(t, x) ? x->node : -1;
}

void tg_tape_add_watch(tg_tape *t, tg_kernel_watch *watch)
{
    if (t && watch) {
        watch->next = t->watches;
        t->watches = watch;
    }
}

void tg_tape_remove_watch(tg_tape *t, tg_kernel_watch *watch)
{
    for (tg_kernel_watch **link = t ? &t->watches : NULL; link && *link; link = &(*link)->next) {
        if (*link == watch) {
            *link = watch->next;
            return;
        }
    }
}

void tg_watch_before(const tg_tape *t, const tg_op_call *call, bool is_backward)
{
    for (const tg_kernel_watch *watch = t->watches; watch; watch = watch->next) {
        if (watch->before) {
            watch->before(watch->context, call, is_backward);
        }
    }
}

void tg_watch_after(const tg_tape *t, const tg_op_call *call, bool is_backward)
{
    for (const tg_kernel_watch *watch = t->watches; watch; watch = watch->next) {
        if (watch->after) {
            watch->after(watch->context, call, is_backward);
        }
    }
}

bool tg_tape_keeps_results(const tg_tape *t)
{
    const tg_kernel_watch *watch = t->watches;
    while (watch && !watch->keeps_results) {
        watch = watch->next;
    }
    return watch || t->detect_freed;
}
