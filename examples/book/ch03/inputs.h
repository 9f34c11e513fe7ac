/* inputs: the chapter's sentence, "Your journey starts with one step", as six example embeddings of width 3. */
#ifndef INPUTS_H
#define INPUTS_H

#include "../book.h"

/* Returns f32 (6,3). */
static inline tg_tensor *inputs_new(void)
{
    const float values[] = {
        0.43f, 0.15f, 0.89f, /* Your    */
        0.55f, 0.87f, 0.66f, /* journey */
        0.57f, 0.85f, 0.64f, /* starts  */
        0.22f, 0.58f, 0.33f, /* with    */
        0.77f, 0.25f, 0.10f, /* one     */
        0.05f, 0.80f, 0.55f, /* step    */
    };
    return tg_tensor_new_from_f32(TG_SHAPE(6, 3), values, NULL);
}

#endif
