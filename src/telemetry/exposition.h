#pragma once
// Metric families and their text forms: Prometheus text exposition format, version 0.0.4, and OpenMetrics 1.0.
//
// In OpenMetrics a counter's samples end in _total. A family whose name does not, as those of TGI, is of type unknown
// there, so that a series has one name whatever its reader asks for (docs/adr/0110).
//
// Families are declared while one thread builds the registry; afterwards their number is fixed, and values may
// be changed and rendered from any thread: counters and gauges are one atomic each, histograms take a short
// lock of their own. Numbers are written as the shortest text that reads back to the same value, so that
// bucket labels are those of TGI's exporter.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "telemetry/trace.h"

namespace coxswain::telemetry {

enum class TextFormat : std::uint8_t { kPrometheus, kOpenMetrics };

class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {
 public:
  void set(double v) { value_.store(v, std::memory_order_relaxed); }
  void add(double v) { value_.fetch_add(v, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// One of several whose sum a gauge shows; nobody else sets that gauge. Whole numbers, so that the sum is exact.
class GaugePart {
 public:
  explicit GaugePart(Gauge& sum) : sum_(sum) {}
  GaugePart(const GaugePart&) = delete;
  GaugePart& operator=(const GaugePart&) = delete;

  void set(double v) {
    const double before = value_.exchange(v, std::memory_order_relaxed);
    if (before != v) sum_.add(v - before);
  }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  Gauge& sum_;
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  // REQUIRES: `bounds` ascend strictly.
  explicit Histogram(std::vector<double> bounds);

  // NaN is dropped. `trace`: of the request, kept as the exemplar of its bucket until the next one; null: none.
  void observe(double value, const TraceId* trace = nullptr);
  // Appends the _bucket, _sum and _count lines; `labels` without braces, may be empty.
  void render(std::string& out,
              std::string_view name,
              std::string_view labels,
              TextFormat format = TextFormat::kPrometheus) const;

 private:
  struct Exemplar {
    TraceId trace{};
    double value = 0;
    double at = 0;  // seconds since 1970; 0: there is none
  };

  const std::vector<double> bounds_;
  mutable base::Mutex mutex_;
  // One more than bounds_: the last is above all.
  std::vector<std::uint64_t> counts_ GUARDED_BY(mutex_);
  std::uint64_t total_ GUARDED_BY(mutex_) = 0;
  double sum_ GUARDED_BY(mutex_) = 0;
  std::vector<Exemplar> exemplars_ GUARDED_BY(mutex_);  // by bucket; empty until the first comes
};

class Registry {
 public:
  // One series without labels, or one of several of a family, with a `label="value"` text. The series of a
  // family follow each other. References stay valid as long as this object.
  Counter& counter(std::string_view name, std::string_view help, std::string_view labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, std::string_view labels = {});
  Histogram& histogram(std::string_view name,
                       std::string_view help,
                       std::vector<double> bounds,
                       std::string_view labels = {});

  // What others have, under further names. What is named must outlive this; a function may be called from any thread.
  void alias(std::string_view name,
             std::string_view help,
             const Histogram& histogram,
             std::string_view labels);
  // `type`: a constant, "counter" or "gauge".
  void computed(std::string_view name,
                std::string_view help,
                std::string_view type,
                std::function<double()> value,
                std::string_view labels);

  // Without the "# EOF" that ends a page of OpenMetrics: others may follow.
  std::string render(TextFormat format = TextFormat::kPrometheus) const;

 private:
  struct Series {
    std::string labels;
    std::variant<const Counter*, const Gauge*, const Histogram*, std::function<double()>> value;
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
  std::deque<Histogram> histograms_;
  std::vector<Family> families_;
};

}  // namespace coxswain::telemetry
