#pragma once
// quantize(): makes a quantised copy of a model's folder, a layer at a time, or of a GGUF file (docs/quantize.md).
//
// Every finished layer is a file of the copy. A run that was interrupted goes on behind the last of them, if it is
// asked for the same once more.
//
// Thread rule: one thread, which uses as many as are asked for.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "quantize/stored_form.h"

namespace coxswain::quantize {

enum class Method : std::uint8_t { kRoundToNearest, kGptq, kAwq };

struct QuantizeOptions {
  std::string model_dir;
  std::string output_dir;
  Method method = Method::kGptq;
  StoredOptions stored = {};
  // "Q4_K_M": a GGUF file is made of `model_dir`, a folder or such a file, rounded to nearest. Empty: a folder, made as
  // `stored` says.
  std::string gguf_mix = {};
  std::string calibration_path = {};  // empty: the text that comes with the program
  std::string evaluation_path = {};   // likewise
  std::uint64_t samples_max = 128;
  std::uint64_t sample_tokens_max = 2048;
  std::size_t n_threads = 0;  // REQUIRES: set
};

// What is told while it goes: a line each.
using Report = std::function<void(const std::string& line)>;

// Errors name file, option or tensor: kInvalidArgument, kNotFound, kUnimplemented (models that are not quantised this
// way), kFailedPrecondition for an output folder that holds something else, kResourceExhausted.
Status quantize(const QuantizeOptions& options, const Report& report);

// Texts that come with the program.
std::string_view default_calibration_text();
std::string_view default_evaluation_text();

}  // namespace coxswain::quantize
