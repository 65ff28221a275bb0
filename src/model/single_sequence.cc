#include "model/single_sequence.h"

#include <algorithm>
#include <string>
#include <utility>

namespace coxswain::model {

Result<SingleSequence> SingleSequence::create(Model& model,
                                              kernels::ExecContext& exec,
                                              const SingleSequenceOptions& options) {
  const std::uint32_t n_blocks =
      (options.tokens_max + options.block_tokens - 1) / options.block_tokens;
  kvstore::KvStoreOptions store;
  store.type = options.kv_type;
  store.block_tokens = options.block_tokens;
  store.n_blocks.assign(model.info().kv_groups.size(), n_blocks);
  store.layers = model.info().kv_layers;
  COXSWAIN_ASSIGN_OR_RETURN(kvstore::KvStore made, kvstore::KvStore::create(store));
  COXSWAIN_RETURN_IF_ERROR(model.reserve(options.chunk_tokens_max, options.logit_rows_max, exec));

  SingleSequence out(std::move(made));
  out.model_ = &model;
  out.exec_ = &exec;
  out.tables_.resize(model.info().kv_groups.size());
  for (auto& table : out.tables_) {
    for (std::uint32_t i = n_blocks; i > 0; --i) table.push_back(i - 1);
  }
  out.hidden_.resize(std::size_t{options.chunk_tokens_max} * model.info().hidden_size);
  return out;
}

void SingleSequence::restart(std::uint32_t rope_length) {
  position_ = 0;
  rope_length_ = rope_length;
  last_rows_ = 0;
}

Status SingleSequence::feed(std::span<const TokenId> tokens) {
  return feed_layers(tokens, {0, model_->info().n_layers});
}

Status SingleSequence::feed_layers(std::span<const TokenId> tokens, LayerRange layers) {
  if (tokens.size() * model_->info().hidden_size > hidden_.size()) {
    return internal_error("a chunk of " + std::to_string(tokens.size()) +
                          " tokens is larger than reserved");
  }
  SequenceRows rows;
  rows.n_rows = tokens.size();
  rows.first_position = static_cast<std::int32_t>(position_);
  rows.rope_length = rope_length_;
  for (const auto& table : tables_) rows.block_tables.emplace_back(table);
  COXSWAIN_RETURN_IF_ERROR(
      model_->forward({tokens, {&rows, 1}}, layers, hidden(tokens.size()), store_, *exec_));
  if (layers.end == model_->info().n_layers) position_ += static_cast<std::uint32_t>(tokens.size());
  last_rows_ = tokens.size();
  return {};
}

Result<std::vector<float>> SingleSequence::logits(std::size_t n_rows) {
  if (n_rows > last_rows_) return internal_error("logits of more rows than were fed");
  std::vector<std::uint32_t> rows;
  for (std::size_t i = last_rows_ - n_rows; i < last_rows_; ++i)
    rows.push_back(static_cast<std::uint32_t>(i));
  std::vector<float> out(n_rows * model_->info().vocab_size);
  COXSWAIN_RETURN_IF_ERROR(model_->logits(hidden(last_rows_), rows, out, *exec_));
  return out;
}

}  // namespace coxswain::model
