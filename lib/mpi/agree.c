/* agree: how every collective call begins.
 *
 * Each rank checks its arguments alone. Then, before anything else is sent, all ranks agree, in one MPI_Allreduce of
 * five numbers: the lowest rank that has an error, and the lowest and the highest checksum of two things that must be
 * equal on all ranks, the name of the call, and its facts (sizes, options, the entries of the params). If they are not
 * as they should be, more messages find out what the error is. So either all ranks go on, or all of them leave the
 * call with the same error, and none waits for another.
 *
 * What can fail on one rank only after this, as a rule an allocation whose size other ranks decide, is agreed on again.
 */
#include <stdio.h>
#include <string.h>

#include "mpi/state.h"

int tg_mpi_compare_keys(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

uint64_t tg_mpi_checksum(uint64_t sum, const void *from, int64_t count)
{
    const unsigned char *bytes = from;
    for (; count >= 8; bytes += 8, count -= 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        sum = (sum ^ word) * 0x100000001b3;
        sum ^= sum >> 29;
    }
    for (; count > 0; bytes++, count--) {
        sum = (sum ^ *bytes) * 0x100000001b3;
    }
    return sum;
}

static uint64_t checksum_of_text(uint64_t sum, const char *text)
{
    return tg_mpi_checksum(sum, text, (int64_t)strlen(text) + 1);
}

/* ---- facts ---- */

/* A fact in a message. All bytes are set. */
typedef struct value {
    uint64_t sum;
    char text[160];
} value;

static value value_of(const tg_mpi_fact *fact)
{
    value v = {.sum = fact->text ? checksum_of_text(TG_MPI_CHECKSUM, fact->text) : (uint64_t)fact->number};
    if (fact->text) {
        snprintf(v.text, sizeof v.text, "'%.*s'", TG_CUT(fact->text, 150));
    } else {
        snprintf(v.text, sizeof v.text, "%lld", (long long)fact->number);
    }
    return v;
}

tg_mpi_fact tg_mpi_entries_fact(const tg_params *params)
{
    uint64_t sum = TG_MPI_CHECKSUM;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        const tg_tensor *x = tg_params_at(params, i).tensor;
        int64_t numbers[] = {tg_tensor_count(x), tg_tensor_requires_grad(x)};
        sum = tg_mpi_checksum(sum, numbers, sizeof numbers);
    }
    return (tg_mpi_fact){.what = "the params", .number = (int64_t)sum, .entries = params};
}

/* ---- messages of an error ---- */

static bool send_from(tg_mpi *mpi, const char *call, int root, void *bytes, size_t size, tg_error *error)
{
    return tg_mpi_succeeded(call, MPI_Bcast(bytes, (int)size, MPI_BYTE, root, mpi->comm), error);
}

static bool lowest_of(tg_mpi *mpi, const char *call, int64_t *number, tg_error *error)
{
    return tg_mpi_succeeded(call, MPI_Allreduce(MPI_IN_PLACE, number, 1, MPI_INT64_T, MPI_MIN, mpi->comm), error);
}

/* Sets the error of ranks that are in different calls. It begins with the call of rank 0 on all of them. */
static bool report_calls(tg_mpi *mpi, const char *call, tg_error *error)
{
    char first[40] = "", other[40] = "";
    snprintf(first, sizeof first, "%s", call);
    memcpy(other, first, sizeof other);
    if (!send_from(mpi, call, 0, first, sizeof first, error)) {
        return false;
    }
    int64_t lowest = strcmp(first, other) != 0 ? mpi->rank : mpi->size;
    return lowest_of(mpi, call, &lowest, error) && send_from(mpi, call, (int)lowest, other, sizeof other, error) &&
           tg_error_set(error, TG_ERROR_STATE,
                        "%s: rank %d calls tg_%s; all ranks must make the same calls in the same "
                        "order",
                        first, (int)lowest, other);
}

/* Sets the error of the lowest rank that has one. */
static bool report_error(tg_mpi *mpi, const char *call, const char *at, int failed, const tg_error *local,
                         tg_error *error)
{
    tg_error shared = TG_NO_ERROR;
    if (failed == mpi->rank) {
        shared = *local;
    }
    if (!send_from(mpi, call, failed, &shared, sizeof shared, error)) {
        return false;
    }
    return strcmp(shared.text, mpi->agreed) == 0
               ? tg_error_copy(error, &shared)
               : tg_error_set(error, shared.code, "%s: %srank %d: %.*s", call, at, failed, TG_CUT(shared.text, 320));
}

/* Sets the error of the first fact that is not rank 0's on some rank. */
static bool report_facts(tg_mpi *mpi, const char *call, const char *at, const tg_mpi_fact *facts, int count,
                         tg_error *error)
{
    /* index * ranks + rank of the first one */
    int64_t lowest = INT64_MAX;
    for (int i = 0; i < count; i++) {
        value mine = value_of(&facts[i]), first = mine;
        if (!send_from(mpi, call, 0, &first, sizeof first, error)) {
            return false;
        }
        if (memcmp(&mine, &first, sizeof mine) != 0 && lowest == INT64_MAX) {
            lowest = (int64_t)i * mpi->size + mpi->rank;
        }
    }
    if (!lowest_of(mpi, call, &lowest, error)) {
        return false;
    }
    const tg_mpi_fact *fact = &facts[lowest / mpi->size];
    int rank = (int)(lowest % mpi->size);
    if (fact->entries) {
        return tg_mpi_compare_entries(mpi, call, fact->entries, error);
    }
    value first = value_of(fact), other = first;
    return send_from(mpi, call, 0, &first, sizeof first, error) &&
           send_from(mpi, call, rank, &other, sizeof other, error) &&
           tg_error_set(error, TG_ERROR_VALUE,
                        "%s: %s%s is %s on rank 0, and %s on rank %d; it must be equal on all ranks", call, at,
                        fact->what, first.text, other.text, rank);
}

/* ---- agreement ---- */

bool tg_mpi_agree_facts(tg_mpi *mpi, const char *call, int64_t step, const tg_error *local, const tg_mpi_fact *facts,
                        int count, tg_error *error)
{
    enum { FAILED, CALL, CALL_COMPLEMENT, FACTS, FACTS_COMPLEMENT, NUMBERS };
    uint64_t call_sum = checksum_of_text(TG_MPI_CHECKSUM, call), sum = TG_MPI_CHECKSUM;
    for (int i = 0; i < count; i++) {
        uint64_t number = facts[i].text ? checksum_of_text(TG_MPI_CHECKSUM, facts[i].text) : (uint64_t)facts[i].number;
        sum = tg_mpi_checksum(sum, &number, sizeof number);
    }
    /* the minimum of the complements is the complement of the maximum */
    uint64_t lowest[NUMBERS] = {(uint64_t)(local && local->code != TG_OK ? mpi->rank : mpi->size), call_sum, ~call_sum,
                                sum, ~sum};
    if (!tg_mpi_succeeded(call, MPI_Allreduce(MPI_IN_PLACE, lowest, NUMBERS, MPI_UINT64_T, MPI_MIN, mpi->comm),
                          error)) {
        return false;
    }
    char at[40] = "";
    if (step > 0) {
        snprintf(at, sizeof at, "step %lld, ", (long long)step);
    }
    if (lowest[CALL] != ~lowest[CALL_COMPLEMENT]) {
        tg_mpi_flat_abandon(mpi); /* some of these calls would end the reduction, and others would not */
        return report_calls(mpi, call, error);
    }
    if (lowest[FAILED] < (uint64_t)mpi->size) {
        return report_error(mpi, call, at, (int)lowest[FAILED], local, error);
    }
    return lowest[FACTS] == ~lowest[FACTS_COMPLEMENT] || report_facts(mpi, call, at, facts, count, error);
}

bool tg_mpi_agree_on(tg_mpi *mpi, const char *call, int64_t step, const tg_error *local, tg_error *error)
{
    return tg_mpi_agree_facts(mpi, call, step, local, NULL, 0, error);
}

bool tg_mpi_agree(tg_mpi *mpi, const tg_error *local, tg_error *error)
{
    static const char call[] = "mpi_agree";
    return tg_mpi_expect(call, "tg_mpi", mpi, error) && tg_mpi_agree_on(mpi, call, 0, local, error);
}
