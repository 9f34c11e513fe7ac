/* weights: a model in a file, until the library reads and writes safetensors, which will take this file's place.
 *
 *   tapegrad gpt weights 1, little-endian f32
 *   vocabulary 512 context 128 width 128 heads 4 layers 4 dropout 0 qkv_bias 0 tied_head 1
 *   tok_emb.weight (512,128)
 *   ...                                         a line for each parameter, in the model's order
 *                                               an empty line, then the values, without gaps
 *
 * The header says nothing that does not follow from the configuration. So whoever reads takes the second line alone
 * from the file, makes that model, writes the header that it ought to have, and compares: one comparison checks every
 * name, shape and character. Before that the sizes are held against the length of the file, so that no line can ask for
 * more memory than a few times the file's own length.
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
    const tg_gpt_config *c = tg_gpt_config_of(m->gpt);
    fprintf(file, "tapegrad gpt weights 1, %s-endian f32\n", byte_order());
    fprintf(file,
            "vocabulary %" PRId64 " context %" PRId64 " width %" PRId64 " heads %" PRId64 " layers %" PRId64
            " dropout %.17g qkv_bias %d tied_head %d position %s\n",
            c->vocabulary, c->context, c->width, c->heads, c->layers, c->dropout, c->qkv_bias == TG_BIAS, c->tied_head,
            tg_position_name(c->position));
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        char shape[TG_SHAPE_TEXT];
        tg_entry entry = tg_params_at(m->params, i);
        fprintf(file, "%s %s\n", entry.name, tg_shape_format(tg_shape_of(entry.tensor), shape));
    }
    fputc('\n', file);
}

/* Values in the file: of parameters and buffers, each once. */
static int64_t count_values(const model *m)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        tg_entry entry = tg_params_at(m->params, i);
        count += entry.kind == TG_ENTRY_ALIAS ? 0 : tg_count(entry.tensor);
    }
    return count;
}

/* The values, in the header's order; a second name for a parameter has none of its own. */
static bool move_values(FILE *file, const model *m, bool reading)
{
    bool good = true;
    for (int64_t i = 0; good && i < tg_params_count(m->params); i++) {
        tg_entry entry = tg_params_at(m->params, i);
        size_t count = entry.kind == TG_ENTRY_ALIAS ? 0 : (size_t)tg_count(entry.tensor);
        good = count == (reading ? fread(tg_data_mut(entry.tensor), sizeof(float), count, file)
                                 : fwrite(tg_data(entry.tensor), sizeof(float), count, file));
    }
    return good;
}

static void sync_folder(const char *folder)
{
    int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
        fsync(descriptor); /* some file systems refuse; the rename has happened either way */
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

/* The configuration in the second line, if a model of it can be in a file of that size. */
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
        !tg_position_named(position, &c->position)) {
        return false;
    }
    c->qkv_bias = qkv_bias ? TG_BIAS : TG_NO_BIAS;
    c->tied_head = tied != 0;
    int64_t table = c->position <= TG_POSITION_SINUSOIDAL ? c->context : 0;
    /* the digits that were read keep the product within 64 bits */
    return c->vocabulary > 0 && c->context > 0 && c->width > 0 && c->layers > 0 &&
           (c->vocabulary + table + 12 * c->layers * c->width) * c->width <= bytes / (int64_t)sizeof(float);
}

/* Is what stands in the file the header of this model, and is the rest as long as its values? */
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
    tg_gpt_config config = {.path = TG_ATTENTION_FUSED};
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
        complain("'%s' is damaged, or no file of gpt train's", path);
    }
    if (!good) {
        model_free(m);
    }
    fclose(file);
    return good;
}
