#include "quantize/layer_walk.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/layer.h"
#include "model/weight_loader.h"

namespace coxswain::quantize {
namespace {

constexpr std::uint32_t kBlockTokens = 16;
// Checkpoints may be stored as codes, a piece for each tensor.
constexpr model::LinearLimits kLimits{.n_pieces = model::kLinearPiecesMax, .n_forms = 1};

}  // namespace

Result<std::unique_ptr<LayerWalk>> LayerWalk::begin(const model::Architecture& architecture,
                                                    const weights::Checkpoint& source,
                                                    const Samples& samples,
                                                    const kernels::KernelTable& table,
                                                    kernels::ExecContext& exec) {
  std::size_t longest = 0;
  for (const auto& sample : samples) longest = std::max(longest, sample.size());
  const model::ModelInfo info = model::describe(architecture.arch);
  const auto n_blocks = static_cast<std::uint32_t>((longest + kBlockTokens - 1) / kBlockTokens);
  kvstore::KvStoreOptions store;
  store.type = tensor::DType::kF32;
  store.block_tokens = kBlockTokens;
  store.n_blocks.assign(info.kv_groups.size(), n_blocks);
  store.layers = info.kv_layers;
  COXSWAIN_ASSIGN_OR_RETURN(kvstore::KvStore made, kvstore::KvStore::create(store));
  std::unique_ptr<LayerWalk> out(
      new LayerWalk(architecture, samples, table, exec, std::move(made)));
  out->blocks_.resize(n_blocks);
  std::iota(out->blocks_.begin(), out->blocks_.end(), BlockId{0});
  COXSWAIN_RETURN_IF_ERROR(out->embed(source, longest));
  return out;
}

model::StepContext LayerWalk::step_of(std::size_t n_rows, const model::LinearObserver* observer) {
  return {table_, exec_, work_, architecture_.arch.hidden_size, n_rows, ropes_.tables(), observer};
}

model::SequenceRows LayerWalk::place(std::size_t n_rows) {
  std::iota(
      work_.positions.begin(), work_.positions.begin() + static_cast<std::ptrdiff_t>(n_rows), 0);
  work_.sequences.assign(1, {0, n_rows, 0, blocks_});
  model::SequenceRows out;
  out.n_rows = n_rows;
  out.rope_length = static_cast<std::uint32_t>(n_rows);
  return out;
}

Status LayerWalk::embed(const weights::Checkpoint& source, std::size_t longest) {
  const model::ArchSpec& arch = architecture_.arch;
  const model::TensorMap& tensors = architecture_.tensors;
  model::WeightLoader loader(source, tensors.prefixes, table_, {}, &exec_);
  const model::BlockLoad how{loader, kernels::formats::kFloat32};
  COXSWAIN_ASSIGN_OR_RETURN(
      const model::Embedding embedding,
      model::Embedding::load(how, arch.embedding, tensors.embedding, tensor::DType::kF32, true));
  COXSWAIN_ASSIGN_OR_RETURN(
      work_, model::Workspace::create(arch, {longest, 1, exec_.n_threads(), kLimits}));
  ropes_.place(arch, work_);
  for (const auto& sample : samples_) {
    place(sample.size());
    hidden_.emplace_back(sample.size() * arch.hidden_size);
    embedding.run(step_of(sample.size(), nullptr),
                  work_.room,
                  sample,
                  model::Linear(),
                  hidden_.back().data());
  }
  return {};
}

Status LayerWalk::run(std::size_t index,
                      const weights::Checkpoint& checkpoint,
                      const model::LinearObserver* observer) {
  const model::TensorMap& tensors = architecture_.tensors;
  model::WeightLoader loader(checkpoint, tensors.prefixes, table_, {}, &exec_);
  COXSWAIN_ASSIGN_OR_RETURN(const model::Layer layer,
                            model::Layer::load({loader, kernels::formats::kFloat32},
                                               architecture_.arch.layers[index],
                                               tensors.layers[index]));
  std::vector<float> passed;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const std::size_t n_rows = samples_[i].size();
    const model::SequenceRows rows = place(n_rows);
    const model::StepContext step = step_of(n_rows, observer);
    ropes_.fill(step, {&rows, 1});
    passed = hidden_[i];
    layer.run(
        step, architecture_.arch, store_.layer(static_cast<std::uint32_t>(index)), passed.data());
    if (observer == nullptr) hidden_[i].swap(passed);
  }
  return {};
}

Status LayerWalk::look(std::size_t index,
                       const weights::Checkpoint& checkpoint,
                       const model::LinearObserver& observer) {
  return run(index, checkpoint, &observer);
}

Status LayerWalk::pass(std::size_t index, const weights::Checkpoint& checkpoint) {
  return run(index, checkpoint, nullptr);
}

}  // namespace coxswain::quantize
