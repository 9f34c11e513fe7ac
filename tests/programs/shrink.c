/* Leaves out instructions while a program still fails. A value that is left out is replaced by an input of its
 * instruction. */
#include <string.h>

#include "programs.h"

/* Writes to `to` the program without the instructions that `is_out` lists, and without those that become invalid. */
static void rebuild(program *to, const program *from, const bool is_out[MOST_INSTRUCTIONS])
{
    static draft so_far;
    int renamed[MOST_VALUES];
    *to = *from;
    draft_begin(&so_far, to);
    for (int v = 0; v < LEAVES; v++) {
        renamed[v] = v;
    }
    for (int i = 0; i < from->count; i++) {
        instruction in = from->list[i];
        int first = in.input[0] < 0 ? -1 : renamed[in.input[0]];
        for (int k = 0; k < MOST_INPUTS; k++) {
            in.input[k] = in.input[k] < 0 ? -1 : renamed[in.input[k]];
        }
        bool is_added = !is_out[i] && draft_add(&so_far, in);
        renamed[LEAVES + i] = is_added ? LEAVES + to->count - 1 : first;
    }
    draft_end(&so_far);
}

/* Returns the end of the scope or span that instruction i begins, or i. */
static int find_end(const program *p, int i)
{
    int depth = 0;
    bool is_pair = p->list[i].kind == BEGIN_SCOPE || p->list[i].kind == BEGIN_SPAN;
    for (int k = i; is_pair && k < p->count && p->list[k].kind != RESET; k++) {
        if (p->list[k].tape == p->list[i].tape) {
            depth += p->list[k].kind == BEGIN_SCOPE || p->list[k].kind == BEGIN_SPAN;
            depth -= p->list[k].kind == END_SCOPE || p->list[k].kind == END_SPAN;
        }
        if (depth == 0) {
            return k;
        }
    }
    return i;
}

static bool attempt(program *p, const bool is_out[MOST_INSTRUCTIONS], bool (*fails)(const program *p))
{
    static program smaller;
    rebuild(&smaller, p, is_out);
    if (smaller.count >= p->count || !fails(&smaller)) {
        return false;
    }
    *p = smaller;
    return true;
}

void shrink_program(program *p, bool (*fails)(const program *p))
{
    for (int size = p->count / 2; size >= 1; size = size > 1 ? size / 2 : size - 1) {
        bool any;
        do {
            any = false;
            for (int i = p->count - 1; i > 0; i -= size) {
                bool is_out[MOST_INSTRUCTIONS] = {false};
                for (int k = i; k > 0 && k > i - size && k < p->count; k--) {
                    is_out[k] = is_out[find_end(p, k)] = true;
                }
                any |= i < p->count && attempt(p, is_out, fails);
            }
        } while (any);
    }
}
