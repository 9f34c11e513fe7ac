/* fuzz: shared by the fuzz targets. A target turns bytes into calls of the library, and aborts if a rule of the library
 * is broken. libFuzzer or replay.c calls it. */
#ifndef TG_TESTS_FUZZ_FUZZ_H
#define TG_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include <tapegrad.h>

/* The target: libFuzzer's entry point. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The bytes of one input that have not been used. After the last byte come zeros. */
typedef struct fuzz_input {
    const uint8_t *bytes;
    size_t size;
} fuzz_input;

/* Returns the next byte. */
unsigned fuzz_byte(fuzz_input *input);

/* Returns a number in [0,count), count in [1,65536], from one or two bytes. */
int64_t fuzz_below(fuzz_input *input, int64_t count);

/* Prints the message and aborts unless the condition holds. */
void fuzz_require(bool condition, const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* Lets the library allocate from an allocator that counts its blocks. */
void fuzz_memory_begin(void);

/* Restores the default allocator, and requires that every block was returned. */
void fuzz_memory_end(void);

/* Lets one allocation fail, number `at`, counted from 1 at this call, and with `later` all after it, too. 0: none. */
void fuzz_memory_fail(uint64_t at, bool later);

/* Writes the bytes to a file of this process, and returns its path. */
const char *fuzz_file(const void *bytes, size_t size);

/* Returns the path of folder number `number`, below FUZZ_FOLDERS, of this process, which exists until its end. */
enum { FUZZ_FOLDERS = 8 };
const char *fuzz_folder(int number);

/* Writes the bytes to a file of a folder. */
void fuzz_folder_write(int number, const char *name, const void *bytes, size_t size);

/* Returns whether the bytes are well-formed UTF-8: table 3-7 of the Unicode Standard, chapter 3. */
bool fuzz_is_utf8(const uint8_t *bytes, size_t size);

#endif
