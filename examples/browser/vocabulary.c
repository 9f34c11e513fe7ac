/* vocabulary STORY HEADER IDS: trains a vocabulary on a text, and writes both as arrays of a C header. Compilers limit
 * the length of a string, and not that of an array. */
#include <stdio.h>
#include <stdlib.h>

#include <tapegrad_text.h>

static void write_array(FILE *file, const char *name, const char *text, size_t length)
{
    fprintf(file, "static const unsigned char %s[] = {", name);
    for (size_t i = 0; i < length; i++) {
        fprintf(file, "%s%d,", i % 24 == 0 ? "\n" : "", (unsigned char)text[i]);
    }
    fprintf(file, "\n0};\n");
}

int main(int argc, char **argv)
{
    tg_error error = TG_NO_ERROR;
    size_t length = 0, vocabulary_length = 0;
    char *story = argc == 4 ? tg_text_read(argv[1], &length, &error) : NULL;
    tg_tokenizer *bpe = story ? tg_tokenizer_train(story, length, atoi(argv[3]), &error) : NULL;
    char *vocabulary = bpe ? tg_tokenizer_text(bpe, &vocabulary_length, &error) : NULL;
    FILE *file = vocabulary ? fopen(argv[2], "w") : NULL;
    if (file) {
        write_array(file, "lighthouse_story", story, length);
        write_array(file, "lighthouse_vocabulary", vocabulary, vocabulary_length);
    }
    bool good = file && !ferror(file) && !fclose(file);
    if (!good) {
        fprintf(stderr, "vocabulary STORY HEADER IDS: %s\n", error.code ? error.text : "cannot write the header");
    }
    tg_text_free(vocabulary);
    tg_tokenizer_free(bpe);
    tg_text_free(story);
    return good ? 0 : 1;
}
