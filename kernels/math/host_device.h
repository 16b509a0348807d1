// One macro: functions of the shared math compile for host and GPU from the same text, which is how
// CPU and GPU results are bit-equal.
#pragma once

#if defined(__CUDACC__)
#define TROUPE_HD __host__ __device__
#else
#define TROUPE_HD
#endif
