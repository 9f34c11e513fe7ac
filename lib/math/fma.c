/* fma: a b + c with whole numbers of 128 bits, for factors that are too large or small for math/fma.h.
 *
 * Both terms are whole numbers times powers of two, with their first bit at 125 or 124. The smaller one is shifted to
 * the exponent of the larger one, and its last bit also stands for those that it loses. The larger term ends in 20
 * zeros, and if bits are lost, then no more than one leading bit cancels: so the rounding sees what it needs.
 */
#include "math/fma.h"

/* sign (upper 2^64 + lower) 2^exponent */
typedef struct term {
    uint64_t upper, lower;
    int exponent;
    bool is_negative;
} term;

static uint64_t bits_of(double x)
{
    return ((tg_double_bits){.value = x}).bits;
}

/* Returns the 53 bits of a finite number that is not 0, with the first bit set, and sets their exponent. */
static uint64_t significand_of(double x, int *exponent)
{
    const uint64_t first = (uint64_t)1 << 52;
    uint64_t bits = bits_of(x) & (first - 1);
    int biased = (int)(bits_of(x) >> 52 & 0x7ff);
    bits |= biased ? first : 0;
    *exponent = (biased ? biased : 1) - 1075;
    while (bits < first) {
        bits <<= 1;
        --*exponent;
    }
    return bits;
}

static term shifted_left(term x, int by)
{
    if (by >= 64) {
        x.upper = x.lower;
        x.lower = 0;
        by -= 64;
        x.exponent -= 64;
    }
    if (by > 0) {
        x.upper = x.upper << by | x.lower >> (64 - by);
        x.lower <<= by;
        x.exponent -= by;
    }
    return x;
}

/* The last bit of the result is set if any of those that are lost was. */
static term shifted_right(term x, int by)
{
    bool lost = false;
    x.exponent += by;
    if (by >= 128) {
        lost = x.upper | x.lower;
        x.upper = x.lower = 0;
        by = 0;
    }
    if (by >= 64) {
        lost = x.lower != 0;
        x.lower = x.upper;
        x.upper = 0;
        by -= 64;
    }
    if (by > 0) {
        lost |= x.lower << (64 - by) != 0;
        x.lower = x.lower >> by | x.upper << (64 - by);
        x.upper >>= by;
    }
    x.lower |= lost;
    return x;
}

static term product_of(double a, double b)
{
    int of_a, of_b;
    uint64_t x = significand_of(a, &of_a), y = significand_of(b, &of_b);
    const uint64_t half = 0xffffffff;
    uint64_t middle = (x >> 32) * (y & half) + ((x & half) * (y & half) >> 32), other = (x & half) * (y >> 32);
    uint64_t carry = ((middle & half) + (other & half)) >> 32;
    term product = {(x >> 32) * (y >> 32) + (middle >> 32) + (other >> 32) + carry, x * y, of_a + of_b,
                    bits_of(a) >> 63 != bits_of(b) >> 63};
    return shifted_left(product, 20);
}

/* Returns the number rounded to a double. */
static double rounded(term x)
{
    if (!(x.upper | x.lower)) {
        return 0;
    }
    while (!(x.upper >> 63)) {
        x = shifted_left(x, 1);
    }
    /* the exponent of the last bit of the result; that of subnormal numbers is -1074 */
    int last = x.exponent + 128 - 53;
    last = last < -1074 ? -1074 : last;
    x = shifted_right(x, last - x.exponent - 64); /* the result is x.upper, and x.lower what is below its last bit */
    const uint64_t middle = (uint64_t)1 << 63;
    uint64_t bits = x.upper + (x.lower > middle || (x.lower == middle && (x.upper & 1)));
    if (bits >> 53) {
        bits >>= 1;
        last++;
    }
    tg_double_bits result = {.bits = bits}; /* as it stands, a subnormal number or 0 */
    if (bits >> 52) {
        result.bits = last > 971 ? (uint64_t)0x7ff << 52 : bits + ((uint64_t)(last + 1074) << 52);
    }
    result.bits |= (uint64_t)x.is_negative << 63;
    return result.value;
}

/* Returns x + y, where the exponent of x is not below that of y. */
static term sum_of(term x, term y)
{
    int distance = x.exponent - y.exponent;
    y = shifted_right(y, distance);
    bool subtracts = x.is_negative != y.is_negative;
    if (subtracts && (x.upper < y.upper || (x.upper == y.upper && x.lower < y.lower))) {
        term swapped = x;
        x = y;
        y = swapped;
    }
    uint64_t lower = subtracts ? x.lower - y.lower : x.lower + y.lower;
    x.upper = subtracts ? x.upper - y.upper - (lower > x.lower) : x.upper + y.upper + (lower < x.lower);
    x.lower = lower;
    return x;
}

double tg_whole_fma_f64(double a, double b, double c)
{
    if (!(fabs(a) <= 0x1.fffffffffffffp1023 && fabs(b) <= 0x1.fffffffffffffp1023) || a == 0 || b == 0) {
        return a * b + c;
    }
    if (!(fabs(c) <= 0x1.fffffffffffffp1023)) {
        return c + c; /* the product is finite, whatever its size */
    }
    term product = product_of(a, b);
    if (c == 0) {
        return rounded(product);
    }
    term other = {.is_negative = bits_of(c) >> 63};
    other.lower = significand_of(c, &other.exponent);
    other = shifted_left(other, 73);
    term sum = product.exponent >= other.exponent ? sum_of(product, other) : sum_of(other, product);
    return rounded(sum);
}
