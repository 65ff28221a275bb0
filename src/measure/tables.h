#pragma once
// What `text-generation-benchmark` prints: quantities of TGI's, over the runs of each batch size, as Markdown.
//
// Thread rule: values; pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "measure/batch_run.h"
#include "measure/settings.h"

namespace coxswain::measure {

// A sample for each run.
struct BatchSamples {
  std::uint32_t batch_size = 0;
  std::vector<double> prefill_ms = {};
  std::vector<double> decode_token_ms = {};  // decode_total_ms / steps
  std::vector<double> decode_total_ms = {};
  // Tokens / s: of the prompts, and of all that is new but the first ones, which are the prefill's.
  std::vector<double> prefill_throughput = {};
  std::vector<double> decode_throughput = {};
};

// REQUIRES: times.n_decode_steps > 0.
void add_run(const BatchTimes& times, const Settings& settings, BatchSamples& to);

// The least sample that `percent` of all do not exceed (nearest rank). REQUIRES: samples, 0 < percent <= 100.
double percentile(std::span<const double> samples, double percent);

std::string parameters_table(const Settings& settings);
// A row for each step and batch size; a step is named in its first row alone, as in TGI's tables.
std::string latencies_table(std::span<const BatchSamples> samples);
std::string throughputs_table(std::span<const BatchSamples> samples);

}  // namespace coxswain::measure
