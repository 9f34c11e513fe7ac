/* Two ledgers, with a NUL between them, and before them a digit for the tolerance. A comparison with exchanged ledgers
 * has the same result, and a valid ledger is equal to itself. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad_tools.h>

#include "fuzz.h"

static FILE *open_text(const uint8_t *bytes, size_t size)
{
    /* fmemopen refuses a size of 0. */
    FILE *file = size > 0 ? fmemopen((void *)(uintptr_t)bytes, size, "r") : fopen("/dev/null", "r");
    fuzz_require(file != NULL, "a ledger cannot be opened");
    return file;
}

static bool compare(fuzz_input a, fuzz_input b, double tolerance, tg_ledger_difference *difference, tg_error *error)
{
    FILE *first = open_text(a.bytes, a.size), *second = open_text(b.bytes, b.size);
    memset(difference, 0x55, sizeof *difference);
    bool is_compared = tg_ledger_compare(first, second, tolerance, difference, error);
    fuzz_require(is_compared || (error->code == TG_ERROR_FORMAT && error->text[0]), "compare: %s", error->text);
    fuzz_require(!is_compared || memchr(difference->text, '\0', sizeof difference->text), "a text without an end");
    fclose(first);
    fclose(second);
    return is_compared;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_input input = {bytes, size};
    unsigned digit = fuzz_byte(&input) % 16;
    double tolerance = digit == 0 ? 0 : pow(10, -(double)digit);
    const uint8_t *middle = input.size > 0 ? memchr(input.bytes, '\0', input.size) : NULL;
    fuzz_input a = input, b = {input.bytes, 0};
    if (middle) {
        a.size = (size_t)(middle - input.bytes);
        b = (fuzz_input){middle + 1, input.size - a.size - 1};
    }
    fuzz_memory_begin();
    tg_ledger_difference difference, exchanged;
    tg_error error = TG_NO_ERROR, exchanged_error = TG_NO_ERROR;
    bool is_compared = compare(a, b, tolerance, &difference, &error);
    bool is_exchanged = compare(b, a, tolerance, &exchanged, &exchanged_error);
    fuzz_require(is_compared == is_exchanged, "exchanged: \"%s\" and \"%s\"", error.text, exchanged_error.text);
    if (is_compared) {
        fuzz_require(difference.is_equal == exchanged.is_equal && difference.equal_lines == exchanged.equal_lines,
                     "exchanged: \"%s\" and \"%s\"", difference.text, exchanged.text);
    }
    tg_error self_error = TG_NO_ERROR;
    if (compare(a, a, tolerance, &difference, &self_error)) {
        fuzz_require(difference.is_equal, "a ledger differs from itself: %s", difference.text);
    }
    fuzz_memory_end();
    return 0;
}
