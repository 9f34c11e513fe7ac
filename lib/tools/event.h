/* event (private): the records of TensorBoard's event files.
 *
 * A record of a TFRecord file is: u64 length, u32 masked CRC of the length, the bytes, u32 masked CRC of the bytes, all
 * little-endian (tensorflow/core/lib/io/record_writer.cc). The bytes are an Event in the wire format of protocol
 * buffers (tensorflow/core/util/event.proto and summary.proto). The fields are so few that no library of protocol
 * buffers is needed:
 *
 *   Event     1 wall_time double, 2 step int64, 3 file_version string, 5 summary Summary
 *   Summary   1 value Value            Value   1 tag string, 2 simple_value float, 5 histo HistogramProto
 *   HistogramProto   1 min, 2 max, 3 num, 4 sum, 5 sum_squares double, 6 bucket_limit, 7 bucket packed doubles
 */
#ifndef TG_TOOLS_EVENT_H
#define TG_TOOLS_EVENT_H

#include <tapegrad/extend.h>
#include <tapegrad/tensor.h>

/* 0, and 1e-12 * 1.1^i below 1e20 with both signs: torch's default bins of SummaryWriter. */
#define TG_HISTOGRAM_LIMITS 1549

typedef struct tg_histogram {
    double min, max, num, sum, sum_squares;
    double limits[TG_HISTOGRAM_LIMITS];
    /* counts[i] is the number of values in [limits[i],limits[i + 1]), the last limit included */
    double counts[TG_HISTOGRAM_LIMITS - 1];
} tg_histogram;

/* Computes the histogram of the finite values of x. Returns false if none of them is within the limits. */
bool tg_histogram_make(tg_histogram *histogram, const tg_tensor *x);

/* Append one record. Times are in seconds since 1970. */
void tg_event_version(tg_text_buffer *out, double time);
void tg_event_scalar(tg_text_buffer *out, double time, int64_t step, const char *tag, double value);
void tg_event_histogram(tg_text_buffer *out, double time, int64_t step, const char *tag, const tg_histogram *histogram);

#endif
