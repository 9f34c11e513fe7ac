/* vocabulary_json (private): what is collected from a JSON file before tokens and merges are added. */
#ifndef TG_TEXT_VOCABULARY_JSON_H
#define TG_TEXT_VOCABULARY_JSON_H

#include "text/vocabulary.h"

/* A string of the JSON text, and its id. */
typedef struct tg_listed_token {
    uint32_t at; /* the position of its quotation mark */
    int32_t id;
} tg_listed_token;

typedef struct tg_token_list {
    tg_listed_token *tokens;
    size_t count, capacity;
} tg_token_list;

typedef struct tg_vocabulary_lists {
    tg_token_list tokens;  /* model.vocab */
    tg_token_list added;   /* added_tokens */
    tg_added_token *flags; /* of added_tokens */
    size_t flag_capacity;
    tg_token_list merges; /* the two tokens of each merge, one after the other; their ids are 0 */
} tg_vocabulary_lists;

/* Adds an element. Refuses an empty string, and an id above 2^31 - 2. */
bool tg_token_list_add(tg_json *j, tg_token_list *list, size_t at, int64_t id);

/* Reads an object {"token": id, ...}. */
bool tg_token_list_read(tg_json *j, tg_token_list *list);

/* Reads tokenizer.json into the lists and v->z, and refuses what would give other ids. */
bool tg_tokenizer_json_read(tg_vocabulary *v, tg_json *j, tg_vocabulary_lists *lists);

/* Reads the stages of a list, and adds them to `stages`. */
bool tg_stages_json_read(tg_json *j, tg_list list, tg_stages *stages);

/* The names of the settings in a tokenizer.json. */
extern const char *const tg_setting_names[TG_SETTINGS];

/* Adds all tokens to v->z and v->slots. The ids must be 0, 1, 2, ... */
bool tg_vocabulary_add_tokens(tg_vocabulary *v, tg_json *j, tg_vocabulary_lists *lists);

#endif
