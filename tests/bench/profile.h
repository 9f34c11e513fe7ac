/* profile: what a profile of a GPT's step covers, and what it costs. */
#ifndef TG_BENCH_PROFILE_H
#define TG_BENCH_PROFILE_H

void bench_profile(void);

#endif
