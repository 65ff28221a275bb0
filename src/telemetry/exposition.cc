#include "telemetry/exposition.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace coxswain::telemetry {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  // The longest double in fixed form has 310 digits before the point.
  std::array<char, 400> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return {buffer.data(), result.ptr};
}

void append_sample(std::string& out,
                   std::string_view name,
                   std::string_view labels,
                   const std::string& value) {
  out += name;
  if (!labels.empty()) out.append("{").append(labels).append("}");
  out.append(" ").append(value).append("\n");
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value) {
  if (std::isnan(value)) return;
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  const base::MutexLock lock(mutex_);
  ++counts_[static_cast<std::size_t>(bucket)];
  ++total_;
  sum_ += value;
}

void Histogram::render(std::string& out, std::string_view name, std::string_view labels) const {
  std::vector<std::uint64_t> counts;
  std::uint64_t total = 0;
  double sum = 0;
  {
    const base::MutexLock lock(mutex_);
    counts = counts_;
    total = total_;
    sum = sum_;
  }
  const std::string prefix = labels.empty() ? "" : std::string(labels) + ",";
  const std::string bucket_name = std::string(name) + "_bucket";
  std::uint64_t running = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    running += counts[i];
    append_sample(out,
                  bucket_name,
                  prefix + "le=\"" + number_text(bounds_[i]) + "\"",
                  std::to_string(running));
  }
  append_sample(out, bucket_name, prefix + "le=\"+Inf\"", std::to_string(total));
  append_sample(out, std::string(name) + "_sum", labels, number_text(sum));
  append_sample(out, std::string(name) + "_count", labels, std::to_string(total));
}

Registry::Family& Registry::family(std::string_view name,
                                   std::string_view help,
                                   std::string_view type) {
  if (families_.empty() || families_.back().name != name) {
    families_.push_back({std::string(name), std::string(help), type, {}});
  }
  return families_.back();
}

Counter& Registry::counter(std::string_view name, std::string_view help, std::string_view labels) {
  Counter& made = counters_.emplace_back();
  family(name, help, "counter").series.push_back({std::string(labels), &made});
  return made;
}

Gauge& Registry::gauge(std::string_view name, std::string_view help, std::string_view labels) {
  Gauge& made = gauges_.emplace_back();
  family(name, help, "gauge").series.push_back({std::string(labels), &made});
  return made;
}

Histogram& Registry::histogram(std::string_view name,
                               std::string_view help,
                               std::vector<double> bounds,
                               std::string_view labels) {
  Histogram& made = histograms_.emplace_back(std::move(bounds));
  family(name, help, "histogram").series.push_back({std::string(labels), &made});
  return made;
}

std::string Registry::render() const {
  std::string out;
  for (const Family& family : families_) {
    out.append("# HELP ").append(family.name).append(" ").append(family.help).append("\n");
    out.append("# TYPE ").append(family.name).append(" ").append(family.type).append("\n");
    for (const Series& series : family.series) {
      if (const auto* counter = std::get_if<const Counter*>(&series.value)) {
        append_sample(out, family.name, series.labels, std::to_string((*counter)->value()));
      } else if (const auto* gauge = std::get_if<const Gauge*>(&series.value)) {
        append_sample(out, family.name, series.labels, number_text((*gauge)->value()));
      } else {
        std::get<const Histogram*>(series.value)->render(out, family.name, series.labels);
      }
    }
    out += '\n';
  }
  return out;
}

}  // namespace coxswain::telemetry
