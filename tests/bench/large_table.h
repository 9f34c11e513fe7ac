/* large_table: a table of 60 million rows, with SparseAdam and with deferred AdamW: about 12 GB of memory. */
#ifndef TG_BENCH_LARGE_TABLE_H
#define TG_BENCH_LARGE_TABLE_H

void bench_large_table(void);

#endif
