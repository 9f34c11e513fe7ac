/* metrics: counts right predictions, and pairs of targets and predictions. All targets are checked before anything is
 * added. */
#include <tapegrad/metrics.h>

#include <tapegrad/extend.h>

TG_CONFIG(tg_metric_config, tg_metric_config_default, mark, .mark = mark, .ignore_index = -100);

/* The arguments of a call, which were checked. */
typedef struct batch {
    const tg_tensor *logits, *targets;
    int64_t rows, classes;
    int32_t ignore_index;
} batch;

static int64_t classes_of(const tg_tensor *logits)
{
    return tg_tensor_rank(logits) > 0 ? tg_tensor_size(logits, -1) : 0;
}

static bool check_tensors(const char *call, const tg_tensor *logits, const tg_tensor *targets, tg_error *error)
{
    if (!tg_tensor_check(call, "logits tensor", logits, error) ||
        !tg_tensor_check(call, "targets tensor", targets, error)) {
        return false;
    }
    tg_dtype dtype = tg_tensor_dtype(logits);
    if ((dtype != TG_F32 && dtype != TG_F64) || tg_tensor_dtype(targets) != TG_I32) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: logits %s and targets %s; they must be f32 or f64, and i32",
                            call, tg_dtype_name(tg_tensor_dtype(logits)), tg_dtype_name(tg_tensor_dtype(targets)));
    }
    tg_shape rows = tg_tensor_shape(logits);
    rows.rank--;
    if (classes_of(logits) < 1 || !tg_shape_equal(rows, tg_tensor_shape(targets))) {
        char x_text[TG_SHAPE_TEXT], t_text[TG_SHAPE_TEXT];
        return tg_error_set(
            error, TG_ERROR_SHAPE, "%s: logits %s and targets %s; they must be (..,C) and (..) with C >= 1", call,
            tg_shape_format(tg_tensor_shape(logits), x_text), tg_shape_format(tg_tensor_shape(targets), t_text));
    }
    return true;
}

/* Returns the target of a row, or -1 if it does not count. */
static int64_t target_at(const batch *b, int64_t row)
{
    int64_t target = (int64_t)tg_tensor_value_at(b->targets, row);
    return target == b->ignore_index ? -1 : target;
}

/* Fills the batch. False with the error set. */
static bool begin_batch(const char *call, const tg_tensor *logits, const tg_tensor *targets,
                        const tg_metric_config *given, batch *b, tg_error *error)
{
    if (!tg_config_check(call, given, mark, error) || !check_tensors(call, logits, targets, error)) {
        return false;
    }
    int32_t ignored = given ? given->ignore_index : tg_metric_config_default().ignore_index;
    *b = (batch){logits, targets, tg_tensor_count(targets), classes_of(logits), ignored};
    for (int64_t row = 0; row < b->rows; row++) {
        int64_t target = (int64_t)tg_tensor_value_at(targets, row);
        if ((target < 0 || target >= b->classes) && target != ignored) {
            tg_shape shape = tg_tensor_shape(targets);
            char text[TG_SHAPE_TEXT], logits_text[TG_SHAPE_TEXT];
            return tg_error_set(error, TG_ERROR_RANGE,
                                "%s: target %lld at %s is outside [0,%lld), the classes of logits %s, and is not "
                                "ignore_index, %d",
                                call, (long long)target, tg_index_format(&shape, row, text), (long long)b->classes,
                                tg_shape_format(tg_tensor_shape(logits), logits_text), ignored);
        }
    }
    return true;
}

/* Returns the logit at an offset from the first one, in values. */
static double logit_at(const tg_tensor *logits, int64_t offset)
{
    const void *data = tg_tensor_data(logits);
    return tg_tensor_dtype(logits) == TG_F32 ? (double)((const float *)data)[offset] : ((const double *)data)[offset];
}

/* Returns the index of the first of the largest logits of a row, or that of the first NaN. */
static int64_t predict(const batch *b, int64_t row)
{
    const tg_tensor *x = b->logits;
    int64_t begin = 0, step = tg_tensor_stride(x, -1), best = 0;
    for (int axis = tg_tensor_rank(x) - 2; axis >= 0; axis--) {
        begin += row % tg_tensor_size(x, axis) * tg_tensor_stride(x, axis);
        row /= tg_tensor_size(x, axis);
    }
    double most = logit_at(x, begin);
    for (int64_t i = 1; i < b->classes && most == most; i++) { /* a NaN ends the search */
        double value = logit_at(x, begin + i * step);
        if (value > most || value != value) {
            most = value;
            best = i;
        }
    }
    return best;
}

bool tg_accuracy_add(tg_accuracy *accuracy, const tg_tensor *logits, const tg_tensor *targets,
                     const tg_metric_config *config, tg_error *error)
{
    static const char call[] = "accuracy_add";
    batch b;
    if (!accuracy) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the accuracy is NULL", call);
    }
    if (!begin_batch(call, logits, targets, config, &b, error)) {
        return false;
    }
    for (int64_t row = 0; row < b.rows; row++) {
        int64_t target = target_at(&b, row);
        accuracy->count += target >= 0;
        accuracy->correct += target >= 0 && target == predict(&b, row);
    }
    return true;
}

static bool check_matrix(const char *call, const tg_tensor *matrix, const batch *b, tg_error *error)
{
    char text[TG_SHAPE_TEXT];
    bool is_i32 = tg_tensor_dtype(matrix) == TG_I32;
    if (!is_i32 || !tg_shape_equal(tg_tensor_shape(matrix), TG_SHAPE(b->classes, b->classes))) {
        return tg_error_set(error, !is_i32 ? TG_ERROR_DTYPE : TG_ERROR_SHAPE,
                            "%s: the matrix is %s %s; it must be i32 (%lld,%lld)", call,
                            tg_dtype_name(tg_tensor_dtype(matrix)), tg_shape_format(tg_tensor_shape(matrix), text),
                            (long long)b->classes, (long long)b->classes);
    }
    for (int64_t i = 0; i < tg_tensor_count(matrix); i++) {
        if ((int64_t)tg_tensor_value_at(matrix, i) > INT32_MAX - b->rows) {
            tg_shape shape = tg_tensor_shape(matrix);
            return tg_error_set(error, TG_ERROR_RANGE, "%s: the count %.0f at %s and %lld more could exceed %d", call,
                                tg_tensor_value_at(matrix, i), tg_index_format(&shape, i, text), (long long)b->rows,
                                INT32_MAX);
        }
    }
    return true;
}

bool tg_confusion_add(tg_tensor *matrix, const tg_tensor *logits, const tg_tensor *targets,
                      const tg_metric_config *config, tg_error *error)
{
    static const char call[] = "confusion_add";
    batch b;
    if (!tg_tensor_check(call, "matrix", matrix, error) || !begin_batch(call, logits, targets, config, &b, error) ||
        !check_matrix(call, matrix, &b, error)) {
        return false;
    }
    tg_error own_error = TG_NO_ERROR;
    tg_tensor *sums = tg_tensor_new_copy(matrix, &own_error); /* the matrix may share memory with the targets */
    int32_t *counts = tg_tensor_data_mut(sums);
    for (int64_t row = 0; sums && row < b.rows; row++) {
        int64_t target = target_at(&b, row);
        if (target >= 0) {
            counts[target * b.classes + predict(&b, row)]++;
        }
    }
    bool is_added = sums && tg_tensor_copy_from(matrix, sums, &own_error);
    tg_release(sums);
    return is_added || tg_error_set(error, own_error.code, "%s: %s", call, own_error.text);
}
