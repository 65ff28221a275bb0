#pragma once
// Model: weights of any supported family and its forward pass over a ragged batch.
//
// Architecture is data: one decoder core, described by ArchSpec (arch_spec.h), filled from
// config.json by one small file per family. forward() runs any contiguous layer range on given
// hidden states, so that layers [0, k) then [k, n) equal the whole pass bit for bit (law 7).
//
// Thread rule: immutable after load; forward(), logits() and final_hidden() belong to the runner's
// thread (they share one workspace).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "base/function_ref.h"
#include "kernels/kernel_table.h"
#include "kvstore/kv_store.h"
#include "model/rope_override.h"
#include "model/weight_cache.h"
#include "model/window_limits.h"
#include "weights/image_source.h"
#include "weights/image_store.h"

namespace coxswain::model {

struct LoadOptions {
  std::string model_dir;
  // Empty = the stored type (of the tensors, not of config.json): floats as they are, codes as codes where a weight
  // format takes them, other codes as bfloat16.
  std::optional<tensor::DType> dtype;  // kF32, kBf16 or kF16
  // Linear layers only: the name of a quantised weight format to be made ("int8", "int4", "int4-g128"), or the name of
  // the form in which weights are stored ("gptq"; any other is an error), or empty.
  std::string quantize = {};
  WindowLimits windows = {};
  std::optional<RopeOverride> rope = {};  // empty = as config.json says
  const kernels::KernelTable* kernels = nullptr;
  // Ids that the tokenizer knows: the vocabulary must have a row for each. 0 = not known.
  std::size_t n_token_ids = 0;
  std::optional<TokenId> tokenizer_eos;  // the end token that the tokenizer names
  // Whose threads read and pack; null: the calling thread alone. What is loaded is the same bits.
  kernels::ExecContext* exec = nullptr;
  WeightCacheOptions cache = {};
  // Of a file that processes share packed weights in (weights/shared_image.h), not owned; -1: none. What keeps it from
  // being used is a warning.
  int shared_fd = -1;
  // Where packed weights are asked for before the cache and the checkpoint; null: nowhere. That it fails is a warning.
  std::shared_ptr<weights::ImageSource> source = nullptr;
  // Told of all images, which live as long as the model, for others that load the same; null: nobody.
  std::shared_ptr<weights::ImageStore> store = nullptr;
  // Called with bytes done and bytes in all; from the loading thread.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

// What of one part of a model is held in one format.
struct WeightShare {
  std::string part;    // "embedding", "layers", "head"
  std::string format;  // as ModelInfo::dtype; norms and biases are float32
  std::uint64_t bytes = 0;

  friend bool operator==(const WeightShare&, const WeightShare&) = default;
};

// What a load had of shared_fd.
struct SharedWeights {
  std::uint64_t bytes = 0;       // of memory, of all processes together; 0: nothing is shared
  std::uint64_t huge_bytes = 0;  // of these, in pages of 2 MiB
  bool was_filled = false;       // by another process
  double seconds = 0;            // of the load
};

struct ModelInfo {
  std::string model_type;
  // The linear layers' weight format, that of most bytes: "bfloat16", "int8", "int4" ...
  std::string dtype;
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t n_layers = 0;
  std::uint32_t max_position_embeddings = 0;
  std::vector<KvGroup> kv_groups;  // layers, kind and window filled; sizes by the store
  std::vector<kvstore::KvLayerShape> kv_layers;
  // A list in generation_config.json; otherwise its id, or config.json's, and the tokenizer's.
  std::vector<TokenId> eos_token_ids;
  std::uint32_t rope_switch_length = 0;
  bool rope_length_is_exact = false;
  // That the checkpoint is meant to be served with; empty: it says nothing.
  std::optional<tensor::DType> kv_dtype = {};
  std::uint64_t fingerprint = 0;   // of config and weights
  std::uint64_t weight_bytes = 0;  // as held in memory
  // The same by part, in the order of the parts, most bytes first. A tied embedding is read back from the head.
  std::vector<WeightShare> weight_shares = {};
  WeightCacheUse weight_cache = {};
  SharedWeights shared = {};
  std::vector<std::string> warnings;  // about the files: a line each
};

// What a load tells that has ended.
struct LoadReport {
  WeightCacheUse weight_cache = {};
  SharedWeights shared = {};
  std::vector<std::string> warnings;  // as ModelInfo::warnings
};

// How far the weights are that a model computes with: 0: nothing; n: the embedding and layers [0, n); the number of
// layers + 1: all of them.
using OnLayers = base::FunctionRef<void(std::uint32_t n)>;

// What brings the weights of a model that is there already (Model::outline()).
class ArrivingWeights {
 public:
  virtual ~ArrivingWeights() = default;
  // Called once, by any one thread; with the threads of `exec`, which may be null. Errors: those of Model::load().
  virtual Result<LoadReport> load(kernels::ExecContext* exec, OnLayers on_layers) = 0;
};

// config.json and generation_config.json are no larger.
inline constexpr std::size_t kConfigFileBytesMax = std::size_t{16} << 20;

// Bytes of all tensors of the folder's checkpoint, as stored; other files beside it do not count.
// Errors: those of weights::Checkpoint::open.
Result<std::uint64_t> stored_weight_bytes(const std::string& model_dir);

// What config.json alone says: no weights' bytes, type, end tokens or fingerprint. Errors: those of
// Model::load about that file.
Result<ModelInfo> describe_folder(const std::string& model_dir);

// The rows of one sequence inside a batch.
struct SequenceRows {
  std::size_t first_row = 0;
  std::size_t n_rows = 0;
  std::int32_t first_position = 0;
  std::uint32_t rope_length = 0;                       // SequenceSpec::rope_length
  std::vector<std::span<const BlockId>> block_tables;  // per KV group
};

struct Batch {
  std::span<const TokenId> tokens;  // [n_rows]
  std::span<const SequenceRows> sequences;
};

class Model {
 public:
  // Errors name file, tensor or key, and rule: kNotFound, kInvalidArgument, kDataLoss,
  // kUnimplemented (unknown family or feature), kResourceExhausted.
  static Result<std::unique_ptr<Model>> load(const LoadOptions& options);
  // A model without its weights, where LoadOptions::source has them; else as load(), and nothing arrives.
  struct Outline;
  static Result<Outline> outline(const LoadOptions& options);
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // Workspace for batches of up to n_rows rows and n_logit_rows sampled rows; called once before
  // the first forward().
  virtual Status reserve(std::size_t n_rows,
                         std::size_t n_logit_rows,
                         kernels::ExecContext& exec) = 0;
  virtual std::uint64_t workspace_bytes(std::size_t n_rows,
                                        std::size_t n_logit_rows,
                                        std::size_t n_threads) const = 0;

  // Runs layers [begin, end). `hidden` [n_rows, hidden_size]: input if begin > 0 (otherwise the embedding fills it),
  // always output: the residual stream after layer end - 1, before the final norm.
  virtual Status forward(const Batch& batch,
                         LayerRange layers,
                         std::span<float> hidden,
                         kvstore::KvStore& kv,
                         kernels::ExecContext& exec) = 0;

  // Final norm, head, soft cap and scale for the given rows of `hidden`: out [rows.size(), vocab_size].
  virtual Status logits(std::span<const float> hidden,
                        std::span<const std::uint32_t> rows,
                        std::span<float> out,
                        kernels::ExecContext& exec) = 0;

  // The final norm alone, what logits() begins with: out [rows.size(), hidden_size].
  virtual Status final_hidden(std::span<const float> hidden,
                              std::span<const std::uint32_t> rows,
                              std::span<float> out,
                              kernels::ExecContext& exec) = 0;
};

struct Model::Outline {
  std::unique_ptr<Model> model;
  std::unique_ptr<ArrivingWeights> weights;  // null: they are there. Else the model must outlive it
};

}  // namespace coxswain::model
