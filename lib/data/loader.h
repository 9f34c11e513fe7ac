/* loader (private): the position of a loader, which a checkpoint saves. */
#ifndef TG_DATA_LOADER_H
#define TG_DATA_LOADER_H

#include <tapegrad/data.h>

/* A position in a pass. */
typedef struct tg_loader_position {
    uint64_t seed; /* of the order of this pass; without shuffle it has no meaning */
    int64_t next;  /* the index of the next batch, 0 at the beginning of a pass */
} tg_loader_position;

tg_loader_position tg_loader_get_position(const tg_loader *loader);

/* Sets the position. `next` must be at most the number of batches. */
void tg_loader_set_position(tg_loader *loader, tg_loader_position position);

const tg_loader_config *tg_loader_get_config(const tg_loader *loader);

/* Returns the number of windows in a pass. */
int64_t tg_loader_windows(const tg_loader *loader);

#endif
