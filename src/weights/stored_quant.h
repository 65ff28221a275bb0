#pragma once
// StoredQuant: how the linear layers of a checkpoint are stored quantised, as its config says
// (model/stored_quant_config.h), and derive_tensors(), which gives the checkpoint their values as tensors.
//
// Bit layouts, one file each in quant/: the sources that define them are named there.
//
// Thread rule: values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::weights {

class Checkpoint;

enum class StoredMethod : std::uint8_t {
  kNone,
  kGptq,
  kAwq,
  kMarlin,
  kExl2,
  kCompressedTensors,
  kFp8,
  kBitsandbytes,
  kMxfp4,
};

std::string_view name_of(StoredMethod method);  // as quant_method spells it

// compressed-tensors: how the weights of some modules are stored.
struct StoredGroup {
  bool is_packed = false;  // several codes in an int32; otherwise a byte each
  bool is_float = false;   // e4m3fn
  bool symmetric = true;   // without zero points
  std::uint32_t bits = 0;
  std::uint64_t group_size = 0;  // inputs that share a scale; 0 = all of an output
  // Blocks of [block_rows, block_inputs] share a scale; 0 = they do not.
  std::uint64_t block_rows = 0;
  std::uint64_t block_inputs = 0;
};

struct StoredQuant {
  StoredMethod method = StoredMethod::kNone;
  std::uint32_t bits = 0;        // of a weight: gptq, awq, bitsandbytes
  std::uint64_t group_size = 0;  // inputs that share a scale; 0 = all of an output
  bool zeros_less_one = false;   // gptq: the first form of the format
  std::uint64_t block_rows = 0;  // fp8, as in StoredGroup
  std::uint64_t block_inputs = 0;
  std::string code;                 // bitsandbytes in 4 bits: "nf4", "fp4"
  std::vector<StoredGroup> groups;  // compressed-tensors
  bool float8_cache = false;        // keys and values are meant to be kept as e4m3fn
  // Modules that are stored plainly: parts of names between dots, or several; * stands for anything.
  std::vector<std::string> plain_modules;
};

// Whether `patterns` names the module: "lm_head", "down_proj" and "model.layers.*.mlp" name all modules with these
// words in this order in their names. "re:" begins a regular expression; of these only anchors, escaped dots and ".*"
// are understood, others name nothing.
bool names_module(const std::vector<std::string>& patterns, std::string_view module);

// Adds a derived tensor for every module that is stored quantised. Errors name the tensor: parts that are missing,
// too many, or have shapes that contradict each other or `quant`; modules that should be plain; and no module at all.
Status derive_tensors(const StoredQuant& quant, Checkpoint& checkpoint);

}  // namespace coxswain::weights
