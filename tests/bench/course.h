/* course: the course's own training step, with tables of different sizes and with different optimizers. */
#ifndef TG_BENCH_COURSE_H
#define TG_BENCH_COURSE_H

/* A step of SGD. A large table costs no more than a small one, because only the rows of the batch are read. */
void bench_course(void);

/* Deferred steps beside SparseAdam and beside the dense optimizer. */
void bench_deferred_methods(void);

#endif
