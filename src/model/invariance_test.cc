// Law 1 for every family: the bits of a request do not depend on its company, on chunks, threads or
// blocks; and law 7 on every split.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/single_sequence.h"
#include "model/test_models.h"

namespace coxswain::model {
namespace {

constexpr std::uint32_t kRowsMax = 96;

std::vector<TokenId> some_ids(std::size_t n, std::uint32_t vocab, std::uint32_t salt) {
  std::vector<TokenId> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<TokenId>((i * 7919 + salt * 104729 + i * i * 31) % vocab);
  return out;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// All logits of a sequence fed in chunks of the given size.
std::vector<float> run_alone(Model& model,
                             kernels::ExecContext& exec,
                             std::span<const TokenId> ids,
                             std::size_t chunk,
                             std::uint32_t block_tokens = 16) {
  SingleSequenceOptions options;
  options.tokens_max = kRowsMax;
  options.chunk_tokens_max = kRowsMax;
  options.logit_rows_max = kRowsMax;
  options.block_tokens = block_tokens;
  auto sequence = SingleSequence::create(model, exec, options);
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  sequence->restart(static_cast<std::uint32_t>(ids.size()));
  std::vector<float> out;
  for (std::size_t at = 0; at < ids.size(); at += chunk) {
    const std::size_t n = std::min(chunk, ids.size() - at);
    const Status fed = sequence->feed(ids.subspan(at, n));
    EXPECT_TRUE(fed.ok()) << fed.message();
    const auto logits = sequence->logits(n);
    EXPECT_TRUE(logits.ok());
    out.insert(out.end(), logits->begin(), logits->end());
  }
  return out;
}

// Several sequences in one store, `chunk` rows of each in every step, in turning order. Returns the
// logits of each.
std::vector<std::vector<float>> run_together(Model& model,
                                             kernels::ExecContext& exec,
                                             const std::vector<std::vector<TokenId>>& all,
                                             std::size_t chunk) {
  const ModelInfo& info = model.info();
  const std::uint32_t blocks_each = kRowsMax / 16;
  const auto n = static_cast<std::uint32_t>(all.size());
  kvstore::KvStoreOptions store_options;
  store_options.type = tensor::DType::kF32;
  store_options.n_blocks.assign(info.kv_groups.size(), blocks_each * n);
  store_options.layers = info.kv_layers;
  auto store = kvstore::KvStore::create(store_options);
  EXPECT_TRUE(store.ok() && model.reserve(kRowsMax, kRowsMax, exec).ok());
  std::vector<std::vector<BlockId>> tables(n);
  for (std::uint32_t b = 0; b < blocks_each * n; ++b)
    tables[b % n].push_back(blocks_each * n - 1 - b);  // scattered

  std::vector<std::vector<float>> out(n);
  std::vector<std::size_t> done(n, 0);
  for (std::uint32_t step = 0;
       std::any_of(all.begin(),
                   all.end(),
                   [&](const auto& ids) {
                     return done[static_cast<std::size_t>(&ids - all.data())] < ids.size();
                   });
       ++step) {
    std::vector<TokenId> tokens;
    std::vector<SequenceRows> sequences;
    std::vector<std::uint32_t> who;
    for (std::uint32_t turn = 0; turn < n; ++turn) {
      const std::uint32_t s = (turn + step) % n;
      const std::size_t count = std::min(chunk, all[s].size() - done[s]);
      if (count == 0) continue;
      SequenceRows rows;
      rows.first_row = tokens.size();
      rows.n_rows = count;
      rows.first_position = static_cast<std::int32_t>(done[s]);
      rows.rope_length = static_cast<std::uint32_t>(all[s].size());
      rows.block_tables.assign(info.kv_groups.size(), tables[s]);
      sequences.push_back(rows);
      who.push_back(s);
      tokens.insert(tokens.end(),
                    all[s].begin() + static_cast<std::ptrdiff_t>(done[s]),
                    all[s].begin() + static_cast<std::ptrdiff_t>(done[s] + count));
      done[s] += count;
    }
    std::vector<float> hidden(tokens.size() * info.hidden_size);
    const Status ran = model.forward({tokens, sequences}, {}, hidden, *store, exec);
    EXPECT_TRUE(ran.ok()) << ran.message();
    std::vector<std::uint32_t> rows(tokens.size());
    for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    std::vector<float> logits(tokens.size() * info.vocab_size);
    EXPECT_TRUE(model.logits(hidden, rows, logits, exec).ok());
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const float* from = logits.data() + sequences[i].first_row * info.vocab_size;
      out[who[i]].insert(out[who[i]].end(), from, from + sequences[i].n_rows * info.vocab_size);
    }
  }
  return out;
}

struct Case {
  SmallModel model;
  kernels::Isa isa = kernels::Isa::kScalar;
  std::string quantize = {};
};

class Invariance : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    LoadOptions how;
    how.quantize = GetParam().quantize;
    how.kernels = *kernels::kernel_table(GetParam().isa);
    model_ = load_small(folder_, small_config(GetParam().model.fields), how);
    ASSERT_NE(model_, nullptr);
    ids_ = some_ids(41, model_->info().vocab_size, 1);
    alone_ = run_alone(*model_, one_, ids_, ids_.size());
    ASSERT_TRUE(
        std::all_of(alone_.begin(), alone_.end(), [](float x) { return std::isfinite(x); }));
    ASSERT_NE(*std::min_element(alone_.begin(), alone_.end()),
              *std::max_element(alone_.begin(), alone_.end()));
  }

  base::TempFolder folder_;
  kernels::ExecContext one_{1};
  kernels::ExecContext two_{2};
  std::unique_ptr<Model> model_;
  std::vector<TokenId> ids_;
  std::vector<float> alone_;
};

TEST_P(Invariance, ChunksAndBlockSizesKeepTheBits) {
  for (const std::size_t chunk : {1U, 7U, 16U, 32U}) {
    EXPECT_TRUE(same_bits(run_alone(*model_, one_, ids_, chunk), alone_)) << "chunks of " << chunk;
  }
  for (const std::uint32_t block_tokens : {1U, 4U, 64U}) {
    EXPECT_TRUE(same_bits(run_alone(*model_, one_, ids_, ids_.size(), block_tokens), alone_))
        << "blocks of " << block_tokens;
  }
}

TEST_P(Invariance, ThreadsKeepTheBits) {
  EXPECT_TRUE(same_bits(run_alone(*model_, two_, ids_, ids_.size()), alone_));
  EXPECT_TRUE(same_bits(run_alone(*model_, two_, ids_, 1), alone_));
}

TEST_P(Invariance, CompanyKeepsTheBits) {
  const std::uint32_t vocab = model_->info().vocab_size;
  const std::vector<std::vector<TokenId>> all{
      some_ids(13, vocab, 2), ids_, some_ids(1, vocab, 3), some_ids(30, vocab, 4)};
  for (const std::size_t chunk : {1U, 5U, 24U}) {
    const auto together = run_together(*model_, two_, all, chunk);
    EXPECT_TRUE(same_bits(together[1], alone_)) << "chunks of " << chunk;
    EXPECT_TRUE(same_bits(together[3], run_alone(*model_, one_, all[3], all[3].size())))
        << "chunks of " << chunk;
  }
}

TEST_P(Invariance, LayerRangesKeepTheBits) {
  SingleSequenceOptions options;
  options.tokens_max = kRowsMax;
  options.chunk_tokens_max = kRowsMax;
  options.logit_rows_max = kRowsMax;
  auto sequence = SingleSequence::create(*model_, one_, options);
  ASSERT_TRUE(sequence.ok());
  const std::uint32_t n_layers = model_->info().n_layers;
  for (std::uint32_t split = 1; split < n_layers; ++split) {
    sequence->restart(static_cast<std::uint32_t>(ids_.size()));
    ASSERT_TRUE(sequence->feed_layers(ids_, {0, split}).ok());
    ASSERT_TRUE(sequence->feed_layers(ids_, {split, n_layers}).ok());
    const auto logits = sequence->logits(ids_.size());
    ASSERT_TRUE(logits.ok());
    EXPECT_TRUE(same_bits(*logits, alone_)) << "split at " << split;
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const SmallModel& model : small_models()) out.push_back({model, isa});
    for (const SmallModel& model : small_models()) {
      if (model.name == "llama" || model.name == "mixtral" || model.name == "gpt2")
        for (const char* quantize : {"int8", "int4"}) out.push_back({model, isa, quantize});
    }
  }
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return std::string(kernels::name_of(info.param.isa)) + "_" + std::string(info.param.model.name) +
         (info.param.quantize.empty() ? "" : "_" + info.param.quantize);
}

INSTANTIATE_TEST_SUITE_P(Families, Invariance, ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace coxswain::model
