#include "measure/tables.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string_view>

namespace coxswain::measure {
namespace {

using Row = std::vector<std::string>;
using Samples = std::vector<double> BatchSamples::*;

// Columns as wide as their widest cell, to the left.
std::string markdown(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out += "| " + row[i] + std::string(widths[i] - row[i].size() + 1, ' ');
    out += "|\n";
    if (&row != rows.data()) continue;
    for (const std::size_t width : widths) out += "|" + std::string(width + 2, '-');
    out += "|\n";
  }
  return out;
}

std::string fixed(double value, std::string_view unit) {
  std::array<char, 64> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, 2);
  return std::string(text.data(), end.ptr) + " " + std::string(unit);
}

// As Rust writes a float, which always has a point.
std::string debug(float value) {
  std::array<char, 64> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  std::string out(text.data(), end.ptr);
  return out.find('.') == std::string::npos ? out + ".0" : out;
}
std::string debug(std::uint32_t value) {
  return std::to_string(value);
}
template <typename T>
std::string debug(const std::optional<T>& value) {
  return value ? "Some(" + debug(*value) + ")" : "None";
}
std::string debug(bool value) {
  return value ? "true" : "false";
}

double mean(const std::vector<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

void add_rows(std::string_view step,
              Samples of,
              std::string_view unit,
              std::span<const double> percents,
              std::span<const BatchSamples> samples,
              std::vector<Row>& to) {
  for (const BatchSamples& batch : samples) {
    const std::vector<double>& values = batch.*of;
    const auto [lowest, highest] = std::ranges::minmax(values);
    Row row{&batch == samples.data() ? std::string(step) : "",
            std::to_string(batch.batch_size),
            fixed(mean(values), unit),
            fixed(lowest, unit),
            fixed(highest, unit)};
    for (const double percent : percents) row.push_back(fixed(percentile(values, percent), unit));
    to.push_back(std::move(row));
  }
}

}  // namespace

void add_run(const BatchTimes& times, const Settings& settings, BatchSamples& to) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  using Seconds = std::chrono::duration<double>;
  const double prefill_tokens = static_cast<double>(to.batch_size) * settings.sequence_length;
  const double decode_tokens = static_cast<double>(to.batch_size) * (settings.decode_length - 1);
  const double decode_ms = Milliseconds(times.decode).count();
  to.prefill_ms.push_back(Milliseconds(times.prefill).count());
  to.decode_total_ms.push_back(decode_ms);
  to.decode_token_ms.push_back(decode_ms / times.n_decode_steps);
  to.prefill_throughput.push_back(prefill_tokens / Seconds(times.prefill).count());
  to.decode_throughput.push_back(decode_tokens / Seconds(times.decode).count());
}

double percentile(std::span<const double> samples, double percent) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  const auto rank =
      static_cast<std::size_t>(std::ceil(percent * static_cast<double>(sorted.size()) / 100.0));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

std::string parameters_table(const Settings& settings) {
  return markdown({
      {"Parameter", "Value"},
      {"Model", settings.tokenizer_name},
      {"Sequence Length", debug(settings.sequence_length)},
      {"Decode Length", debug(settings.decode_length)},
      {"Top N Tokens", debug(settings.top_n_tokens)},
      {"N Runs", debug(settings.runs)},
      {"Warmups", debug(settings.warmups)},
      {"Temperature", debug(settings.temperature)},
      {"Top K", debug(settings.top_k)},
      {"Top P", debug(settings.top_p)},
      {"Typical P", debug(settings.typical_p)},
      {"Repetition Penalty", debug(settings.repetition_penalty)},
      {"Frequency Penalty", debug(settings.frequency_penalty)},
      {"Watermark", debug(settings.watermark)},
      {"Do Sample", debug(settings.do_sample)},
  });
}

std::string latencies_table(std::span<const BatchSamples> samples) {
  constexpr std::array kPercents{50.0, 90.0, 99.0};
  std::vector<Row> rows{
      {"Step", "Batch Size", "Average", "Lowest", "Highest", "p50", "p90", "p99"}};
  add_rows("Prefill", &BatchSamples::prefill_ms, "ms", kPercents, samples, rows);
  add_rows("Decode (token)", &BatchSamples::decode_token_ms, "ms", kPercents, samples, rows);
  add_rows("Decode (total)", &BatchSamples::decode_total_ms, "ms", kPercents, samples, rows);
  return markdown(rows);
}

std::string throughputs_table(std::span<const BatchSamples> samples) {
  std::vector<Row> rows{{"Step", "Batch Size", "Average", "Lowest", "Highest"}};
  add_rows("Prefill", &BatchSamples::prefill_throughput, "tokens/secs", {}, samples, rows);
  add_rows("Decode", &BatchSamples::decode_throughput, "tokens/secs", {}, samples, rows);
  return markdown(rows);
}

}  // namespace coxswain::measure
