/* weights: the file format of a model.
 *
 *   tapegrad gpt weights 1, little-endian f32
 *   vocabulary 512 context 128 width 128 heads 4 layers 4 dropout 0 qkv_bias 0 tied_head 1 position learned
 *   tok_emb.weight (512,128)
 *   ...                                         one line per parameter, buffer or alias, in the model's order
 *                                               an empty line, then all values; an alias has none
 *
 * The configuration determines the whole header. So weights_load parses only the second line, creates that model,
 * writes its header to memory and compares it with the file: one comparison checks every name and shape. Before that it
 * checks the sizes against the length of the file, so that a damaged line cannot allocate more than a few times this
 * length.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/program.h"
#include "model.h"

#define NAME "model.tgw"

static const char *byte_order(void)
{
    const uint16_t one = 1;
    return *(const char *)&one ? "little" : "big";
}

static void write_header(FILE *file, const model *m)
{
    const tg_gpt_config *c = tg_gpt_get_config(m->gpt);
    fprintf(file, "tapegrad gpt weights 1, %s-endian f32\n", byte_order());
    fprintf(file,
            "vocabulary %" PRId64 " context %" PRId64 " width %" PRId64 " heads %" PRId64 " layers %" PRId64
            " dropout %.17g qkv_bias %d tied_head %d position %s\n",
            c->vocabulary, c->context, c->width, c->heads, c->layers, c->dropout, c->qkv_bias, c->tied_head,
            tg_position_name(c->position));
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        char shape[TG_SHAPE_TEXT];
        tg_entry entry = tg_params_at(m->params, i);
        fprintf(file, "%s %s\n", entry.name, tg_shape_format(tg_tensor_shape(entry.tensor), shape));
    }
    fputc('\n', file);
}

/* Returns the number of values in the file: of all parameters and buffers. */
static int64_t count_values(const model *m)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        tg_entry entry = tg_params_at(m->params, i);
        count += entry.kind == TG_ENTRY_ALIAS ? 0 : tg_tensor_count(entry.tensor);
    }
    return count;
}

/* Reads or writes the values in the header's order. */
static bool move_values(FILE *file, const model *m, bool reading)
{
    bool good = true;
    for (int64_t i = 0; good && i < tg_params_count(m->params); i++) {
        tg_entry entry = tg_params_at(m->params, i);
        size_t count = entry.kind == TG_ENTRY_ALIAS ? 0 : (size_t)tg_tensor_count(entry.tensor);
        good = count == (reading ? fread(tg_tensor_data_mut(entry.tensor), sizeof(float), count, file)
                                 : fwrite(tg_tensor_data(entry.tensor), sizeof(float), count, file));
    }
    return good;
}

static void sync_folder(const char *folder)
{
    int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
        /* some file systems refuse; the rename is done in any case */
        fsync(descriptor);
        close(descriptor);
    }
}

bool weights_save(const model *m, const char *folder)
{
    char beside[PATH_BYTES], path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", folder_file(folder, NAME));
    snprintf(beside, sizeof beside, "%s", folder_file(folder, NAME ".new"));
    FILE *file = file_begin(beside);
    if (!file) {
        return false;
    }
    write_header(file, m);
    bool written = move_values(file, m, false) && fflush(file) == 0 && fsync(fileno(file)) == 0;
    written = file_end(file, beside) && (written || complain("writing '%s': %s", beside, strerror(errno)));
    if (written && rename(beside, path) == 0) {
        sync_folder(folder);
        return true;
    }
    unlink(beside);
    return written && complain("writing '%s': %s", path, strerror(errno));
}

/* Reads the configuration from the second line. Returns false if the line is invalid, or if the weights of such a model
 * are larger than the file. */
static bool read_config(FILE *file, int64_t bytes, tg_gpt_config *c)
{
    char line[400], position[20];
    int qkv_bias, tied;
    if (!fgets(line, sizeof line, file) || !fgets(line, sizeof line, file) ||
        sscanf(line,
               "vocabulary %10" SCNd64 " context %7" SCNd64 " width %5" SCNd64 " heads %5" SCNd64 " layers %4" SCNd64
               " dropout %40lf qkv_bias %1d tied_head %1d position %19s",
               &c->vocabulary, &c->context, &c->width, &c->heads, &c->layers, &c->dropout, &qkv_bias, &tied,
               position) != 9 ||
        !tg_position_from_name(position, &c->position, NULL)) {
        return false;
    }
    c->qkv_bias = qkv_bias != 0;
    c->tied_head = tied != 0;
    int64_t table = c->position <= TG_POSITION_SINUSOIDAL ? c->context : 0;
    /* the numbers of digits in sscanf keep the product below 2^63 */
    return c->vocabulary > 0 && c->context > 0 && c->width > 0 && c->layers > 0 &&
           (c->vocabulary + table + 12 * c->layers * c->width) * c->width <= bytes / (int64_t)sizeof(float);
}

/* Returns whether the file begins with the header of this model and has the length of its header and values. */
static bool is_header_of(FILE *file, int64_t bytes, const model *m)
{
    char *wanted = NULL, *found = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&wanted, &length);
    if (memory) {
        write_header(memory, m);
        if (fclose(memory) != 0) {
            length = 0;
        }
    }
    rewind(file);
    bool same = length > 0 && bytes == (int64_t)length + count_values(m) * (int64_t)sizeof(float) &&
                (found = malloc(length)) && fread(found, 1, length, file) == length &&
                memcmp(wanted, found, length) == 0;
    free(wanted);
    free(found);
    return same;
}

bool weights_load(model *m, const char *folder)
{
    *m = (model){0};
    const char *path = folder_file(folder, NAME);
    struct stat status;
    tg_gpt_config config = tg_gpt_config_default();
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &status) != 0) {
        complain("opening '%s': %s", path, strerror(errno));
        if (file) {
            fclose(file);
        }
        return false;
    }
    bool plausible = read_config(file, status.st_size, &config);
    bool made = plausible && model_make(m, &config, 0);
    bool good = made && is_header_of(file, status.st_size, m) && move_values(file, m, true);
    if (!good && (made || !plausible)) {
        complain("'%s' is damaged, or was not written by gpt train", path);
    }
    if (!good) {
        model_free(m);
    }
    fclose(file);
    return good;
}
