/* A library of a stranger's on top of tapegrad, which uses the public headers and extend.h alone: it counts the ops of
 * a tape, writes the counts as JSON to a file that is replaced as a whole, and reads them again; it parses settings,
 * and it writes a report of the records. So it uses what fewer than two of our own libraries use of extend.h. */
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

/* ---- settings: {"only":["mul","add"],"share":0.5,"comment":...} ---- */

static bool parse_only(tg_json *j, op_settings *settings)
{
    size_t elements = 0;
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &elements)) {
        tg_json_text op;
        if (!tg_json_string(j, &op)) {
            return false;
        }
        if (settings->count == OP_SETTINGS_MOST) {
            return tg_json_fail(j, op.at, "'%.*s' is one op too many", TG_CUT(op.text, 40));
        }
        tg_escape(settings->only[settings->count++], sizeof settings->only[0], op.text);
    }
    return !j->failed;
}

static bool parse_share(tg_json *j, op_settings *settings)
{
    tg_json_text text;
    if (tg_json_word(j, "null")) {
        return true;
    }
    if (tg_json_next(j) != '"') {
        return tg_json_number(j, &settings->share);
    }
    return tg_json_string(j, &text) &&
           (tg_parse_number(text.text, &settings->share) || tg_json_expected(j, "a number"));
}

bool op_settings_parse(op_settings *settings, char *text, size_t length, tg_error *error)
{
    tg_json j = {.call = "op_settings_parse", .path = "settings", .text = text, .length = length, .error = error};
    tg_json_text key;
    size_t members = 0;
    *settings = (op_settings){.share = 1};
    tg_json_take(&j, '\n');
    if (!tg_json_check_utf8(&j) || !tg_json_begin(&j, '{')) {
        return false;
    }
    while (tg_json_key(&j, &members, &key)) {
        bool is_parsed = strcmp(key.text, "only") == 0    ? parse_only(&j, settings)
                         : strcmp(key.text, "share") == 0 ? parse_share(&j, settings)
                                                          : tg_json_skip(&j);
        if (!is_parsed) {
            return false;
        }
    }
    return !j.failed && tg_json_end(&j);
}

/* ---- a report of the records ---- */

/* Writes a line for each record: its op, and the op that computed its first input. */
static bool write_records(const op_counts *c, tg_file_writer *file, tg_error *error)
{
    for (int64_t i = 0; i < tg_tape_record_count(c->tape); i++) {
        tg_tape_record record = tg_tape_record_at(c->tape, i);
        int64_t source = tg_tape_record_of(c->tape, record.inputs[0]);
        const char *from = source < 0 ? "a leaf" : tg_tape_record_at(c->tape, source).op->name;
        bool is_kept = tg_tape_recorded_values(c->tape, i, 0) == TG_VALUES_KEPT;
        char line[200];
        size_t length =
            tg_format_line(line, sizeof line - 1, "%s of %s%s", record.op->name, from, is_kept ? "" : " (gone)");
        line[length] = '\n';
        if ((is_kept && !tg_tensor_check("op_counts_report", "input", record.inputs[0], error)) ||
            !tg_file_writer_write(file, line, length + 1, error)) {
            return false;
        }
    }
    return true;
}

bool op_counts_report(const op_counts *c, const char *path, tg_error *error)
{
    tg_file_writer file;
    if (!tg_file_writer_begin(&file, "op_counts_report", path, error)) {
        return tg_run_set_error(tg_tape_run(c->tape), error);
    }
    if (!write_records(c, &file, error)) {
        tg_file_writer_abandon(&file);
        return false;
    }
    return tg_file_writer_commit(&file, error);
}

int64_t op_counts_first_bytes(const char *path, char *bytes, size_t most, tg_error *error)
{
    static const char call[] = "op_counts_first_bytes";
    tg_file file;
    if (!tg_config_check_list(call, "bytes", bytes, "most", (int64_t)most, error) ||
        !tg_file_open(&file, call, path, error)) {
        return -1;
    }
    size_t length = file.size < most ? (size_t)file.size : most;
    bool is_read = tg_file_read(&file, 0, bytes, length, error);
    tg_file_close(&file);
    return is_read ? (int64_t)tg_cut_bytes(bytes, length, (int)length) : -1;
}
