// The results as one page without outside parts: hit ratio and prefill time saved over cache size,
// drawn as SVG, and the table below.
#include "apps/lab/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace troupe::lab {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 380;
constexpr double kLeft = 56;
constexpr double kBottom = 40;
constexpr double kTop = 16;
constexpr double kRight = 150;

std::string number(double value, int digits) {
  char text[48];
  snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

// Hues by the golden angle: neighbours in the legend differ most.
std::string colour(size_t i) {
  return "hsl(" + number(std::fmod(static_cast<double>(i) * 137.508, 360), 0) + ",65%,42%)";
}

template <class F>
std::string chart(const std::string& title, const Plan& plan, const std::vector<Result>& results,
                  F value) {
  double low = 1e300;
  double high = 0;
  for (const Size& s : plan.sizes) {
    low = std::min<double>(low, s.blocks);
    high = std::max<double>(high, s.blocks);
  }
  double most = 0;
  for (const Result& r : results) {
    most = std::max(most, r.error.empty() ? value(r) : 0);
  }
  most = most > 0 ? most : 1;
  const double span = high > low ? std::log(high / low) : 1;
  const auto x = [&](double blocks) {
    return kLeft + (kWidth - kLeft - kRight) * (high > low ? std::log(blocks / low) / span : 0.5);
  };
  const auto y = [&](double v) {
    return kHeight - kBottom - (kHeight - kBottom - kTop) * v / most;
  };
  std::string out = "<h2>" + title + "</h2>\n<svg viewBox=\"0 0 " + number(kWidth, 0) + " " +
                    number(kHeight, 0) + "\">\n";
  for (int i = 0; i <= 4; ++i) {
    const double v = most * i / 4;
    out += "<line class=g x1=\"" + number(kLeft, 0) + "\" x2=\"" + number(kWidth - kRight, 0) +
           "\" y1=\"" + number(y(v), 1) + "\" y2=\"" + number(y(v), 1) + "\"/><text x=\"8\" y=\"" +
           number(y(v) + 4, 1) + "\">" + number(100 * v, 1) + " %</text>\n";
  }
  for (const Size& s : plan.sizes) {
    out += "<text text-anchor=middle x=\"" + number(x(s.blocks), 1) + "\" y=\"" +
           number(kHeight - 14, 0) + "\">" + std::to_string(s.blocks) + "</text>\n";
  }
  for (size_t p = 0; p < plan.policies.size(); ++p) {
    std::string points;
    std::string dots;
    for (const Result& r : results) {
      if (r.policy == plan.policies[p] && r.error.empty()) {
        const std::string at = number(x(r.size.blocks), 1) + "," + number(y(value(r)), 1);
        points += at + " ";
        dots += "<circle r=3 fill=\"" + colour(p) + "\" cx=\"" + number(x(r.size.blocks), 1) +
                "\" cy=\"" + number(y(value(r)), 1) + "\"><title>" + escaped(r.policy) + " " +
                number(100 * value(r), 3) + " %</title></circle>";
      }
    }
    out += "<polyline fill=none stroke=\"" + colour(p) + "\" points=\"" + points + "\"/>" + dots +
           "<text fill=\"" + colour(p) + "\" x=\"" + number(kWidth - kRight + 10, 0) + "\" y=\"" +
           number(kTop + 12 + 15 * static_cast<double>(p), 0) + "\">" + escaped(plan.policies[p]) +
           "</text>\n";
  }
  return out + "</svg>\n";
}

}  // namespace

std::string html(const Trace& trace, const Plan& plan, const std::vector<Result>& results) {
  std::string out =
      "<!doctype html><html lang=en><meta charset=utf-8><title>troupe lab</title><style>"
      "body{font:14px sans-serif;max-width:64em;margin:2em auto}svg{width:100%;max-width:60em}"
      "text{font-size:11px}polyline{stroke-width:1.6}.g{stroke:#ddd}"
      "pre{background:#f6f6f6;padding:1em;overflow-x:auto}</style>\n<h1>Policies on " +
      escaped(trace.path) + "</h1>\n";
  out += chart("Hit ratio over cache size in blocks", plan, results,
               [](const Result& r) { return r.hit_ratio(); });
  if (plan.semantics == Semantics::kPrefix) {
    out += chart("Prefill time saved over cache size in blocks", plan, results,
                 [](const Result& r) { return r.prefill_saved; });
  }
  return out + "<pre>" + escaped(table(trace, plan, results)) + "</pre></html>\n";
}

}  // namespace troupe::lab
