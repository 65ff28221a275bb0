#pragma once
// The architectures of GGUF files that families compute, and their names of tensors: one table for reading and writing.
//
// Names: gguf-py's constants.py and tensor_mapping.py, the list that converters use.
//
// Thread rule: constants and pure functions.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "weights/gguf_file.h"

namespace coxswain::model {

// In the file, in the checkpoint.
using GgufNamePair = std::pair<std::string_view, std::string_view>;

// One architecture of the files, and the family that computes it.
struct GgufArchitecture {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // of the family
  // Families that are written as this one, too: what they have beyond it stands in keys, or is not used.
  std::array<std::string_view, 2> also_written = {};
  // Names of a layer's parts that are others than most architectures have, or are not there.
  std::span<const GgufNamePair> layer_names = {};
  // Rows of q and k stand as interleaved pairs, where the checkpoint has them in halves.
  bool interleaves = false;
  bool adds_norm_offset = false;  // norms that the family stores as weight - 1 are whole here
};

std::span<const GgufArchitecture> gguf_architectures();
// Null: the family cannot be written.
const GgufArchitecture* gguf_architecture_of(std::string_view model_type);

// Tensors whose values go into the config.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";
inline constexpr std::string_view kGgufLongFactors = "rope_factors_long.weight";
inline constexpr std::string_view kGgufShortFactors = "rope_factors_short.weight";

weights::GgufName name_in_checkpoint(const GgufArchitecture& architecture, std::string_view name);

// Where a tensor of the checkpoint goes.
struct GgufPlace {
  std::string name = {};                     // empty: the architecture has no such tensor
  std::string_view part = {};                // of a layer: "attn_q"
  std::optional<std::uint64_t> expert = {};  // its place in the tensor of all experts
};
// The inverse of name_in_checkpoint(); `name` with "model." before it.
GgufPlace place_in_gguf(const GgufArchitecture& architecture, std::string_view name);

}  // namespace coxswain::model
