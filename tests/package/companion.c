/* A library of a stranger's on top of tapegrad, which uses the public headers and extend.h alone: it counts the ops of
 * a tape, and writes the counts as JSON to a file that is replaced as a whole, and reads them again. */
#include "companion.h"

#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

typedef struct op_count {
    const char *op;
    int64_t kernels;
} op_count;

struct op_counts {
    tg_tape *tape;
    tg_kernel_watch watch;
    op_count *counts;
    size_t used, capacity;
    bool failed;
};

static void count_kernel(void *context, const tg_op_call *call, bool is_backward)
{
    op_counts *c = context;
    size_t i = 0;
    while (i < c->used && strcmp(c->counts[i].op, call->op->name) != 0) {
        i++;
    }
    if (i == c->used) {
        c->failed = c->failed || !tg_grow(&c->counts, &c->capacity, c->used, c->used + 1, sizeof *c->counts);
        if (c->failed) {
            return;
        }
        c->counts[c->used++] = (op_count){call->op->name, 0};
    }
    c->counts[i].kernels += is_backward ? 0 : 1;
}

op_counts *op_counts_new(tg_tape *tape, tg_error *error)
{
    op_counts *c = tg_alloc_zeroed(1, sizeof *c);
    if (!c) {
        tg_error_set(error, TG_ERROR_MEMORY, "op_counts_new: out of memory");
        return NULL;
    }
    c->tape = tape;
    c->watch = (tg_kernel_watch){.after = count_kernel, .context = c};
    tg_tape_add_watch(tape, &c->watch);
    return c;
}

void op_counts_free(op_counts *c)
{
    tg_tape_remove_watch(c->tape, &c->watch);
    tg_free(c->counts);
    tg_free(c);
}

bool op_counts_save(const op_counts *c, const char *path, tg_error *error)
{
    tg_text_buffer text = {0};
    tg_text_add(&text, "{");
    for (size_t i = 0; i < c->used; i++) {
        tg_text_add(&text, i > 0 ? ",\"" : "\"");
        tg_text_add_json(&text, c->counts[i].op, strlen(c->counts[i].op));
        tg_text_add_format(&text, "\":%lld", (long long)c->counts[i].kernels);
    }
    tg_text_add(&text, "}");
    bool is_saved = text.failed ? tg_error_set(error, TG_ERROR_MEMORY, "op_counts_save: out of memory")
                                : tg_file_replace("op_counts_save", path, text.bytes, text.length, error);
    tg_free(text.bytes);
    return is_saved;
}

int64_t op_counts_read(const char *path, const char *op, tg_error *error)
{
    size_t length, members = 0;
    char *text = tg_file_read_text("op_counts_read", path, &length, error);
    tg_json j = {.call = "op_counts_read", .path = path, .text = text, .length = length, .error = error};
    tg_json_text key;
    int64_t found = -1;
    bool is_open = text && tg_json_check_utf8(&j) && tg_json_begin(&j, '{');
    while (is_open && tg_json_key(&j, &members, &key)) {
        int64_t kernels;
        if (!tg_json_uint(&j, &kernels)) {
            break;
        }
        found = strcmp(key.text, op) == 0 ? kernels : found;
    }
    tg_free(text);
    return is_open && !j.failed ? found : -1;
}
