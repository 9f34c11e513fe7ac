/* loop (private): loops whose arguments are constant functions. */
#ifndef TG_OPS_LOOP_H
#define TG_OPS_LOOP_H

/* Such a loop is compiled into each caller, so that it can be vectorized. */
#if defined __GNUC__
#define TG_FOR_EACH_OP inline __attribute__((always_inline))
#else
#define TG_FOR_EACH_OP inline
#endif

#endif
