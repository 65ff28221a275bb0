#include "model/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "model/rope.h"

namespace coxswain::model {

void StepContext::linear(
    const Linear& w, ConstRows x, float* y, std::size_t m, bool accumulate) const {
  kernels::LinearArgs args;
  args.w = &w.matrix;
  args.x = x.data;
  args.x_stride = x.stride == 0 ? w.matrix.k : x.stride;
  args.y = y;
  args.y_stride = w.matrix.n;
  args.m = m;
  args.bias = w.bias.empty() ? nullptr : w.bias.data();
  args.accumulate = accumulate;
  args.scratch = work.linear_scratch;
  kernels.linear[static_cast<std::size_t>(w.matrix.type)](pool, args);
}

void StepContext::norm(const NormSpec& spec,
                       const NormWeights& w,
                       const float* x,
                       float* y,
                       std::size_t m,
                       std::size_t width) const {
  kernels::NormArgs args;
  args.x = x;
  args.x_stride = width;
  args.y = y;
  args.y_stride = width;
  args.m = m;
  args.n = width;
  args.weight = w.weight.empty() ? nullptr : w.weight.data();
  args.bias = w.bias.empty() ? nullptr : w.bias.data();
  args.epsilon = spec.epsilon;
  args.weight_offset = spec.weight_offset;
  (spec.kind == NormKind::kRms ? kernels.rms_norm : kernels.layer_norm)(pool, args);
}

void StepContext::add(const float* a, float* y, float alpha) const {
  kernels::AddArgs args;
  args.a = a;
  args.a_stride = arch.hidden_size;
  args.y = y;
  args.y_stride = arch.hidden_size;
  args.m = n_rows;
  args.n = arch.hidden_size;
  args.alpha = alpha;
  kernels.add(pool, args);
}

Decoder::Decoder(ArchSpec arch,
                 DecoderWeights weights,
                 ModelInfo info,
                 const kernels::KernelTable& table)
    : arch_(std::move(arch)),
      weights_(std::move(weights)),
      info_(std::move(info)),
      kernels_(table) {
  for (const RopeSpec& rope : arch_.ropes) {
    Frequencies& both = frequencies_.emplace_back();
    both.within.resize(rope.rotary_dim / 2);
    both.beyond.resize(rope.rotary_dim / 2);
    rope_frequencies(rope, 0, both.within);
    rope_frequencies(rope, kPositionsMax, both.beyond);
  }
}

Status Decoder::reserve(std::size_t n_rows, std::size_t n_logit_rows, base::ThreadPool& pool) {
  COXSWAIN_ASSIGN_OR_RETURN(work_,
                            Workspace::create(arch_, {n_rows, n_logit_rows, pool.n_threads()}));
  return {};
}

std::uint64_t Decoder::workspace_bytes(std::size_t n_rows,
                                       std::size_t n_logit_rows,
                                       std::size_t n_threads) const {
  return Workspace::bytes(arch_, {n_rows, n_logit_rows, n_threads});
}

// A block table is outside data as far as the model is concerned: nothing is read or written out of
// the cache's blocks.
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
    for (std::size_t b = visible / block_tokens; b * block_tokens < end; ++b) {
      if (blocks[b] >= kv.options().n_blocks[g])
        return internal_error("block id " + std::to_string(blocks[b]) + " is out of range");
    }
    for (std::size_t b = 0; b < visible / block_tokens; ++b) {
      if (blocks[b] != kReleasedBlock && blocks[b] >= kv.options().n_blocks[g]) {
        return internal_error("block id " + std::to_string(blocks[b]) + " is out of range");
      }
    }
  }
  return {};
}

Status Decoder::check_batch(const Batch& batch,
                            LayerRange layers,
                            std::span<const float> hidden,
                            const kvstore::KvStore& kv,
                            const base::ThreadPool& pool) const {
  const std::size_t n_rows = batch.tokens.size();
  if (n_rows > work_.sizes.n_rows || pool.n_threads() > work_.sizes.n_threads) {
    return internal_error("batch of " + std::to_string(n_rows) + " rows and " +
                          std::to_string(pool.n_threads()) + " threads is larger than reserved");
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
    const std::uint64_t limit =
        arch_.n_positions == 0 ? kPositionsMax : arch_.n_positions - arch_.position_offset;
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

void Decoder::embed(const StepContext& step, const Batch& batch, float* hidden) const {
  const std::size_t width = arch_.embedding_width();
  float* const to = arch_.embedding_size == 0 ? hidden : work_.embedded.data();
  step.pool.run(step.n_rows, [&](std::size_t row, std::size_t) {
    float* const out = to + row * width;
    const auto token = static_cast<std::size_t>(batch.tokens[row]);
    if (weights_.embedding.n_rows > 0) {
      weights_.embedding.read(token, out);
    } else {
      const kernels::PackedMatrix& head = weights_.head.matrix;
      kernels_.unpack_row[static_cast<std::size_t>(head.type)](head, token, out);
    }
    if (arch_.embedding_scale != 1.0F) {
      for (std::size_t i = 0; i < width; ++i) out[i] *= arch_.embedding_scale;
    }
  });
  if (!weights_.project_in.empty()) step.linear(weights_.project_in, to, hidden, step.n_rows);
  if (arch_.n_positions != 0) {
    step.pool.run(batch.sequences.size(), [&](std::size_t s, std::size_t) {
      const SequenceRows& rows = batch.sequences[s];
      for (std::size_t i = 0; i < rows.n_rows; ++i) {
        float* const learned = step.work.block.data() + (rows.first_row + i) * arch_.hidden_size;
        weights_.positions.read(
            static_cast<std::size_t>(rows.first_position) + i + arch_.position_offset, learned);
      }
    });
    step.add(step.work.block.data(), hidden, 1.0F);
  }
  if (arch_.embedding_norm)
    step.norm(*arch_.embedding_norm,
              weights_.embedding_norm,
              hidden,
              hidden,
              step.n_rows,
              arch_.hidden_size);
}

// Angles in float32, position times frequency, as the reference implementation has them.
void Decoder::fill_angles(const StepContext& step,
                          const Batch& batch,
                          std::size_t rope_index) const {
  const RopeSpec& rope = arch_.ropes[rope_index];
  const RopeSwitch changes = rope_switch(rope);
  const std::size_t half = rope.rotary_dim / 2;
  const std::size_t table = rope_index * step.work.sizes.n_rows * angle_width(arch_);
  const auto factor = static_cast<float>(rope.attention_factor);
  step.pool.run(batch.sequences.size(), [&](std::size_t s, std::size_t worker) {
    const SequenceRows& rows = batch.sequences[s];
    std::span<const float> frequencies = frequencies_[rope_index].within;
    if (changes.length != 0 && rows.rope_length > changes.length) {
      frequencies = frequencies_[rope_index].beyond;
      if (changes.exact) {
        const std::span<float> own =
            step.work.frequencies.subspan(worker * angle_width(arch_), half);
        rope_frequencies(rope, rows.rope_length, own);
        frequencies = own;
      }
    }
    for (std::size_t i = 0; i < rows.n_rows; ++i) {
      const auto position = static_cast<float>(rows.first_position + static_cast<std::int32_t>(i));
      const std::size_t at = table + (rows.first_row + i) * half;
      for (std::size_t j = 0; j < half; ++j) {
        const float angle = position * frequencies[j];
        step.work.cos[at + j] = std::cos(angle) * factor;
        step.work.sin[at + j] = std::sin(angle) * factor;
      }
    }
  });
}

Status Decoder::forward(const Batch& batch,
                        LayerRange layers,
                        std::span<float> hidden,
                        kvstore::KvStore& kv,
                        base::ThreadPool& pool) {
  if (layers.begin == 0 && layers.end == 0) layers.end = arch_.n_layers();
  COXSWAIN_RETURN_IF_ERROR(check_batch(batch, layers, hidden, kv, pool));
  if (batch.tokens.empty()) return {};
  const StepContext step{arch_, kernels_, pool, work_, batch.tokens.size()};
  if (layers.begin == 0) embed(step, batch, hidden.data());
  for (std::size_t r = 0; r < arch_.ropes.size(); ++r) fill_angles(step, batch, r);
  std::size_t filled =
      kv.options().n_blocks.size();  // the group whose tables are in work_.sequences
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
    const std::size_t group = info_.kv_layers[i].group;
    if (group != filled) {
      work_.sequences.clear();
      for (const SequenceRows& rows : batch.sequences) {
        work_.sequences.push_back(
            {rows.first_row, rows.n_rows, rows.first_position, rows.block_tables[group]});
      }
      filled = group;
    }
    run_layer(step, i, hidden.data(), kv.layer(i));
  }
  return {};
}

// Adds work.block to the residual stream, through the norm that follows the block if there is one.
void Decoder::add_block(const StepContext& step, const NormWeights& after, float* hidden) const {
  float* const block = step.work.block.data();
  if (arch_.norm_after) step.norm(arch_.norm, after, block, block, step.n_rows, arch_.hidden_size);
  step.add(block, hidden, arch_.residual_multiplier);
}

void Decoder::run_layer(const StepContext& step,
                        std::uint32_t index,
                        float* hidden,
                        const kernels::KvLayerView& cache) const {
  const LayerSpec& spec = arch_.layers[index];
  const LayerWeights& w = weights_.layers[index];
  Workspace& work = step.work;
  const std::size_t width = arch_.hidden_size;
  // A block's output goes straight into the residual stream where nothing stands between.
  const bool direct = !arch_.norm_after && arch_.residual_multiplier == 1.0F;
  const bool after_residual = arch_.placement == NormPlacement::kAfterResidual;
  const bool norms_input = arch_.norm_before && !after_residual;
  const auto enter = [&](const NormWeights& norm) -> const float* {
    if (!norms_input) return hidden;
    step.norm(arch_.norm, norm, hidden, work.normed.data(), step.n_rows, width);
    return work.normed.data();
  };
  const auto leave = [&](const NormWeights& norm) {
    if (after_residual) step.norm(arch_.norm, norm, hidden, hidden, step.n_rows, width);
  };
  const auto mlp = [&](const float* x, float* y, bool accumulate) {
    if (spec.moe) {
      run_moe(step, w, x, y, accumulate);
    } else {
      run_mlp(step, w.mlp, spec.intermediate, x, y, accumulate);
    }
  };

  const float* x = enter(w.attention_norm);
  run_attention(step, spec, w, x, cache);
  if (arch_.parallel && arch_.parallel_mlp_norm) x = enter(w.mlp_norm);
  if (arch_.residual_from_norm) std::memcpy(hidden, x, step.n_rows * width * sizeof(float));
  step.linear(
      w.out, work.attention.data(), direct ? hidden : work.block.data(), step.n_rows, direct);
  if (!direct) add_block(step, w.attention_norm_after, hidden);
  if (!arch_.parallel) {
    leave(w.attention_norm);
    x = enter(w.mlp_norm);
    if (arch_.residual_from_norm) std::memcpy(hidden, x, step.n_rows * width * sizeof(float));
  }
  mlp(x, direct ? hidden : work.block.data(), direct);
  if (!direct) add_block(step, w.mlp_norm_after, hidden);
  leave(w.mlp_norm);
}

Status Decoder::logits(std::span<const float> hidden,
                       std::span<const std::uint32_t> rows,
                       std::span<float> out,
                       base::ThreadPool& pool) {
  const std::size_t width = arch_.hidden_size;
  const std::size_t vocab = arch_.vocab_size;
  if (rows.size() > work_.sizes.n_logit_rows || pool.n_threads() > work_.sizes.n_threads) {
    return internal_error("logits of " + std::to_string(rows.size()) +
                          " rows are more than reserved");
  }
  if (out.size() != rows.size() * vocab)
    return internal_error("room for logits does not fit the rows");
  float* x = work_.logit_rows.data();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if ((std::size_t{rows[i]} + 1) * width > hidden.size())
      return internal_error("a row of the logits is outside the hidden states");
    std::memcpy(x + i * width, hidden.data() + rows[i] * width, width * sizeof(float));
  }
  if (rows.empty()) return {};
  const StepContext step{arch_, kernels_, pool, work_, rows.size()};
  if (arch_.final_norm) step.norm(arch_.norm, weights_.final_norm, x, x, rows.size(), width);
  if (!weights_.project_out.empty()) {
    step.linear(weights_.project_out, x, work_.logit_projected.data(), rows.size());
    x = work_.logit_projected.data();
  }
  step.linear(weights_.head, x, out.data(), rows.size());
  const float scale = arch_.logit_scale;
  const float cap = arch_.logit_soft_cap;
  if (scale == 1.0F && cap == 0.0F) return {};
  pool.run(rows.size(), [&](std::size_t i, std::size_t) {
    for (float& value : out.subspan(i * vocab, vocab)) {
      value *= scale;
      if (cap != 0.0F) value = cap * std::tanh(value / cap);
    }
  });
  return {};
}

}  // namespace coxswain::model
