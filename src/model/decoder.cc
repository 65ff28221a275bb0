#include "model/decoder.h"

#include <string>
#include <utility>

#include "model/config_reader.h"

namespace coxswain::model {

Decoder::Decoder(ArchSpec arch,
                 DecoderWeights weights,
                 ModelInfo info,
                 const kernels::KernelTable& table)
    : arch_(std::move(arch)),
      weights_(std::move(weights)),
      info_(std::move(info)),
      kernels_(table),
      ropes_(arch_) {}

Status Decoder::reserve(std::size_t n_rows, std::size_t n_logit_rows, kernels::ExecContext& exec) {
  COXSWAIN_ASSIGN_OR_RETURN(
      work_, Workspace::create(arch_, {n_rows, n_logit_rows, exec.n_threads(), weights_.linear}));
  ropes_.place(arch_, work_);
  return {};
}

std::uint64_t Decoder::workspace_bytes(std::size_t n_rows,
                                       std::size_t n_logit_rows,
                                       std::size_t n_threads) const {
  return Workspace::bytes(arch_, {n_rows, n_logit_rows, n_threads, weights_.linear});
}

// A block table is outside data as far as the model is concerned: nothing is read or written out of the cache's blocks.
Status Decoder::check_blocks(const SequenceRows& rows, const kvstore::KvStore& kv) const {
  const std::size_t block_tokens = kv.options().block_tokens;
  const auto first = static_cast<std::size_t>(rows.first_position);
  const std::size_t end = first + rows.n_rows;
  for (std::size_t g = 0; g < info_.kv_groups.size(); ++g) {
    const std::span<const BlockId> blocks = rows.block_tables[g];
    if (blocks.size() * block_tokens < end) {
      return internal_error("block table of " + std::to_string(blocks.size()) + " blocks for " +
                            std::to_string(end) + " positions");
    }
    const KvGroup& group = info_.kv_groups[g];
    // The first position that the first row sees.
    const bool windowed = group.kind == KvGroup::Kind::kWindow && first + 1 > group.window;
    const std::size_t visible = windowed ? first + 1 - group.window : 0;
    for (std::size_t b = 0; b * block_tokens < end; ++b) {
      const bool seen = b >= visible / block_tokens || b * block_tokens < group.sink_tokens;
      if (!seen && blocks[b] == kReleasedBlock) continue;
      if (blocks[b] >= kv.options().n_blocks[g])
        return internal_error("block id " + std::to_string(blocks[b]) + " is out of range");
    }
  }
  return {};
}

Status Decoder::check_batch(const Batch& batch,
                            LayerRange layers,
                            std::span<const float> hidden,
                            const kvstore::KvStore& kv,
                            const kernels::ExecContext& exec) const {
  const std::size_t n_rows = batch.tokens.size();
  if (n_rows > work_.sizes.n_rows || exec.n_threads() > work_.sizes.n_threads) {
    return internal_error("batch of " + std::to_string(n_rows) + " rows and " +
                          std::to_string(exec.n_threads()) + " threads is larger than reserved");
  }
  if (layers.begin > layers.end || layers.end > arch_.n_layers())
    return internal_error("layer range out of range");
  if (hidden.size() != n_rows * arch_.hidden_size)
    return internal_error("hidden states do not fit the batch");
  if (kv.options().n_blocks.size() != info_.kv_groups.size() ||
      kv.options().layers.size() != arch_.layers.size()) {
    return internal_error("the KV store is not this model's");
  }
  std::size_t row = 0;
  for (const SequenceRows& rows : batch.sequences) {
    if (rows.first_row != row || rows.n_rows == 0 || rows.n_rows > n_rows - row ||
        rows.first_position < 0) {
      return internal_error("the rows of the sequences do not follow each other");
    }
    row += rows.n_rows;
    const std::uint64_t end = static_cast<std::uint64_t>(rows.first_position) + rows.n_rows;
    const std::uint64_t limit = arch_.embedding.n_positions == 0
                                    ? kPositionsMax
                                    : arch_.embedding.n_positions - arch_.embedding.position_offset;
    if (end > limit)
      return invalid_argument("position " + std::to_string(end - 1) + " is beyond the model's " +
                              std::to_string(limit));
    if (rows.block_tables.size() != info_.kv_groups.size())
      return internal_error("one block table for each KV group is needed");
    COXSWAIN_RETURN_IF_ERROR(check_blocks(rows, kv));
  }
  if (row != n_rows) return internal_error("the rows of the sequences do not cover the tokens");
  for (const TokenId token : batch.tokens) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= arch_.vocab_size) {
      return invalid_argument("token id " + std::to_string(token) +
                              " is outside the vocabulary of " + std::to_string(arch_.vocab_size));
    }
  }
  return {};
}

StepContext Decoder::step_of(std::size_t n_rows, kernels::ExecContext& exec) {
  return {kernels_, exec, work_, arch_.hidden_size, n_rows, ropes_.tables()};
}

// The rows of each sequence with its blocks of a KV group.
void Decoder::place_sequences(const Batch& batch, std::size_t group) {
  work_.sequences.clear();
  for (const SequenceRows& rows : batch.sequences)
    work_.sequences.push_back(
        {rows.first_row, rows.n_rows, rows.first_position, rows.block_tables[group]});
}

Status Decoder::forward(const Batch& batch,
                        LayerRange layers,
                        std::span<float> hidden,
                        kvstore::KvStore& kv,
                        kernels::ExecContext& exec) {
  if (layers.begin == 0 && layers.end == 0) layers.end = arch_.n_layers();
  COXSWAIN_RETURN_IF_ERROR(check_batch(batch, layers, hidden, kv, exec));
  if (batch.tokens.empty()) return {};
  for (const SequenceRows& rows : batch.sequences) {
    for (std::size_t i = 0; i < rows.n_rows; ++i)
      work_.positions[rows.first_row + i] = rows.first_position + static_cast<std::int32_t>(i);
  }
  const StepContext step = step_of(batch.tokens.size(), exec);
  if (layers.begin == 0)
    weights_.embedding.run(step, work_.room, batch.tokens, weights_.head.matrix(), hidden.data());
  ropes_.fill(step, batch.sequences);
  std::size_t placed = info_.kv_groups.size();  // the group whose blocks are in work_.sequences
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
    const std::size_t group = info_.kv_layers[i].group;
    if (group != placed) place_sequences(batch, group);
    placed = group;
    weights_.layers[i].run(step, arch_, kv.layer(i), hidden.data());
  }
  return {};
}

Status Decoder::check_rows(std::span<const float> hidden,
                           std::span<const std::uint32_t> rows,
                           const kernels::ExecContext& exec) const {
  if (rows.size() > work_.sizes.n_logit_rows || exec.n_threads() > work_.sizes.n_threads) {
    return internal_error("logits of " + std::to_string(rows.size()) +
                          " rows are more than reserved");
  }
  for (const std::uint32_t row : rows) {
    if ((std::size_t{row} + 1) * arch_.hidden_size > hidden.size())
      return internal_error("a row of the logits is outside the hidden states");
  }
  return {};
}

Status Decoder::final_hidden(std::span<const float> hidden,
                             std::span<const std::uint32_t> rows,
                             std::span<float> out,
                             kernels::ExecContext& exec) {
  COXSWAIN_RETURN_IF_ERROR(check_rows(hidden, rows, exec));
  if (out.size() != rows.size() * arch_.hidden_size)
    return internal_error("room for hidden states does not fit the rows");
  if (!rows.empty()) weights_.head.normed(step_of(rows.size(), exec), hidden, rows, out.data());
  return {};
}

Status Decoder::project(std::span<const float> normed,
                        std::span<float> out,
                        kernels::ExecContext& exec) {
  const std::size_t n = normed.size() / arch_.hidden_size;
  if (n > work_.sizes.n_logit_rows || out.size() != n * arch_.vocab_size)
    return internal_error("logits of " + std::to_string(n) + " rows are more than reserved");
  weights_.head.project(step_of(n, exec), work_.room, normed, out);
  return {};
}

Status Decoder::logits(std::span<const float> hidden,
                       std::span<const std::uint32_t> rows,
                       std::span<float> out,
                       kernels::ExecContext& exec) {
  COXSWAIN_RETURN_IF_ERROR(check_rows(hidden, rows, exec));
  if (out.size() != rows.size() * arch_.vocab_size)
    return internal_error("room for logits does not fit the rows");
  if (rows.empty()) return {};
  weights_.head.run(step_of(rows.size(), exec), work_.room, hidden, rows, out);
  return {};
}

}  // namespace coxswain::model
