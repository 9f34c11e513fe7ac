/* tapegrad_text: a library of its own: a tokenizer, vocabularies of words, reading texts. To link it and the
 * core: cc program.c $(pkg-config --cflags --libs tapegrad_text). */
#ifndef TAPEGRAD_TEXT_H
#define TAPEGRAD_TEXT_H

#include <tapegrad/tokenizer.h>
#include <tapegrad/words.h>

#endif
