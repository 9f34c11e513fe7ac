/* extend: what a library on top of tapegrad needs and a program does not. tapegrad_text, tapegrad_tools and
 * tapegrad_mpi use only the public headers and this one, so your own library can do what they do. For new ops, and for
 * loops on the library's threads, see op.h.
 *
 * Before version 1.0 these declarations may change with every release. Unless a comment says so, no call checks its
 * arguments for NULL: the caller has checked its own arguments.
 */
#ifndef TAPEGRAD_EXTEND_H
#define TAPEGRAD_EXTEND_H

#include <string.h>

#include <tapegrad/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_tensor tg_tensor;
typedef struct tg_tape tg_tape;
typedef struct tg_params tg_params;
struct tg_op;
struct tg_op_call;
struct tg_shape;

/* ---- errors and configs ------------------------------------------------------------------------------------------ */

/* Sets the error unless one is set already, with a format as in printf. The text is escaped (tg_escape), so quote
 * names and paths with a plain %s; what is too long is cut. `error` may be NULL. Returns false, so that a check can end
 * with `return tg_error_set(...)`. */
TG_API bool tg_error_set(tg_error *error, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* The same with FORMAT, for a text or file that is invalid at this line, from 1, and this byte, from 0; -1: it has
 * none. */
TG_API bool tg_error_set_at(tg_error *error, int64_t line, int64_t byte, const char *format, ...) TG_PRINTF_LIKE(4, 5);

/* Sets the error to a copy of `from`, which is not NULL, unless one is set already. Returns whether `from` is TG_OK. */
TG_API bool tg_error_copy(tg_error *error, const tg_error *from);

/* Returns true if a config is NULL or begins with this mark. Otherwise sets an error that begins with `call`.
 *
 * A mark is the address of a string, the name of the config's default function. Each config has a string of its own, so
 * one comparison identifies the config, and the message can name the function. (If 0 meant the default, nobody could
 * set a 0; initializer macros do not compile in C++.) TG_CONFIG defines both.
 */
static inline bool tg_config_check(const char *call, const void *config, const char *mark, tg_error *error)
{
    return !config || *(const tg_config_mark *)config == mark ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: the config does not come from %s(); call it, then set fields", call,
                        mark);
}

/* Defines the default function of a config, which returns these fields, and its mark, a static string:
 *
 *     TG_CONFIG(my_config, my_config_default, mark, .mark = mark, .rate = 0.1);
 */
#define TG_CONFIG(type, function, mark_name, ...) \
    static const char mark_name[] = #function;    \
    type function(void)                           \
    {                                             \
        return (type){__VA_ARGS__};               \
    }                                             \
    type function(void)

/* Returns true if a list in a config and its number of elements agree: the list is NULL if and only if the number is 0.
 * Otherwise sets an error that names both fields. */
static inline bool tg_config_check_list(const char *call, const char *list_field, const void *list,
                                        const char *count_field, int64_t count, tg_error *error)
{
    if (count < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %s is %lld; it must be at least 0", call, count_field,
                            (long long)count);
    }
    if ((count > 0) == (list != NULL)) {
        return true;
    }
    return tg_error_set(error, TG_ERROR_VALUE, "%s: %s is %lld, but %s is %s; set both or neither", call, count_field,
                        (long long)count, list_field, list ? "not NULL" : "NULL");
}

/* Returns true if x is a tensor whose values can be read. Otherwise sets an error such as "<call>: the <name> is NULL".
 * Other reasons are that its tape has freed it, that its values were dropped, and that its table has deferred steps. x
 * may be NULL. */
TG_API bool tg_tensor_check(const char *call, const char *name, const tg_tensor *x, tg_error *error);

/* ---- texts ------------------------------------------------------------------------------------------------------- */
/* Messages and reports quote names and paths that others have chosen: a tensor of a downloaded file may be called
 * "\x1b]0;...", or have a newline in its name. So every text for people is escaped when it is complete: those of errors
 * by tg_error_set, the others by tg_format_line. */

/* Copies `text` as one line of UTF-8 that is safe to print on a terminal: a newline becomes \n, and each byte of
 * another control character (U+0000 to U+001F, U+007F to U+009F), or that is not UTF-8, becomes \xNN. A backslash is
 * copied, so a text that was escaped stays as it is. The copy ends before the first character that does not fit into
 * `size` bytes with the NUL. Returns its length. */
TG_API size_t tg_escape(char *copy, size_t size, const char *text);

/* Formats like snprintf, and escapes the first 1000 bytes of the result. A NaN is "nan", whatever its sign. Returns the
 * length. */
TG_API size_t tg_format_line(char *line, size_t size, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* The two arguments of a %.*s that writes at most `most` bytes of a string, in whole characters. A %.40s could cut a
 * character. */
#define TG_CUT(text, most) tg_cut(text, most), (text)

/* Returns the length of the longest beginning of `text` that has at most `most` bytes and only whole characters. `most`
 * for NULL. */
TG_API int tg_cut(const char *text, int most);

/* The same for `length` bytes that need not end with a NUL. */
TG_API int tg_cut_bytes(const char *text, size_t length, int most);

/* Returns the index of the first byte that is not UTF-8, or `length`. Overlong forms and surrogates are not UTF-8. */
TG_API size_t tg_utf8_check(const char *text, size_t length);

/* Writes the index of a row-major position in a shape, such as "[3,1]", to an array of TG_SHAPE_TEXT. Returns it. */
TG_API const char *tg_index_format(const struct tg_shape *shape, int64_t position, char *text);

/* Converts a number with a decimal point, in any locale. Returns false if the text is not a number. */
TG_API bool tg_parse_number(const char *text, double *value);

/* The size of the text of a number: a sign, a point of several bytes in some locales, digits, an exponent, and NUL. */
#define TG_NUMBER_TEXT 64

/* Writes a number with up to `digits` significant digits, 1 to 17, as %g does, but with a decimal point in any locale,
 * to an array of TG_NUMBER_TEXT. 9 digits are enough to read a float back, and 17 a double. Returns `text`. */
TG_API const char *tg_format_number(double value, int digits, char *text);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Returns count * size uninitialized bytes, aligned to a cache line, from the program's allocator (tg_set_allocator).
 * NULL when memory is exhausted, when the product exceeds PTRDIFF_MAX, and for 0 bytes. `count` always has 64 bits,
 * because a size_t of 32 bits would cut it. */
TG_API void *tg_alloc(uint64_t count, size_t size);

/* The same, filled with zero bytes. */
TG_API void *tg_alloc_zeroed(uint64_t count, size_t size);

/* Frees a block. NULL is allowed. */
TG_API void tg_free(void *block);

/* Gives an array a capacity of `needed` elements of `size` bytes, and keeps its first `used` elements; the capacity
 * doubles until it suffices. `array` is the address of the pointer to the first element, which may have any type:
 *
 *     tg_grow(&list->rows, &list->capacity, list->count, list->count + 1, sizeof *list->rows)
 *
 * Returns false and changes nothing when memory is exhausted. */
TG_API bool tg_grow(void *array, size_t *capacity, size_t used, size_t needed, size_t size);

/* ---- heaps ------------------------------------------------------------------------------------------------------- */
/* A heap is an array of `count` elements of `size` bytes, at most 64, in which no child comes before its parent: the
 * children of element i are 2 i + 1 and 2 i + 2. `is_before` says whether an element comes before another one. */

/* Moves the element at `top` down to its place, if only that one may be at a wrong place. */
static inline void tg_heap_down(void *heap, size_t size, size_t count, size_t top,
                                bool (*is_before)(const void *context, const void *a, const void *b),
                                const void *context)
{
    char *elements = (char *)heap, moved[64];
    for (size_t child = 2 * top + 1; child < count; top = child, child = 2 * top + 1) {
        child += child + 1 < count && is_before(context, elements + (child + 1) * size, elements + child * size);
        if (!is_before(context, elements + child * size, elements + top * size)) {
            break;
        }
        memcpy(moved, elements + top * size, size);
        memcpy(elements + top * size, elements + child * size, size);
        memcpy(elements + child * size, moved, size);
    }
}

/* Moves the last element up to its place. */
static inline void tg_heap_up(void *heap, size_t size, size_t count,
                              bool (*is_before)(const void *context, const void *a, const void *b), const void *context)
{
    char *elements = (char *)heap, moved[64];
    for (size_t at = count - 1, parent; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (!is_before(context, elements + at * size, elements + parent * size)) {
            break;
        }
        memcpy(moved, elements + at * size, size);
        memcpy(elements + at * size, elements + parent * size, size);
        memcpy(elements + parent * size, moved, size);
    }
}

/* ---- finding an entry by its bytes ------------------------------------------------------------------------------- */
/* A table with open addressing: slots that have numbers of entries, and -1 where they are empty. The entries stay where
 * the caller has them. The first slot of an entry is hash & (count - 1), and after a collision the next one follows. */

/* Gives a table at least 3/2 slots per entry, a power of two. Sets *is_new if its slots are new and empty: the caller
 * then puts its entries into them. Returns false, and changes nothing, when memory is exhausted. The slots are freed by
 * tg_free. */
TG_API bool tg_slots_reserve(int32_t **slots, size_t *count, size_t entries, bool *is_new);

/* Returns FNV-1a of the bytes (Fowler, Noll and Vo), with its upper half mixed into the lower one. */
TG_API size_t tg_hash_bytes(const char *bytes, size_t length);

/* ---- texts that grow --------------------------------------------------------------------------------------------- */

/* A buffer of bytes that grows. Begin with {0}; end with tg_free(buffer.bytes). When memory is exhausted, `failed` is
 * set and further calls do nothing, so one check at the end is enough. A NUL follows the bytes; `length` does not count
 * it. */
typedef struct tg_text_buffer {
    char *bytes;
    size_t length, capacity;
    bool failed;
} tg_text_buffer;

TG_API void tg_text_add_bytes(tg_text_buffer *buffer, const void *bytes, size_t length);
TG_API void tg_text_add(tg_text_buffer *buffer, const char *text);
TG_API void tg_text_add_format(tg_text_buffer *buffer, const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* Adds the characters of a string of JSON (RFC 8259), without the quotation marks around it: quotation marks,
 * backslashes and control characters are escaped. The text must be UTF-8. */
TG_API void tg_text_add_json(tg_text_buffer *buffer, const char *text, size_t length);

/* ---- JSON -------------------------------------------------------------------------------------------------------- */
/* A strict reader of JSON (RFC 8259) in memory. It builds no tree: the caller takes one token after the other, so a
 * hostile file needs no more memory than its text. Strings are decoded in place; nothing is allocated. An object
 * {"a":1,"b":2} is read by
 *
 *     size_t members = 0;
 *     tg_json_text key;
 *     if (!tg_json_begin(j, '{')) return false;
 *     while (tg_json_key(j, &members, &key)) {
 *         if (!tg_json_uint(j, &value)) return false;
 *     }
 *     return !j->failed;
 *
 * and an array by tg_json_begin(j, '[') and tg_json_more(j, ']', &members). A function that fails sets the error, with
 * the place in the file: "params_load: 'a.safetensors', byte 17: expected ':' after the name, found '}'". */

/* A text that is parsed, and the place in it. */
typedef struct tg_json {
    /* for messages */
    const char *call, *path;
    /* the text, its length, and the place in it */
    char *text;
    size_t length, at;
    /* of the text in the file */
    uint64_t offset;
    /* the positions of the line breaks, found before strings are decoded, and their number: errors then name the line.
     * Without them errors name the byte, which suits files with a binary part */
    bool has_lines;
    const size_t *breaks;
    size_t break_count;
    /* whether a call has failed; `error` then has the reason */
    bool failed;
    tg_error *error;
} tg_json;

/* A decoded string. It ends with a NUL and contains no other NUL. */
typedef struct tg_json_text {
    char *text;
    /* the position of its quotation mark in the JSON text */
    size_t at;
} tg_json_text;

/* Returns the line of the byte at position `at`, from 1: one more than the number of line breaks before it. */
TG_API int64_t tg_json_line(const tg_json *j, size_t at);

/* Sets a FORMAT error about the byte at position `at` of the text. Returns false. */
TG_API bool tg_json_fail(tg_json *j, size_t at, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* Checks that the whole text is UTF-8. To be called first. */
TG_API bool tg_json_check_utf8(tg_json *j);

/* Skips white space. Returns the next byte, or -1 at the end. */
TG_API int tg_json_next(tg_json *j);

/* Takes the next byte if it is `c`. Returns whether it was. */
TG_API bool tg_json_take(tg_json *j, char c);

/* Sets the error "expected <what>, found <the next byte>". Returns false. */
TG_API bool tg_json_expected(tg_json *j, const char *what);

/* Takes the byte that begins an object or an array. */
TG_API bool tg_json_begin(tg_json *j, char open);

/* Takes the comma before the next element, or `close`. Returns whether an element follows; false also after an error.
 * `count` is 0 at first, and then the number of elements so far. */
TG_API bool tg_json_more(tg_json *j, char close, size_t *count);

/* The same for an object; takes the name of the member and its colon, too. */
TG_API bool tg_json_key(tg_json *j, size_t *count, tg_json_text *key);

TG_API bool tg_json_string(tg_json *j, tg_json_text *string);

/* Takes a whole number in [0,2^63), written with digits only. */
TG_API bool tg_json_uint(tg_json *j, int64_t *value);

/* Takes a number of at most 60 characters. */
TG_API bool tg_json_number(tg_json *j, double *value);

/* Takes "true", "false" or "null" if it is next, and returns whether it is. Sets no error. */
TG_API bool tg_json_word(tg_json *j, const char *word);

/* Takes a value of any kind. */
TG_API bool tg_json_skip(tg_json *j);

/* Checks that only white space follows. */
TG_API bool tg_json_end(tg_json *j);

/* ---- files ------------------------------------------------------------------------------------------------------- */
/* Messages begin with the name of the public call and have the path: "params_save: write 'model.safetensors': No space
 * left on device". */

/* An open file. `call` and `path` are borrowed, for messages. */
typedef struct tg_file {
    const char *call, *path;
    int descriptor;
    /* in bytes, when the file was opened */
    uint64_t size;
    /* the contents, borrowed, if they are in memory; else NULL */
    const char *bytes;
} tg_file;

/* Opens a regular file. After true, call tg_file_close. */
TG_API bool tg_file_open(tg_file *file, const char *call, const char *path, tg_error *error);
TG_API void tg_file_close(tg_file *file);

/* Reads exactly `length` bytes from `offset` on. FORMAT if the file ends before. */
TG_API bool tg_file_read(const tg_file *file, uint64_t offset, void *out, size_t length, tg_error *error);

/* Reads a whole file into a text that ends with a NUL, for tg_free, and writes its size, without the NUL, to `length`,
 * which is optional. FILE if it is not a regular file. */
TG_API char *tg_file_read_text(const char *call, const char *path, size_t *length, tg_error *error);

/* Writes a new file beside the target and renames it to the target at the end. So readers get either the old file or
 * the new one, also after a failure or a crash. A symbolic link is followed. A target that exists keeps its mode. FILE
 * if the target is not a regular file, and for every error of the system. */
typedef struct tg_file_writer {
    /* borrowed, for messages */
    const char *call, *path;
    /* the path without symbolic links in its last part */
    char *target;
    /* the new file */
    char *temporary;
    int descriptor;
    /* where the contents go if they stay in memory; else NULL */
    char *bytes;
} tg_file_writer;

/* If begin returns true, call commit or abandon later. Both free the writer. If commit fails, the target is unchanged,
 * with one exception: the last step writes the folder to the disk, and if that fails, the error says that the new file
 * is in use. */
TG_API bool tg_file_writer_begin(tg_file_writer *writer, const char *call, const char *path, tg_error *error);
TG_API bool tg_file_writer_write(tg_file_writer *writer, const void *bytes, size_t length, tg_error *error);
TG_API bool tg_file_writer_commit(tg_file_writer *writer, tg_error *error);
TG_API void tg_file_writer_abandon(tg_file_writer *writer);

/* Replaces a file by `length` bytes. */
TG_API bool tg_file_replace(const char *call, const char *path, const void *bytes, size_t length, tg_error *error);

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Return the run with which an object was made, borrowed; NULL for NULL. */
TG_API tg_run *tg_tape_run(const tg_tape *tape);
TG_API tg_run *tg_params_run(const tg_params *params);

/* ---- the records of a tape --------------------------------------------------------------------------------------- */
/* A tape records each op that backward may need, in the order of the calls. These calls read the records; they change
 * nothing. */

/* A recorded call. The arrays are the tape's, valid until its next op or reset. */
typedef struct tg_tape_record {
    const struct tg_op *op;
    tg_tensor *const *inputs;
    tg_tensor *const *outputs;
    int input_count, output_count;
} tg_tape_record;

/* What has become of the values of a recorded tensor since the call. */
typedef enum tg_recorded_values {
    TG_VALUES_KEPT,
    /* written in place, as an optimizer does with parameters */
    TG_VALUES_CHANGED,
    /* given back, because neither the caller nor backward needs them */
    TG_VALUES_GONE
} tg_recorded_values;

/* Returns the number of records; 0 for NULL. */
TG_API int64_t tg_tape_record_count(const tg_tape *tape);

/* Returns record number `index`; zeros for an index that does not exist. */
TG_API tg_tape_record tg_tape_record_at(const tg_tape *tape, int64_t index);

/* Returns what has become of the values of tensor number `tensor` of a record, where the inputs come first, then the
 * outputs. TG_VALUES_GONE for numbers that do not exist. */
TG_API tg_recorded_values tg_tape_recorded_values(const tg_tape *tape, int64_t index, int tensor);

/* Returns the number of the record that computed x; -1 for a leaf, a constant, or a result that is not recorded. */
TG_API int64_t tg_tape_record_of(const tg_tape *tape, const tg_tensor *x);

/* Functions that the tape calls before and after each kernel, forward and backward, even if the op is not recorded.
 * They are called for a view, too, which has no kernel. A call that backward repeats has call->is_repeated. Neither
 * function may call ops on the tape. */
typedef struct tg_kernel_watch {
    /* both are optional */
    void (*before)(void *context, const struct tg_op_call *call, bool is_backward);
    void (*after)(void *context, const struct tg_op_call *call, bool is_backward);
    void *context;
    /* whether results must keep their values until the reset; otherwise the tape gives back values that nobody can
     * read */
    bool keeps_results;
    /* private */
    struct tg_kernel_watch *next;
} tg_kernel_watch;

/* Adds a watch, which stays yours and must live until it is removed or the tape is freed. The one that was added last
 * is called first. NULLs are ignored. */
TG_API void tg_tape_add_watch(tg_tape *tape, tg_kernel_watch *watch);
TG_API void tg_tape_remove_watch(tg_tape *tape, tg_kernel_watch *watch);

#ifdef __cplusplus
}
#endif

#endif
