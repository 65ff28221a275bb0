#include "telemetry/exposition.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
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
                   const std::string& value,
                   const std::string& exemplar = {}) {
  out += name;
  if (!labels.empty()) out.append("{").append(labels).append("}");
  out.append(" ").append(value).append(exemplar).append("\n");
}

double seconds_since_epoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) /
         1000;
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value, const TraceId* trace) {
  if (std::isnan(value)) return;
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  const base::MutexLock lock(mutex_);
  ++counts_[static_cast<std::size_t>(bucket)];
  ++total_;
  sum_ += value;
  if (trace == nullptr) return;
  exemplars_.resize(counts_.size());
  exemplars_[static_cast<std::size_t>(bucket)] = {*trace, value, seconds_since_epoch()};
}

void Histogram::render(std::string& out,
                       std::string_view name,
                       std::string_view labels,
                       TextFormat format) const {
  std::vector<std::uint64_t> counts;
  std::vector<Exemplar> exemplars;
  std::uint64_t total = 0;
  double sum = 0;
  {
    const base::MutexLock lock(mutex_);
    counts = counts_;
    total = total_;
    sum = sum_;
    if (format == TextFormat::kOpenMetrics) exemplars = exemplars_;
  }
  const auto exemplar_of = [&](std::size_t bucket) -> std::string {
    if (exemplars.empty() || exemplars[bucket].at == 0) return {};
    const Exemplar& e = exemplars[bucket];
    return " # {trace_id=\"" + to_text(e.trace) + "\"} " + number_text(e.value) + " " +
           number_text(e.at);
  };
  const std::string prefix = labels.empty() ? "" : std::string(labels) + ",";
  const std::string bucket_name = std::string(name) + "_bucket";
  std::uint64_t running = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    running += counts[i];
    append_sample(out,
                  bucket_name,
                  prefix + "le=\"" + number_text(bounds_[i]) + "\"",
                  std::to_string(running),
                  exemplar_of(i));
  }
  append_sample(
      out, bucket_name, prefix + "le=\"+Inf\"", std::to_string(total), exemplar_of(bounds_.size()));
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

void Registry::alias(std::string_view name,
                     std::string_view help,
                     const Histogram& histogram,
                     std::string_view labels) {
  family(name, help, "histogram").series.push_back({std::string(labels), &histogram});
}

void Registry::computed(std::string_view name,
                        std::string_view help,
                        std::string_view type,
                        std::function<double()> value,
                        std::string_view labels) {
  family(name, help, type).series.push_back({std::string(labels), std::move(value)});
}

std::string Registry::render(TextFormat format) const {
  constexpr std::string_view kTotal = "_total";
  const bool open = format == TextFormat::kOpenMetrics;
  std::string out;
  for (const Family& family : families_) {
    std::string_view name = family.name;
    std::string_view type = family.type;
    if (open && type == "counter") {
      if (name.ends_with(kTotal)) {
        name.remove_suffix(kTotal.size());
      } else {
        type = "unknown";
      }
    }
    out.append("# HELP ").append(name).append(" ").append(family.help).append("\n");
    out.append("# TYPE ").append(name).append(" ").append(type).append("\n");
    for (const Series& series : family.series) {
      if (const auto* counter = std::get_if<const Counter*>(&series.value)) {
        append_sample(out, family.name, series.labels, std::to_string((*counter)->value()));
      } else if (const auto* gauge = std::get_if<const Gauge*>(&series.value)) {
        append_sample(out, family.name, series.labels, number_text((*gauge)->value()));
      } else if (const auto* value = std::get_if<std::function<double()>>(&series.value)) {
        append_sample(out, family.name, series.labels, number_text((*value)()));
      } else {
        std::get<const Histogram*>(series.value)->render(out, family.name, series.labels, format);
      }
    }
    if (!open) out += '\n';
  }
  return out;
}

}  // namespace coxswain::telemetry
