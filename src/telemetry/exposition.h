#pragma once
// Metric families and their text form (Prometheus text exposition format, version 0.0.4).
//
// Families are declared while one thread builds the registry; afterwards their number is fixed, and
// values may be changed and rendered from any thread. Numbers are written as the shortest text that
// reads back to the same value, so that bucket labels are those of TGI's exporter.

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "telemetry/metrics.h"

namespace coxswain::telemetry {

class BucketHistogram final : public Histogram {
 public:
  // REQUIRES: `bounds` ascend strictly.
  explicit BucketHistogram(std::vector<double> bounds);

  // NaN is dropped.
  void observe(double value) override;
  // Appends the _bucket, _sum and _count lines; `labels` without braces, may be empty.
  void render(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  const std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> counts_;  // one more than bounds_: the last is above all
  std::uint64_t total_ = 0;
  double sum_ = 0;
};

class Registry {
 public:
  // One series without labels, or further ones of the same family with `label="value"` texts. Names
  // of further series must follow each other.
  Counter& counter(std::string_view name, std::string_view help, std::string_view labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, std::string_view labels = {});
  Histogram& histogram(std::string_view name,
                       std::string_view help,
                       std::vector<double> bounds,
                       std::string_view labels = {});

  std::string render() const;

 private:
  struct Series {
    std::string labels;
    std::variant<const Counter*, const Gauge*, const BucketHistogram*> value;
  };
  struct Family {
    std::string name;
    std::string help;
    std::string_view type;
    std::vector<Series> series;
  };
  Family& family(std::string_view name, std::string_view help, std::string_view type);

  std::deque<Counter> counters_;
  std::deque<Gauge> gauges_;
  std::deque<BucketHistogram> histograms_;
  std::vector<Family> families_;
};

}  // namespace coxswain::telemetry
