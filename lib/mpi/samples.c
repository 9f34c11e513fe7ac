/* samples: gradients that are added in an order which does not depend on the number of ranks.
 *
 * The samples of a step are numbered over all ranks: rank r has the numbers r m .. r m + m - 1, where m is samples /
 * ranks. Their gradients are added in a binary tree that halves the numbers:
 *
 *     sum(begin, end) = sum(begin, middle) + sum(middle, end),    middle = begin + (end - begin) / 2
 *
 * If the number of ranks is a power of two that divides the samples, then the numbers of each rank are a node of this
 * tree. So a rank adds its own samples, the ranks add their nodes in pairs, and the result is the same for 1, 2, 4 ...
 * ranks, bit for bit. A rank keeps the sums of unfinished nodes on a stack, at most one per level of the tree.
 */
#include "mpi/samples.h"

static char *bytes_of(const tg_mpi_node *node)
{
    return node->buffer.block;
}

/* ---- a rank's samples ---- */

/* Returns the number of nodes of the tree over [0,count) that end after sample `index`, the sample itself not
 * counted. */
static int nodes_that_end(int64_t count, int64_t index)
{
    int nodes = 0;
    for (int64_t begin = 0, end = count; end - begin > 1;) {
        int64_t middle = begin + (end - begin) / 2;
        nodes += end == index + 1;
        *(index < middle ? &end : &begin) = middle;
    }
    return nodes;
}

/* Adds the top `merges` + 1 sums of the stack. Both spare buffers have space for all of them together. */
static void merge_top(tg_mpi *mpi, int merges)
{
    tg_mpi_samples *s = &mpi->samples;
    tg_mpi_node *top = &s->stack[s->depth - 1];
    for (int i = 0; i < merges; i++) {
        tg_mpi_node *sum = &s->spare[i % 2];
        sum->bytes = tg_mpi_node_merge(mpi, bytes_of(sum), bytes_of(&s->stack[s->depth - 2]), bytes_of(top));
        top = sum;
        s->depth--;
    }
    tg_mpi_node swapped = s->stack[s->depth - 1];
    s->stack[s->depth - 1] = *top;
    *top = swapped;
}

static bool check_samples(const tg_mpi *mpi, int64_t samples, tg_error *error)
{
    const tg_mpi_samples *s = &mpi->samples;
    if ((mpi->size & (mpi->size - 1)) != 0 || samples < 1 || samples % mpi->size != 0) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%lld samples on %d ranks; the number of ranks must be a power of two that divides the "
                            "number of samples",
                            (long long)samples, mpi->size);
    }
    if (s->added > 0 && samples != s->samples) {
        return tg_error_set(error, TG_ERROR_VALUE, "%lld samples, after %lld for the first one of this step",
                            (long long)samples, (long long)s->samples);
    }
    if (s->added == samples / mpi->size) {
        return tg_error_set(error, TG_ERROR_STATE, "this rank has added its %lld samples; call tg_mpi_reduce",
                            (long long)s->added);
    }
    return !mpi->has_begun || tg_error_set(error, TG_ERROR_STATE, "tg_mpi_begin has started a reduction");
}

/* Pushes the gradients, and adds the sums of the nodes that end with this sample. */
static bool push(tg_mpi *mpi, int merges, tg_error *error)
{
    tg_mpi_samples *s = &mpi->samples;
    tg_mpi_node *top = &s->stack[s->depth];
    size_t bytes = tg_mpi_node_bytes(mpi), together = bytes;
    int64_t rows = 1;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        int64_t count = tg_tensor_grad_rows(mpi->leaves[i].tensor).count;
        rows = count > rows ? count : rows;
    }
    for (int i = 1; i <= merges; i++) {
        together += s->stack[s->depth - i].bytes;
    }
    int64_t *keys = tg_mpi_buffer_reserve(&s->keys, (size_t)rows * sizeof *keys);
    char *space = tg_mpi_buffer_reserve(&top->buffer, bytes);
    if (!keys || !space || (merges > 0 && !tg_mpi_buffer_reserve(&s->spare[0].buffer, together)) ||
        (merges > 1 && !tg_mpi_buffer_reserve(&s->spare[1].buffer, together))) {
        return tg_error_set(error, TG_ERROR_MEMORY, "out of memory for the gradients of a sample");
    }
    top->bytes = bytes;
    tg_mpi_node_write(mpi, space, keys);
    s->depth++;
    merge_top(mpi, merges);
    return true;
}

bool tg_mpi_add_sample(tg_mpi *mpi, tg_params *params, int64_t samples, tg_error *error)
{
    static const char call[] = "mpi_add_sample";
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error)) {
        return false;
    }
    if (params && !tg_error_copy(error, tg_params_error(params))) {
        return false;
    }
    tg_mpi_samples *s = &mpi->samples;
    tg_error local = TG_NO_ERROR;
    if (!tg_mpi_expect_params(mpi, params, &local) || !check_samples(mpi, samples, &local) ||
        (s->added > 0 && !tg_mpi_expect_sizes(mpi, &local)) ||
        !push(mpi, nodes_that_end(samples / mpi->size, s->added), &local)) {
        return tg_error_set(error, local.code, "%s: %s", call, local.text);
    }
    if (s->added++ == 0) {
        s->samples = samples;
        tg_mpi_note_sizes(mpi);
    }
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        tg_tensor_zero_grad(mpi->leaves[i].tensor);
    }
    return true;
}

/* ---- the samples of all ranks ---- */

bool tg_mpi_samples_check(const tg_mpi *mpi, tg_error *error)
{
    const tg_mpi_samples *s = &mpi->samples;
    if (s->added == 0) {
        return true;
    }
    if (s->added != s->samples / mpi->size) {
        return tg_error_set(error, TG_ERROR_STATE, "this rank has added %lld of its %lld samples", (long long)s->added,
                            (long long)(s->samples / mpi->size));
    }
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        if (tg_tensor_grad_kind(mpi->leaves[i].tensor) != TG_GRAD_NONE) {
            return tg_error_set(error, TG_ERROR_STATE, "a parameter has a gradient that tg_mpi_add_sample did not add");
        }
    }
    return true;
}

void tg_mpi_samples_clear(tg_mpi *mpi)
{
    mpi->samples.added = mpi->samples.samples = 0;
    mpi->samples.depth = 0;
}

/* Moves a sum between two ranks, in messages whose counts are ints. */
static bool move(tg_mpi *mpi, char *bytes, size_t count, int partner, bool receive, tg_error *error)
{
    for (size_t done = 0; done < count; done += TG_MPI_MESSAGE) {
        int size = (int)(count - done < TG_MPI_MESSAGE ? count - done : TG_MPI_MESSAGE);
        int result = receive ? MPI_Recv(bytes + done, size, MPI_BYTE, partner, 0, mpi->comm, MPI_STATUS_IGNORE)
                             : MPI_Send(bytes + done, size, MPI_BYTE, partner, 0, mpi->comm);
        if (!tg_mpi_succeeded("mpi_reduce", result, error)) {
            return false;
        }
    }
    return true;
}

/* One level of the tree: ranks whose numbers differ in `bit` add their sums on the lower one. All ranks call it,
 * because all must learn whether one has no memory. */
static bool merge_ranks(tg_mpi *mpi, int bit, tg_error *error)
{
    tg_mpi_samples *s = &mpi->samples;
    bool receives = mpi->rank % (2 * bit) == 0, sends = mpi->rank % (2 * bit) == bit;
    int partner = receives ? mpi->rank + bit : mpi->rank - bit;
    int64_t mine = (int64_t)s->stack[0].bytes, other = 0;
    tg_error local = TG_NO_ERROR;
    if ((receives || sends) && !tg_mpi_succeeded("mpi_reduce",
                                                 MPI_Sendrecv(&mine, 1, MPI_INT64_T, partner, 0, &other, 1, MPI_INT64_T,
                                                              partner, 0, mpi->comm, MPI_STATUS_IGNORE),
                                                 error)) {
        return false;
    }
    if (receives && (!tg_mpi_buffer_reserve(&s->stack[1].buffer, (size_t)other) ||
                     !tg_mpi_buffer_reserve(&s->spare[0].buffer, (size_t)(mine + other)))) {
        tg_error_set(&local, TG_ERROR_MEMORY, "out of memory for the gradients of samples");
    }
    if (!tg_mpi_agree_on(mpi, "mpi_reduce", mpi->step + 1, &local, error)) {
        return false;
    }
    if (sends) {
        return move(mpi, bytes_of(&s->stack[0]), (size_t)mine, partner, false, error);
    }
    if (receives) {
        if (!move(mpi, bytes_of(&s->stack[1]), (size_t)other, partner, true, error)) {
            return false;
        }
        s->stack[1].bytes = (size_t)other;
        s->depth = 2;
        merge_top(mpi, 1);
    }
    return true;
}

bool tg_mpi_samples_reduce(tg_mpi *mpi, double share, tg_error *error)
{
    tg_mpi_samples *s = &mpi->samples;
    tg_error local = TG_NO_ERROR;
    for (int bit = 1; bit < mpi->size; bit *= 2) {
        if (!merge_ranks(mpi, bit, error)) {
            return false;
        }
    }
    int64_t bytes = (int64_t)s->stack[0].bytes;
    if (!tg_mpi_broadcast_bytes(mpi, "mpi_reduce", &bytes, sizeof bytes, error)) {
        return false;
    }
    char *sum = mpi->rank == 0 ? bytes_of(&s->stack[0]) : tg_mpi_buffer_reserve(&s->stack[0].buffer, (size_t)bytes);
    if (!sum) {
        tg_error_set(&local, TG_ERROR_MEMORY, "out of memory for the gradients of samples");
    }
    if (!tg_mpi_agree_on(mpi, "mpi_reduce", mpi->step + 1, &local, error) ||
        !tg_mpi_broadcast_bytes(mpi, "mpi_reduce", sum, bytes, error)) {
        return false;
    }
    tg_mpi_node_reserve(mpi, sum, &local);
    if (!tg_mpi_agree_on(mpi, "mpi_reduce", mpi->step + 1, &local, error)) {
        return false;
    }
    tg_mpi_node_write_back(mpi, sum, share);
    return true;
}
