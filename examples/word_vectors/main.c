/* word_vectors: word2vec and fastText on the command line: trains vectors of words on texts, and answers questions
 * about them.
 *
 *   main.c     the commands and their options
 *   corpus.c   texts as ids of words
 *   pairs.c    pairs of words, and negatives
 *   train.c    the training loop
 *   bags.c     words and their n-grams
 *   query.c    neighbors and analogies
 */
#include <string.h>

#include "../common/command_line.h"
#include "../common/nearest.h"
#include "word_vectors.h"

const char program_name[] = "word_vectors";

typedef enum command { TRAIN = 1, NEIGHBORS = 2, ANALOGY = 4 } command;

#define AT(field) offsetof(options, field)
#define SIZE "[1,1000000]"

static const command_line_option table[] = {
    {"text", "FILES", VALUE_TEXT, AT(text), NULL, "UTF-8 texts, with commas between their paths", TRAIN},
    {"as-is", NULL, VALUE_FLAG, AT(as_is), NULL,
     "the words are what is between white space; otherwise letters become small, and all else of ASCII a space", TRAIN},
    {"out", "DIR", VALUE_TEXT, AT(out), NULL, "folder for the vectors", TRAIN},
    {"width", "N", VALUE_INTEGER, AT(width), "[1,65536]", "values of a vector", TRAIN},
    {"window", "N", VALUE_INTEGER, AT(window), "[1,1000]", "words on each side of a word that are its context", TRAIN},
    {"negatives", "N", VALUE_INTEGER, AT(negatives), "[1,1000]", "words that are drawn for each pair", TRAIN},
    {"min-count", "N", VALUE_INTEGER, AT(min_count), "[1,1000000000]", "smallest frequency of a word", TRAIN},
    {"min-n", "N", VALUE_INTEGER, AT(min_n), "[1,1000]", "smallest number of characters of an n-gram", TRAIN},
    {"max-n", "N", VALUE_INTEGER, AT(max_n), "[0,1000]",
     "largest number of characters of an n-gram, 6 in fastText; with 0 words have no n-grams", TRAIN},
    {"buckets", "N", VALUE_INTEGER, AT(buckets), "[1,2000000000]", "rows into which the n-grams are hashed", TRAIN},
    {"epochs", "N", VALUE_INTEGER, AT(epochs), SIZE, "passes over the texts", TRAIN},
    {"batch", "N", VALUE_INTEGER, AT(batch), SIZE,
     "pairs of a step (default 1000, or fewer if a word is very frequent); with some thousands the loss diverges",
     TRAIN},
    {"alpha", "X", VALUE_NUMBER, AT(alpha), "(0,inf)", "learning rate at the beginning", TRAIN},
    {"min-alpha", "X", VALUE_NUMBER, AT(min_alpha), "[0,inf)", "learning rate at the end; it falls linearly", TRAIN},
    {"seed", "N", VALUE_INTEGER, AT(seed), "[0,4294967295]", "seed of all random numbers", TRAIN},
    {"threads", "N", VALUE_INTEGER, AT(threads), "[1,256]", "threads (default one per processor); they change no bit",
     TRAIN},
    {"vectors", "FILE", VALUE_TEXT, AT(vectors), NULL,
     "file of fastText, or of word2vec's format, binary if its name ends with .bin, else text", NEIGHBORS | ANALOGY},
    {"words", "WORDS", VALUE_TEXT, AT(words), NULL,
     "words with spaces between them; capital letters become small if no word of the file has one", NEIGHBORS},
    {"words", "WORDS", VALUE_TEXT, AT(words), NULL,
     "three words with spaces between them; capital letters become small if no word of the file has one", ANALOGY},
    {"top", "N", VALUE_INTEGER, AT(top), "[1,1000000]", "number of answers", NEIGHBORS | ANALOGY},
};

static const struct {
    const char *name;
    command which;
    int (*run)(const options *o);
    const char *introduction;
} commands[] = {
    {"train", TRAIN, train,
     "word_vectors train: trains the vectors of words, by word2vec's skip-gram with negative sampling.\n"
     "It writes vectors.txt and vectors.bin, which word2vec's programs and gensim open, vectors.safetensors, and\n"
     "words.txt. With --max-n the vector of a word is the mean of a row of its own and those of its n-grams; then\n"
     "fasttext.bin, which fastText and gensim open, takes the place of vectors.safetensors. Ctrl-C stops the training\n"
     "and saves what it has learned.\n"},
    {"neighbors", NEIGHBORS, neighbors,
     "word_vectors neighbors: prints the words with the most similar vectors. In a file of fastText a word that\n"
     "no text had has the vector of its n-grams.\n"},
    {"analogy", ANALOGY, analogy,
     "word_vectors analogy: answers \"man is to king as woman is to\" for --words 'man king woman'.\n"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static int explain(int argc, char **argv)
{
    static const char introduction[] = "word_vectors: trains vectors of words, and answers questions about them.\n"
                                       "word_vectors train|neighbors|analogy --help lists the options.\n";
    if (argc > 1 && argv[1][0] != '-') {
        nearest n = {.word = argv[1]};
        char text[NEAREST_TEXT];
        for (size_t i = 0; i < COMMANDS; i++) {
            nearest_try(&n, commands[i].name);
        }
        complain("'%s' is not a command%s; must be train, neighbors or analogy", argv[1], nearest_text(&n, "", text));
        return 2;
    }
    int status = command_line_refuse_options(introduction, argc, argv);
    if (status >= 0) {
        return status;
    }
    complain("a command is missing: train, neighbors or analogy");
    return 2;
}

static int run(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            options o = {.text = "examples/lighthouse.txt",
                         .out = "out/word_vectors",
                         .width = 100,
                         .window = 5,
                         .negatives = 5,
                         .min_count = 5,
                         .min_n = 3,
                         .buckets = 2000000,
                         .epochs = 5,
                         .alpha = 0.025,
                         .min_alpha = 0.0001,
                         .seed = 1,
                         .vectors = "out/word_vectors/vectors.bin",
                         .top = 10};
            int status = command_line_read(table, sizeof table / sizeof *table, commands[i].which,
                                           commands[i].introduction, &o, argc - 1, argv + 1);
            return status >= 0 ? status : commands[i].run(&o);
        }
    }
    return explain(argc, argv);
}

int main(int argc, char **argv)
{
    program_begin();
    return program_end(run(argc, argv));
}
