#pragma once
// What `text-generation-benchmark` is asked to do, out of its options.
//
// Thread rule: values; pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "options/options.h"

namespace coxswain::measure {

struct Settings {
  std::string tokenizer_name = {};  // a folder, a tokenizer file, or a name in the hub's cache
  std::string revision = "main";
  std::vector<std::uint32_t> batch_sizes{1, 2, 4, 8, 16, 32};
  std::uint32_t sequence_length = 10;  // tokens of a prompt
  std::uint32_t decode_length = 8;     // new tokens of a sequence, at least 2
  std::uint32_t runs = 10;
  std::uint32_t warmups = 1;  // runs before these that do not count
  std::string master_shard_uds_path = "/tmp/text-generation-server-0";
  std::string shard_protocol = "auto";  // or "engine", "generate.v3"
  // Empty: off.
  std::optional<float> temperature = {};
  std::optional<std::uint32_t> top_k = {};
  std::optional<float> top_p = {};
  std::optional<float> typical_p = {};
  std::optional<float> repetition_penalty = {};
  std::optional<float> frequency_penalty = {};  // TGI's
  std::optional<std::uint32_t> top_n_tokens = {};
  bool watermark = false;
  bool do_sample = false;

  // Every parameter that draws switches drawing on, as in TGI's shards.
  SamplingParams sampling() const;
};

// REQUIRES: values of the benchmark. Errors: kInvalidArgument naming the option that is missing or wrong.
Result<Settings> settings_of(const options::OptionValues& values);

}  // namespace coxswain::measure
