#include "runner/step_report.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace coxswain::runner {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 96> out;
  std::snprintf(out.data(), out.size(), pattern, values...);
  return out.data();
}

}  // namespace

void StepReport::add(const StepReport& other) {
  steps += other.steps;
  positions += other.positions;
  total_s += other.total_s;
  sample_s += other.sample_s;
  for (const kernels::OperationTime& from : other.operations) {
    auto to = std::find_if(operations.begin(), operations.end(), [&](const auto& operation) {
      return operation.name == from.name;
    });
    if (to == operations.end()) {
      operations.push_back(from);
      continue;
    }
    to->calls += from.calls;
    to->seconds += from.seconds;
    to->weight_bytes += from.weight_bytes;
    to->multiply_adds += from.multiply_adds;
  }
}

double StepReport::rest_s() const {
  double rest = total_s - sample_s;
  for (const kernels::OperationTime& operation : operations) rest -= operation.seconds;
  return std::max(rest, 0.0);
}

std::string StepReport::text() const {
  const double n = static_cast<double>(std::max<std::uint64_t>(steps, 1));
  std::string out = "Profile of " + std::to_string(steps) + " steps, " +
                    format("%.3f ms and %.1f positions each:",
                           total_s / n * 1e3,
                           static_cast<double>(positions) / n);
  struct Part {
    std::string name;
    double seconds;
    std::string rates;
  };
  std::vector<Part> parts;
  parts.reserve(operations.size() + 2);
  for (const kernels::OperationTime& operation : operations) {
    std::string rates;
    if (operation.weight_bytes > 0 && operation.seconds > 0) {
      rates = format(", %.1f GB/s, %.3f T multiply-adds/s",
                     operation.weight_bytes / operation.seconds / 1e9,
                     operation.multiply_adds / operation.seconds / 1e12);
    }
    parts.push_back({operation.name, operation.seconds, std::move(rates)});
  }
  parts.push_back({"sampling", sample_s, ""});
  parts.push_back({"rest", rest_s(), ""});
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.seconds > b.seconds;
  });
  const char* separator = " ";
  for (const Part& part : parts) {
    out += separator + part.name +
           format(" %.1f %% (%.3f ms",
                  100 * part.seconds / std::max(total_s, 1e-9),
                  part.seconds / n * 1e3) +
           part.rates + ")";
    separator = "; ";
  }
  return out;
}

}  // namespace coxswain::runner
