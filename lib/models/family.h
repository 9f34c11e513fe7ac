/* family (private): what a family of published models is. A file for each has tables: the keys of its config.json
 * with the fields that they are, and the names of its weights. All other code serves every family. lib/models/README.md
 * says how to add one. */
#ifndef TG_MODELS_FAMILY_H
#define TG_MODELS_FAMILY_H

#include <tapegrad/extend.h>
#include <tapegrad/gpt.h>

#include "models/gpt.h"

#define TG_MOST_LAYERS 1000

/* ---- the settings of a config.json ---- */

/* The rotation of queries and keys. */
typedef struct tg_rope {
    int64_t type; /* TG_ROPE_DEFAULT, .. */
    double theta, factor, low, high, share;
    int64_t original; /* 0: the context */
} tg_rope;

enum { TG_ROPE_DEFAULT, TG_ROPE_LINEAR, TG_ROPE_LLAMA3 };

/* Their names in a config.json, as in tg_setting.allowed. */
#define TG_ROPE_TYPES "\"default\" \"linear\" \"llama3\""

/* The settings of all families, under the names of tg_gpt_config where that has them. A family that does not read a
 * setting has a constant here. Sizes are 0 for null. */
typedef struct tg_settings {
    int64_t vocabulary, context, width, hidden, layers, heads, key_heads, head_width;
    double eps;
    /* of the embeddings, of attention and of what a half of a block adds; all three must be equal */
    double dropout[3];
    bool tied_head, attention_bias, feed_forward_bias;
    int64_t query_scalar; /* the scale of attention is 1 / sqrt(query_scalar); 0: the width of a head */
    /* Which layers have a window: those of the list of types, or all from first_window_layer on, except each
     * window_pattern-th one */
    bool has_window;
    int64_t window, first_window_layer, window_pattern;
    int64_t layer_types; /* the length of the list; 0: none */
    bool is_sliding[TG_MOST_LAYERS];
    tg_rope rope, sliding_rope;
    tg_special_ids begin_tokens, end_tokens, padding_tokens;
} tg_settings;

/* How the value of a key is read. */
typedef enum tg_setting_kind {
    TG_SETTING_END,      /* after the last row of a table */
    TG_SETTING_SIZE,     /* an int64_t; null is 0 */
    TG_SETTING_NUMBER,   /* a double */
    TG_SETTING_SWITCH,   /* a bool */
    TG_SETTING_CHOICE,   /* an int64_t, the number of one of the values of `allowed` */
    TG_SETTING_FIXED,    /* a value that must be one of `allowed`; the first one is written */
    TG_SETTING_HARMLESS, /* changes no number: passed over, and not written */
    TG_SETTING_TOKENS,   /* a tg_special_ids: an id, a list of ids, or null */
    TG_SETTING_TYPES,    /* layer_types and is_sliding */
    TG_SETTING_ROPE,     /* a tg_rope: an object */
    TG_SETTING_ROPES     /* a tg_rope, or two in an object, of the layers without a window and with one */
} tg_setting_kind;

typedef struct tg_setting {
    const char *key;
    tg_setting_kind kind;
    size_t at;           /* of the field in tg_settings */
    const char *allowed; /* JSON values with spaces between them */
    bool is_old;         /* of transformers before 5: read, but not written */
} tg_setting;

#define TG_SETTING_AT(field) offsetof(tg_settings, field)

/* ---- the names of weights ---- */

/* Around the name of a layer in the names of its LoRA in peft's files. */
#define TG_PEFT_PREFIX "base_model.model."
#define TG_PEFT_B ".lora_B.weight"

/* A part of a model that has a weight, and perhaps a bias: its name in the params, and in a file. Those of a block are
 * without the block. The own tensor is part number `part` of `parts` equal parts of the file's, whose weight is
 * transposed, (in,out), if is_transposed. */
typedef struct tg_weight_name {
    const char *own, *file;
    int part, parts; /* 0 parts: the whole tensor */
    bool is_transposed;
} tg_weight_name;

/* ---- a family ---- */

typedef struct tg_family {
    /* model_type, the class with the head, and the class without it */
    const char *name, *architecture, *base;
    /* tables that end with TG_SETTING_END. The second one is optional; a row of it replaces the row of the first one
     * with the same key, in reading and in writing */
    const tg_setting *settings, *more_settings;
    /* the settings that a config.json does not have */
    const tg_settings *standard;
    /* what no setting changes */
    tg_position position;
    tg_norm_kind norm;
    tg_feed_forward_kind feed_forward;
    bool norm_after, query_key_norm, has_out_bias, scales_embeddings;
    /* the beginning of all names but the head's, which files of `base` do not have; and the word before the number of a
     * block */
    const char *prefix, *blocks;
    /* ends with a row of NULLs; NULL: the names are those of the params */
    const tg_weight_name *names;
    /* the ends of the names of tensors that no model here needs, with spaces between them */
    const char *unused;
} tg_family;

/* Returns family number `index`, in the order in which a model without one takes the first that can be it; NULL after
 * the last one. */
const tg_family *tg_family_at(int index);

/* The settings that change no number in any family, and those of all families after GPT-2. */
extern const tg_setting tg_harmless_settings[], tg_llama_settings[];
extern const tg_weight_name tg_llama_names[];

extern const tg_family tg_gpt2_family, tg_course_family, tg_llama_family, tg_mistral_family, tg_qwen2_family,
    tg_qwen3_family, tg_gemma3_family;

/* ---- settings.c ---- */

/* Checks the sizes and numbers of a config.json. Returns false for one that no model can have, and writes its key, its
 * value and what is allowed to `problem`. */
bool tg_settings_check(const tg_family *family, const tg_settings *settings, char problem[TG_GPT_PROBLEM]);

/* Sets the config of a model with these settings. Returns false for settings that contradict each other or that no
 * model can have, and writes why to `problem`. */
bool tg_settings_to_config(const tg_family *family, const tg_settings *settings, tg_gpt_config *config,
                           char problem[TG_GPT_PROBLEM]);

/* Sets the settings of a model in a family. Returns false if a model of that family cannot have this config, and writes
 * why to `problem`. The family's model may have more biases, which are zeros, if `has_more_biases`. */
bool tg_settings_from_config(const tg_family *family, const tg_gpt_config *config, bool has_more_biases,
                             tg_settings *settings, char problem[TG_GPT_PROBLEM]);

/* Returns whether a row of more_settings replaces the row of another table with this key. */
bool tg_setting_is_replaced(const tg_family *family, const tg_setting *table, const char *key);

/* Returns the family from which a model was opened, or else the first one whose models may have its config, and sets
 * its settings there. A model of the family may have biases that this one does not have: they are zeros. NULL, with an
 * error that begins with `call`, if there is none. */
const tg_family *tg_family_of(const char *call, const tg_gpt *model, tg_settings *settings, tg_error *error);

/* ---- weights.c ---- */

/* Where a file has a parameter. */
typedef struct tg_weight_place {
    char name[128];
    int part, parts; /* at least 1 part */
    bool is_transposed;
} tg_weight_place;

/* Finds the place of the weight or the bias of a part of a model, or of a matrix of its LoRA in peft's file. Returns
 * false if the family has no such part, or LoRA of a part of a tensor. */
bool tg_weight_find(const tg_family *family, const char *prefix, const char *own, tg_weight_place *place);

/* A file of weights that is being read. `used` says which of its tensors were read. */
typedef struct tg_weights {
    const char *call, *path;
    const tg_family *family;
    const char *prefix;
    struct tg_safetensors *file;
    bool *used;
    tg_dtype dtype;
    bool keep_bf16;
} tg_weights;

/* A tg_params_source: reads a parameter in parts, without a second copy. */
tg_tensor *tg_weights_read(void *weights, const char *own, tg_shape shape, tg_error *error);

/* Counts the values of the parameters of a model with this config, and their bytes, as tg_weights_read makes them.
 * Returns false for a tensor that the file does not have, or has with another shape or dtype. */
bool tg_weights_measure(const tg_weights *weights, const tg_gpt_config *config, int64_t *values, int64_t *bytes,
                        tg_error *error);

/* Checks that the params have all other tensors of the file, too. A tied head that is in the file must be the table. */
bool tg_weights_end(const tg_weights *weights, const tg_params *own, bool tied_head, tg_error *error);

/* Writes the weights of a model as a file of a family, whose models have the config `there`. */
bool tg_weights_write(const char *call, const char *path, tg_gpt *model, const tg_family *family,
                      const tg_gpt_config *there, tg_save_floats floats, tg_error *error);

/* ---- config_read.c and config_write.c ---- */

/* Reads a config.json, and finds its family. VALUE, with the key, its value and what is allowed, for what no family
 * has. */
const tg_family *tg_config_json_read(const char *call, const char *path, tg_settings *settings, tg_error *error);

/* Adds a member to the text of an object: its name, or a setting with its name. `fields` is what `at` of the setting is
 * an offset in. */
void tg_config_json_add_key(tg_text_buffer *text, const char *key);
void tg_config_json_add(tg_text_buffer *text, const tg_setting *setting, const void *fields);

/* Reads an adapter_config.json by a table. */
bool tg_adapter_json_read(const char *call, const char *path, const tg_setting *table, void *fields, tg_error *error);

/* Writes a config.json. `dtype` is that of the weights, as in torch. */
bool tg_config_json_write(const char *call, const char *path, const tg_family *family, const tg_settings *settings,
                          const char *dtype, tg_error *error);

#endif
