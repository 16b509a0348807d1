// Interleaved pairs: A and B take turns (AB BA AB …), so that drift of the machine hits both, and
// each turn gives one ratio. Reported: the median ratio and the interval that covers it with at
// least 95 %, from order statistics (no distribution is assumed).
#pragma once

#include <functional>
#include <vector>

namespace troupe::apps {

struct PairResult {
  double ratio = 0;  // median of seconds(A) / seconds(B): > 1 means B is faster
  double low = 0;    // interval of the median
  double high = 0;
  double a_seconds = 0;  // medians
  double b_seconds = 0;
  int pairs = 0;
};

/// Runs one warm-up of each, then `pairs` pairs. Both return the seconds that they took.
PairResult run_pairs(int pairs, const std::function<double()>& a, const std::function<double()>& b);

/// Index of the lower end of the order-statistics interval for the median of n sorted values: the
/// largest k with P(Binomial(n, 1/2) < k) <= 2.5 %. The upper end is n - 1 - k. 0 below n = 6,
/// where no such interval exists and the whole range is given.
int median_interval_low(int n);

}  // namespace troupe::apps
