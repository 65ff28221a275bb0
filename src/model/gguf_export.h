#pragma once
// A model's folder as what a GGUF file says of it: keys and tensors, as llama.cpp's converter writes them. The inverse
// of gguf_config.h, which is asked: what is made is read back, and a model that would not be the same is refused.
//
// Vocabulary and chat templates are for others to add (tokenizer/gguf_vocab_writer.h, chat/template_set.h).
//
// Thread rule: pure functions of the files.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "gguf/writer.h"
#include "model/model_files.h"

namespace coxswain::model {

// What becomes of a tensor's values on their way.
enum class GgufChange : std::uint8_t {
  kNone,
  kInterleaved,  // rows of each head, of the first half and the second, in turn
  kPlusOne,
};

struct GgufExportTensor {
  gguf::NewTensor tensor;           // its type is F32, F16 or BF16
  std::vector<std::string> stored;  // in the checkpoint; of experts one after the other
  GgufChange change = GgufChange::kNone;
  std::uint64_t head_rows = 0;  // of a head, for kInterleaved
  std::vector<float> values;    // instead of `stored`: made here
};

struct GgufExport {
  gguf::KeyList keys;
  std::vector<GgufExportTensor> tensors;
  std::vector<TokenId> end_tokens;
  std::uint32_t vocab_size = 0;  // rows of the embedding
  std::uint32_t n_layers = 0;
  std::uint32_t n_experts = 0;
};

// `name` is what the file calls the model, `tokenizer_eos` the end token that the tokenizer names.
// Errors: those of the files; kUnimplemented, naming the family or what of the model would change, for what such a file
// cannot say; kInvalidArgument, naming the tensor, for weights that are no floats.
Result<GgufExport> export_to_gguf(const std::string& model_dir,
                                  const std::string& name,
                                  std::optional<TokenId> tokenizer_eos);

}  // namespace coxswain::model
