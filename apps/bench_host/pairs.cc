#include "apps/bench_host/pairs.h"

#include <algorithm>
#include <cmath>

namespace troupe::apps {
namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

int median_interval_low(int n) {
  constexpr double kTail = 0.025;
  double probability = std::exp2(-n);  // P(X = 0)
  double below = 0;
  int k = 0;
  while (below + probability <= kTail) {
    below += probability;
    probability = probability * (n - k) / (k + 1);
    ++k;
  }
  // The values are x(0..n-1); [x(k-1), x(n-k)] covers with 1 - 2 P(X < k).
  return std::max(0, k - 1);
}

PairResult run_pairs(int pairs, const std::function<double()>& a,
                     const std::function<double()>& b) {
  a();
  b();
  std::vector<double> ratios;
  std::vector<double> a_times;
  std::vector<double> b_times;
  for (int i = 0; i < pairs; ++i) {
    double a_seconds = 0;
    double b_seconds = 0;
    if (i % 2 == 0) {
      a_seconds = a();
      b_seconds = b();
    } else {
      b_seconds = b();
      a_seconds = a();
    }
    a_times.push_back(a_seconds);
    b_times.push_back(b_seconds);
    ratios.push_back(a_seconds / b_seconds);
  }
  std::sort(ratios.begin(), ratios.end());
  const auto low = static_cast<size_t>(median_interval_low(pairs));
  PairResult result;
  result.ratio = median_of(ratios);
  result.low = ratios[low];
  result.high = ratios[ratios.size() - 1 - low];
  result.a_seconds = median_of(a_times);
  result.b_seconds = median_of(b_times);
  result.pairs = pairs;
  return result;
}

}  // namespace troupe::apps
