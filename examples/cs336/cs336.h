/* cs336: shared by the programs of CS336's first assignment: the command line, the course's files, and a line for each
 * of the course's tests. Each line says what the result was compared with:
 *
 *   a snapshot     an array of the course, snapshots/NAME.npz
 *   a fixture      a text of the course, or numbers that stand in a test of it
 *   a twin         an array of tests/goldens/cs336.npz, which tests/goldens/make_cs336.py computes by PyTorch; the
 *                  course's weights, model.pt, are not at hand, so both draw weights from one seed
 *   itself         a property, such as a round trip
 */
#ifndef CS336_H
#define CS336_H

#include "../cookbook/recipe.h"

/* The programs, as bits: which options each of them has. */
enum { TRAIN_BPE = 1, TOKENIZER = 2, LAYERS = 4, TRAIN = 8, GENERATE = 16 };

/* The values of the command line. */
typedef struct options {
    /* folders with the course's files and with GPT-2's vocab.bpe, and the file of the twin; NULL without the option */
    const char *cs336, *book, *twin;
    const char *text, *out, *prompt;
    const char *special;
    int64_t vocabulary, steps;
} options;

/* Reads the command line of a program, as recipe_options does. */
options options_read(unsigned program, const char *description, int argc, char **argv);

/* What a result is compared with, as above. */
typedef enum compared { SNAPSHOT, FIXTURE, TWIN, ITSELF } compared;

/* Returns the path of a file of the course, valid until the fourth call after it. */
const char *course_file(const options *o, const char *name);

/* Reads `count` numbers of a test of the course, which stand behind `marker` in the function `test` of tests' `file`.
 * Ends the program with a message if they are not there, as in another version of the course. */
void course_numbers(const options *o, const char *file, const char *test, const char *marker, double *values,
                    int count);

/* Copies the text that stands there, up to the next quotation mark, in the same way. */
void course_text(const options *o, const char *file, const char *test, const char *marker, char *text, size_t size);

/* Returns such numbers as an f32 tensor, which the tape `data` owns. */
tg_tensor *course_tensor(recipe *r, const options *o, const char *file, const char *test, const char *marker,
                         tg_shape shape);

/* Return torch.randn(shape) and torch.randint(0, high, shape) after torch.manual_seed(seed): the course's inputs. */
tg_tensor *seeded_randn(recipe *r, uint64_t seed, tg_shape shape);
tg_tensor *seeded_randint(recipe *r, uint64_t seed, tg_shape shape, int64_t high);

/* Whether the program has the files of a test. Without them, prints that the test is skipped. */
bool test_begin(const options *o, const char *test, compared with);

/* Compares y with the array of a snapshot or of the twin, as numpy.testing.assert_allclose, and prints the test's line.
 * `beside` is optional: the result of the library's own op, whose name is `op`. */
void test_array(recipe *r, const options *o, const char *test, compared with, double rtol, double atol, tg_tensor *y,
                const char *op, tg_tensor *beside);

/* Prints the line of a test that was checked in another way. The format is that of the detail behind it. */
void test_line(const char *test, compared with, bool passed, const char *format, ...) TG_PRINTF_LIKE(4, 5);

/* Ends the program as recipe_end does; the status is 1 if a test has failed. */
int tests_end(recipe *r);

#endif
