// A user's program in C++: the sum of the squares of a row, with TG_SHAPE and TG_AXES.
#include <cstddef>
#include <cstdio>
#include <tapegrad.h>

int main()
{
    const float values[] = {1, 2, 3, 4, 5, 6};
    std::size_t columns = 3;
    tg_tape *t = tg_tape_new(nullptr, nullptr);
    tg_tensor *x = tg_constant_f32(t, TG_SHAPE(2, columns), values);
    tg_tensor *sums = tg_reshape(t, tg_sum(t, tg_mul(t, x, x), TG_AXES(-1), TG_KEEP_AXES), TG_SHAPE(-1));
    bool right = tg_tensor_rank(sums) == 1 && tg_tensor_value_at(sums, 1) == 77;
    std::printf("%s, %g\n", tg_version(), tg_tensor_value_at(sums, 1));
    tg_tape_free(t);
    return right ? 0 : 1;
}
