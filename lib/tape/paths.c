/* paths: the records through which the gradients of some tensors go.
 *
 * A record is on a path if a target, or a result that depends on one, is an input that it differentiates, and if an
 * output depends on its results. So two sweeps find them: from the targets on, and back from the outputs. */
#include "tape/backward.h"

/* Returns whether the record has a gradient for input i: its input needed one when it was recorded, and still does. */
static bool differentiates(const tg_tape *t, const tg_record *record, int i)
{
    return t->states[record->first_tensor + (size_t)i].requires_grad && tg_record_inputs(t, record)[i]->requires_grad;
}

void tg_find_paths(tg_tape *t, tg_tensor *const *outputs, int output_count, tg_tensor *const *targets, int target_count)
{
    for (size_t k = 0; k < t->record_count; k++) {
        tg_record *record = &t->records[k];
        record->on_path = record->planned = false;
        for (int i = 0; i < record->input_count && !record->on_path; i++) {
            const tg_tensor *x = tg_record_inputs(t, record)[i];
            record->on_path = differentiates(t, record, i) && ((x->node >= 0 && t->records[x->node].on_path) ||
                                                               tg_find_tensor(targets, target_count, x) >= 0);
        }
    }
    for (int i = 0; i < output_count; i++) {
        if (outputs[i]->node >= 0) {
            t->records[outputs[i]->node].planned = true;
        }
    }
    for (size_t k = t->record_count; k-- > 0;) {
        tg_record *record = &t->records[k];
        record->on_path &= record->planned;
        for (int i = 0; record->on_path && i < record->input_count; i++) {
            const tg_tensor *x = tg_record_inputs(t, record)[i];
            if (x->node >= 0 && differentiates(t, record, i)) {
                t->records[x->node].planned = true;
            }
        }
    }
}

bool tg_has_path(const tg_tape *t, tg_tensor *const *outputs, int output_count, const tg_tensor *x)
{
    bool found = tg_find_tensor(outputs, output_count, x) >= 0;
    for (size_t k = 0; k < t->record_count && !found; k++) {
        const tg_record *record = &t->records[k];
        for (int i = 0; record->on_path && i < record->input_count; i++) {
            found |= tg_record_inputs(t, record)[i] == x && differentiates(t, record, i);
        }
    }
    return found;
}
