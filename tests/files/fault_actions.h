/* fault_actions: the calls that test_faults.c lets fail, each of which reads or writes one file. */
#ifndef TG_TESTS_IO_FAULT_ACTIONS_H
#define TG_TESTS_IO_FAULT_ACTIONS_H

#include "faults.h"
#include "support.h"

/* The folder of a test is new, and the current one. */
#define FOLDER "./"

typedef struct world {
    counting_allocator counting;
    tg_params *old, *new, *loaded;
    tg_tensor *x;
    tg_tokenizer *old_bpe, *new_bpe; /* NULL in a build without the tokenizer */
    char folder[32];
} world;

/* A call that writes `path`, or only reads it. */
typedef struct action {
    const char *path;
    int writes; /* the number of the open, and of the close, of the file that it writes; 0: it only reads */
    bool (*run)(world *w, bool is_old, tg_error *error);
    /* the number of calls of each kind that this test must reach, at least */
    int least[KINDS];
} action;

extern const action actions[];
extern const size_t action_count;

/* The number of actions at the end of the list that need the tokenizer. */
#define TOKENIZER_ACTIONS 8

/* The values of `is_old` give two different files. */
bool save_params(world *w, bool is_old, tg_error *error);
bool load_params(world *w, bool is_old, tg_error *error);
bool save_npy(world *w, bool is_old, tg_error *error);

#endif
