/* params_file (private): params as a part of a safetensors file. tg_params_save and tg_params_load are files with this
 * part alone; a checkpoint has more parts. */
#ifndef TG_FILES_PARAMS_FILE_H
#define TG_FILES_PARAMS_FILE_H

#include "files/pending.h"

/* Adds all parameters and buffers under prefix + name, and each alias to the metadata. */
bool tg_params_add_to_file(const tg_params *params, tg_safetensors_writer *writer, const char *prefix,
                           tg_save_floats floats, tg_error *error);

/* Compares the params with the tensors of a file whose names begin with the prefix, and reads them. `config` has the
 * options of tg_params_load; it must not be NULL. Nothing changes before tg_pending_end. */
bool tg_params_read_from_file(const tg_params *params, const char *call, const tg_safetensors *file, const char *path,
                              const tg_params_load_config *config, tg_pending *pending, tg_error *error);

#endif
