/* own_text: a short story for the programs of the book, which they read without --book. */
#ifndef OWN_TEXT_H
#define OWN_TEXT_H

extern const char own_text[];

#endif
