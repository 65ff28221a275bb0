// What step_runner.h promises beside rows and tokens, with real models: blocks that move between sequences and
// runners, ranges of layers. Everything is compared with a run that needed none of it.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/test_models.h"
#include "runner/hidden_states.h"
#include "runner/testing/seam_peer.h"

namespace coxswain::runner {
namespace {

using testing::add;
using testing::generate;
using testing::kBlockTokens;
using testing::length;
using testing::Peer;
using testing::small_options;
using testing::table_of;
using testing::Text;
using testing::with_history;

class ModelSeams : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, ModelSeams, ::testing::Bool(), [](const auto& over) {
  return over.param ? std::string("stream") : std::string("process");
});

class SmallModelDir {
 public:
  explicit SmallModelDir(const std::string& fields) {
    model::RandomCheckpointOptions options;
    options.dir = folder_.path();
    options.type = tensor::DType::kF32;
    const Status status = model::write_random_checkpoint(model::small_config(fields), options);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  std::unique_ptr<LocalRunner> start(RunnerOptions options = small_options()) const {
    options.model_dir = folder_.path();
    options.without_text = true;
    if (!options.dtype) options.dtype = tensor::DType::kF32;
    auto runner = LocalRunner::create(options);
    EXPECT_TRUE(runner.ok()) << runner.status().message();
    return std::move(runner).value();
  }

 private:
  base::TempFolder folder_;
};

const std::vector<std::string>& few_models() {
  static const std::vector<std::string> models{
      R"({"model_type":"llama"})",
      R"({"model_type":"mistral","sliding_window":9})",
      R"({"model_type":"qwen2","use_sliding_window":true,"sliding_window":9,"max_window_layers":1})",
      R"({"model_type":"mixtral","num_local_experts":5,"num_experts_per_tok":2})"};
  return models;
}

SequenceSpec spec_of(std::uint64_t id, std::uint32_t n_prompt) {
  SequenceSpec spec{.id = SequenceId{id}};
  for (std::uint32_t p = 0; p < n_prompt; ++p)
    spec.prompt.push_back(static_cast<TokenId>(3 + (p * 11 + id) % 58));
  spec.stopping = {.max_new_tokens = 20, .ignore_eos = true};
  spec.sampling.do_sample = id % 2 == 0;
  spec.sampling.seed = 40 + id;
  spec.sampling.n_top_tokens = 3;
  spec.rope_length = 60;
  return spec;
}

TEST_P(ModelSeams, ASequenceThatMovesGoesOnAsIfItHadStayed) {
  for (const std::string& fields : few_models()) {
    const SmallModelDir files(fields);
    Peer from(files.start(), GetParam());
    Peer to(files.start(), GetParam());
    const SequenceSpec spec = spec_of(1, 21);
    StepPlan start;
    start.new_sequences = {spec};
    const Text whole = generate(from, spec.id, {0, 0, length(spec)}, 12, std::move(start));

    // The same up to its fifth token; then it goes away.
    SequenceSpec part = spec;
    part.id = SequenceId{2};
    StepPlan again;
    again.new_sequences = {part};
    generate(from, part.id, {1, 0, length(part)}, 5, std::move(again));
    StepPlan leave;
    BlockTransfer transfer{.attachment = 77};
    for (const BlockTableChange& change : table_of(*from, 1))
      transfer.blocks.emplace_back(change.blocks.begin(), change.blocks.begin() + 4);
    leave.exports = {transfer};
    leave.dropped = {part.id};
    from.run(std::move(leave));
    auto image = from->take(77);
    ASSERT_TRUE(image.ok()) << image.status().message();

    Attachment broken = *image;
    broken.bytes.back() ^= 1;
    EXPECT_EQ(to->attach(broken).code(), Code::kDataLoss);
    broken.bytes.pop_back();
    EXPECT_EQ(to->attach(broken).code(), Code::kInvalidArgument);
    ASSERT_TRUE(to->attach(*image).ok());

    const SequenceSpec moved = with_history(spec, SequenceId{3}, whole.tokens, 5, {});
    StepPlan arrive;
    arrive.new_sequences = {moved};
    for (const BlockTableChange& change : table_of(*to, 2))
      arrive.imports.resize(1),
          arrive.imports[0].blocks.emplace_back(change.blocks.begin(), change.blocks.begin() + 4);
    arrive.imports[0].attachment = 77;
    Text after =
        generate(to, moved.id, {2, length(moved) - 1, length(moved)}, 7, std::move(arrive));
    EXPECT_TRUE(std::equal(
        after.tokens.begin(), after.tokens.end(), whole.tokens.begin() + 5, whole.tokens.end()))
        << fields;
    EXPECT_EQ(to->take(77).status().code(), Code::kNotFound) << "an import uses its attachment up";
  }
}

// A block is shared as a whole, and of the next one the first k positions are copied.
TEST_P(ModelSeams, APartOfABlockIsTakenFromAnotherSequence) {
  for (const std::string& fields : few_models()) {
    const SmallModelDir files(fields);
    Peer peer(files.start(), GetParam());
    const SequenceSpec source = spec_of(1, 21);
    StepPlan start;
    start.new_sequences = {source};
    generate(peer, source.id, {0, 0, length(source)}, 3, std::move(start));
    for (std::uint32_t k = 1; k < kBlockTokens; ++k) {
      SequenceSpec alone = spec_of(100 + k, 19);
      std::copy_n(source.prompt.begin(), kBlockTokens + k, alone.prompt.begin());
      StepPlan introduce;
      introduce.new_sequences = {alone};
      const Text expected =
          generate(peer, alone.id, {1, 0, length(alone)}, 6, std::move(introduce));

      SequenceSpec spec = alone;
      spec.id = SequenceId{200 + k};
      StepPlan plan;
      plan.new_sequences = {spec};
      plan.rows = {{.sequence = spec.id,
                    .first_position = kBlockTokens + k,
                    .n_tokens = length(spec) - kBlockTokens - k,
                    .table_changes = table_of(*peer, 2),
                    .emit = Emit::kSample}};
      const auto theirs = table_of(*peer, 0);
      for (BlockTableChange& own : plan.rows[0].table_changes) {
        own.blocks[0] = theirs[own.kv_group].blocks[0];
        plan.moves.push_back({.kv_group = own.kv_group,
                              .from = {.id = theirs[own.kv_group].blocks[1]},
                              .to = {.id = own.blocks[1]}});
      }
      Text text;
      add(text, peer.run(std::move(plan)).sequences.at(0));
      while (text.tokens.size() < 6) {
        StepPlan next;
        next.rows = {
            {.sequence = spec.id, .n_tokens = 1, .continues = true, .emit = Emit::kSample}};
        add(text, peer.run(std::move(next)).sequences.at(0));
      }
      EXPECT_EQ(text, expected) << fields << ", " << k;
      StepPlan drop;
      drop.dropped = {alone.id, spec.id};
      peer.run(std::move(drop));
    }
  }
}

// Beside the steps, in this process and behind a socket.
TEST(LocalModelSeams, BlocksThatLeaveBesideStepsAreThoseThatLeaveInThem) {
  for (const bool streamed : {false, true}) {
    const SmallModelDir files(few_models()[0]);
    Peer peer(files.start(), streamed);
    ASSERT_TRUE(peer->info().capabilities.exports_beside);
    const SequenceSpec spec = spec_of(1, 30);
    StepPlan plan;
    plan.new_sequences = {spec};
    static_cast<void>(generate(peer, spec.id, {0, 0, length(spec)}, 2, std::move(plan)));
    BlockTransfer transfer{.attachment = 1};
    for (const BlockTableChange& change : table_of(*peer, 0))
      transfer.blocks.emplace_back(change.blocks.begin(), change.blocks.begin() + 3);
    StepPlan out;
    out.exports = {transfer};
    peer.run(std::move(out));
    const Attachment expected = *peer->take(1);
    transfer.attachment = 2;
    ASSERT_EQ(peer->export_blocks(transfer), Status());
    EXPECT_EQ(peer->take(2)->bytes, expected.bytes);
    transfer.layers = {.begin = 0, .end = 1};
    ASSERT_EQ(peer->export_blocks(transfer), Status());
    EXPECT_LT(peer->take(2)->bytes.size(), expected.bytes.size());
    transfer.blocks.front().push_back(1'000'000);
    EXPECT_EQ(peer->export_blocks(transfer).code(), Code::kInternal);
    transfer.blocks.clear();
    EXPECT_EQ(peer->export_blocks(transfer).code(), Code::kInternal);
    EXPECT_EQ(peer->take(2).status().code(), Code::kNotFound);
  }
  RunnerOptions none = small_options();
  none.attachment_bytes_max = 0;
  const SmallModelDir files(few_models()[0]);
  Peer closed(files.start(none), false);
  EXPECT_FALSE(closed->info().capabilities.exports_beside);
  EXPECT_EQ(closed->export_blocks({.attachment = 1}).code(), Code::kUnimplemented);
}

TEST(LocalModelSeams, BlocksOfAnotherLayoutAreRefusedByName) {
  const SmallModelDir files(few_models()[0]);
  Peer from(files.start(), false);
  StepPlan plan;
  plan.exports = {{.attachment = 1, .blocks = {{3, 4}}}};
  from.run(std::move(plan));
  const Attachment image = *from->take(1);
  const auto refusal = [&](const RunnerOptions& options) {
    return Peer(files.start(options), false)->attach(image);
  };
  RunnerOptions options = small_options();
  EXPECT_TRUE(refusal(options).ok());
  options.kv_blocks = 50;
  EXPECT_TRUE(refusal(options).ok()) << "the size of the pool is no part of the layout";
  options.kv_dtype = tensor::DType::kBf16;
  EXPECT_EQ(
      refusal(options).message(),
      "KV blocks: of another layout: kv_groups[0].dtype=float32, here kv_groups[0].dtype=bfloat16");
  options = small_options();
  options.block_tokens = 16;
  EXPECT_EQ(refusal(options).message(),
            "KV blocks: of another layout: block_tokens=8, here block_tokens=16");
  const SmallModelDir other(few_models()[1]);
  const Status status = Peer(other.start(), false)->attach(image);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message().find("KV blocks: of another layout: model_fingerprint="), 0U);
}

// Layers [0, split) on one runner, [split, n) on another, hidden states between them: law 7.
class TwoHalves {
 public:
  TwoHalves(Peer& lower, Peer& upper, std::uint32_t split, std::uint32_t n_layers)
      : lower_(lower), upper_(upper), lower_range_{0, split}, upper_range_{split, n_layers} {}

  // `plan` without layers; rows emit on the upper half only.
  StepResult run(const StepPlan& plan) {
    StepPlan low = plan;
    low.layers = lower_range_;
    low.hidden_out = ++id_;
    for (Row& row : low.rows) row.emit = Emit::kNone;
    const StepResult below = lower_.run(std::move(low));
    for (const SequenceResult& r : below.sequences)
      EXPECT_TRUE(r.status.ok()) << r.status.message();
    EXPECT_EQ(below.layers_ready, (LayerRange{0, upper_range_.end}));
    auto hidden = lower_->take(id_);
    EXPECT_TRUE(hidden.ok()) << hidden.status().message();
    if (!hidden.ok()) return {};
    EXPECT_TRUE(upper_->attach(std::move(hidden).value()).ok());
    StepPlan high = plan;
    high.layers = upper_range_;
    high.hidden_in = id_;
    return upper_.run(std::move(high));
  }

 private:
  Peer& lower_;
  Peer& upper_;
  LayerRange lower_range_;
  LayerRange upper_range_;
  std::uint64_t id_ = 0;
};

// Two prompts, the first in chunks, then five tokens of each, by two runners that have a half of the layers each.
std::vector<Text> generate_split(TwoHalves& halves,
                                 Peer& lower,
                                 const std::vector<SequenceSpec>& two) {
  std::vector<Text> seen(2);
  // A chunk of the first prompt, then its rest beside the whole of the second.
  StepPlan chunk;
  chunk.new_sequences = two;
  chunk.rows = {{.sequence = two[0].id, .n_tokens = 8, .table_changes = table_of(*lower, 0)}};
  halves.run(chunk);
  StepPlan rest;
  rest.rows = {{.sequence = two[0].id, .first_position = 8, .n_tokens = 5, .emit = Emit::kSample},
               {.sequence = two[1].id,
                .n_tokens = 6,
                .table_changes = table_of(*lower, 1),
                .emit = Emit::kSample}};
  StepResult result = halves.run(rest);
  for (std::uint32_t n = 0;; ++n) {
    StepPlan next;
    for (std::size_t i = 0; i < 2; ++i) {
      if (result.sequences.at(i).tokens.size() != 1) {
        ADD_FAILURE() << "a row without its one token";
        return seen;
      }
      add(seen[i], result.sequences[i]);
      next.rows.push_back({.sequence = two[i].id,
                           .first_position = length(two[i]) + n,
                           .n_tokens = 1,
                           .emit = Emit::kSample});
    }
    if (n == 4) break;
    // The lower half has chosen nothing: it is told what was.
    StepPlan tell;
    for (std::size_t i = 0; i < 2; ++i) {
      tell.edits.push_back({.sequence = two[i].id,
                            .source = two[i].id,
                            .n_output = n,
                            .append = {seen[i].tokens.back().id}});
    }
    lower.run(std::move(tell));
    result = halves.run(next);
  }
  return seen;
}

TEST_P(ModelSeams, LayersSplitAnywhereGiveTheSameBits) {
  for (const std::string& fields : few_models()) {
    const SmallModelDir files(fields);
    RunnerOptions options = small_options();
    options.max_batch_prefill_tokens = 4;  // steps are run in slices
    options.max_batch_size = 2;
    Peer whole(files.start(options), false);
    const std::vector<SequenceSpec> two{spec_of(1, 13), spec_of(2, 6)};
    std::vector<Text> expected;
    for (std::uint32_t i = 0; i < two.size(); ++i) {
      StepPlan start;
      start.new_sequences = {two[i]};
      expected.push_back(generate(whole, two[i].id, {i, 0, length(two[i])}, 5, std::move(start)));
    }
    const std::uint32_t n_layers = whole->info().n_layers;
    Peer lower(files.start(options), GetParam());
    Peer upper(files.start(options), GetParam());
    for (std::uint32_t split = 1; split < n_layers; ++split) {
      TwoHalves halves(lower, upper, split, n_layers);
      const std::vector<Text> seen = generate_split(halves, lower, two);
      EXPECT_EQ(seen, expected) << fields << ", split at " << split;
      StepPlan drop;
      drop.dropped = {two[0].id, two[1].id};
      lower.run(drop);
      upper.run(drop);
    }
  }
}

// A prompt whose first layers one runner computes, one after the other, and another one the rest: chunks of several
// prompts at once, hidden states and blocks of these layers handed over in between.
class SplitPrompts {
 public:
  static constexpr std::uint32_t kChunk = 11;

  SplitPrompts(Peer& lower, Peer& upper, std::uint32_t split)
      : lower_(lower), upper_(upper), split_(split), n_layers_(lower->info().n_layers) {
    for (std::uint32_t id = 1; id <= 3; ++id) specs_.push_back(spec_of(id, 13 + 5 * id));
  }

  const std::vector<SequenceSpec>& specs() const { return specs_; }

  // Rows [first, first + kChunk) of each prompt; the last ones sample where `emits`.
  StepPlan chunk_at(std::uint32_t first, bool emits) {
    StepPlan plan;
    if (first == 0) plan.new_sequences = specs_;
    for (std::uint32_t i = 0; i < specs_.size(); ++i) {
      const std::uint32_t n = length(specs_[i]);
      if (first >= n) continue;
      const bool ends = first + kChunk >= n;
      plan.rows.push_back({.sequence = specs_[i].id,
                           .first_position = first,
                           .n_tokens = std::min(kChunk, n - first),
                           .table_changes = table_of(*lower_, i),
                           .emit = emits && ends ? Emit::kSample : Emit::kNone});
    }
    return plan;
  }

  // The blocks of all prompts, of some layers.
  std::string blocks_of(Peer& peer, LayerRange layers) {
    StepPlan plan;
    plan.exports = {transfer_of(peer, layers)};
    const std::uint64_t id = plan.exports[0].attachment;
    peer.run(std::move(plan));
    return taken(peer, id).bytes;
  }

  // Rows that cannot come again in one layer: each layer of the lower half is a step.
  std::string lower_half(std::uint32_t first) {
    std::uint64_t hidden = 0;
    for (std::uint32_t layer = 0; layer < split_; ++layer) {
      StepPlan plan = chunk_at(first, false);
      if (layer > 0) plan.new_sequences.clear();
      plan.layers = {.begin = layer, .end = layer + 1};
      plan.hidden_in = hidden;
      plan.hidden_out = hidden = ++id_;
      EXPECT_EQ(lower_.run(std::move(plan)).sequences.at(0).status, Status());
    }
    Attachment out = taken(lower_, hidden);
    std::string bytes = out.bytes;
    EXPECT_TRUE(upper_->attach(std::move(out)).ok());
    hidden_ = hidden;
    return bytes;
  }

  StepResult upper_half(std::uint32_t first) {
    StepPlan plan = chunk_at(first, true);
    plan.layers = {.begin = split_, .end = n_layers_};
    plan.hidden_in = hidden_;
    return upper_.run(std::move(plan));
  }

  void pass_blocks() {
    Attachment image{.id = ++id_, .kind = AttachmentKind::kBlocks};
    image.bytes = blocks_of(lower_, {.begin = 0, .end = split_});
    EXPECT_TRUE(upper_->attach(image).ok());
    StepPlan plan;
    plan.imports = {transfer_of(upper_, {.begin = 0, .end = split_})};
    plan.imports[0].attachment = image.id;
    upper_.run(std::move(plan));
  }

 private:
  BlockTransfer transfer_of(Peer& peer, LayerRange layers) {
    BlockTransfer out{.attachment = ++id_, .layers = layers};
    out.blocks.resize(peer->info().kv_groups.size());
    for (std::uint32_t i = 0; i < specs_.size(); ++i) {
      for (const BlockTableChange& own : table_of(*peer, i)) {
        auto& list = out.blocks[own.kv_group];
        const std::uint32_t n_blocks = (length(specs_[i]) + kBlockTokens - 1) / kBlockTokens;
        list.insert(list.end(), own.blocks.begin(), own.blocks.begin() + n_blocks);
      }
    }
    return out;
  }
  static Attachment taken(Peer& peer, std::uint64_t id) {
    auto out = peer->take(id);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? std::move(out).value() : Attachment{};
  }

  Peer& lower_;
  Peer& upper_;
  const std::uint32_t split_;
  const std::uint32_t n_layers_;
  std::vector<SequenceSpec> specs_;
  std::uint64_t id_ = 1000;
  std::uint64_t hidden_ = 0;
};

// Tokens of a batch whose prompts are computed: those of `result`, then one of each a step.
std::vector<Text> go_on(Peer& peer, std::vector<SequenceResult> last, std::size_t n_tokens) {
  std::vector<Text> out(last.size());
  for (std::size_t n = 1;; ++n) {
    StepPlan next;
    for (std::size_t i = 0; i < last.size(); ++i) {
      const SequenceId id = last[i].sequence;
      add(out[i], std::move(last[i]));
      next.rows.push_back(
          {.sequence = id, .n_tokens = 1, .continues = true, .emit = Emit::kSample});
    }
    if (n == n_tokens) return out;
    last = peer.run(std::move(next)).sequences;
  }
}

void keep_sampled(StepResult&& from, std::vector<SequenceResult>& to) {
  for (SequenceResult& each : from.sequences)
    if (!each.tokens.empty()) to.push_back(std::move(each));
}

void expect_same_halves(const SmallModelDir& files, const RunnerOptions& options, bool streamed) {
  Peer whole(files.start(options), false);
  const std::uint32_t n_layers = whole->info().n_layers;
  SplitPrompts plain(whole, whole, n_layers);
  const std::uint32_t n_chunks =
      (length(plain.specs().back()) + SplitPrompts::kChunk - 1) / SplitPrompts::kChunk;
  std::vector<SequenceResult> last;
  for (std::uint32_t c = 0; c < n_chunks; ++c)
    keep_sampled(whole.run(plain.chunk_at(c * SplitPrompts::kChunk, true)), last);
  const std::string blocks = plain.blocks_of(whole, {});
  const std::vector<Text> expected = go_on(whole, std::move(last), 5);
  for (std::uint32_t split = 1; split < n_layers; ++split) {
    Peer lower(files.start(options), streamed);
    Peer upper(files.start(options), streamed);
    SplitPrompts halves(lower, upper, split);
    const LayerRange low{.begin = 0, .end = split};
    const LayerRange high{.begin = split, .end = n_layers};
    const std::string above = halves.blocks_of(lower, high);
    const std::string below = halves.blocks_of(upper, low);
    std::vector<SequenceResult> sampled;
    for (std::uint32_t c = 0; c < n_chunks; ++c) {
      const std::uint32_t first = c * SplitPrompts::kChunk;
      const std::string hidden = halves.lower_half(first);
      // All layers of the half at once give the same rows.
      StepPlan once = halves.chunk_at(first, false);
      once.new_sequences.clear();
      once.layers = low;
      once.hidden_out = 7;
      lower.run(std::move(once));
      EXPECT_EQ(lower->take(7)->bytes, hidden) << split;
      keep_sampled(halves.upper_half(first), sampled);
    }
    EXPECT_EQ(halves.blocks_of(lower, high), above) << "a layer that was not in any step";
    EXPECT_EQ(halves.blocks_of(upper, low), below) << "a layer that was not in any step";
    halves.pass_blocks();
    EXPECT_EQ(halves.blocks_of(upper, {}), blocks) << "split at " << split;
    EXPECT_EQ(go_on(upper, std::move(sampled), 5), expected) << "split at " << split;
  }
}

TEST_P(ModelSeams, APromptSplitAnywhereLeavesTheSameBlocks) {
  for (const std::string& fields : few_models()) {
    SCOPED_TRACE(fields);
    const SmallModelDir files(fields);
    RunnerOptions options = small_options();
    options.max_batch_prefill_tokens = 16;  // steps are run in slices
    expect_same_halves(files, options, GetParam());
  }
  const SmallModelDir files(few_models()[0]);
  for (const auto type : {tensor::DType::kBf16, tensor::DType::kI8}) {
    RunnerOptions options = small_options();
    options.kv_dtype = type;
    options.max_batch_prefill_tokens = 64;
    expect_same_halves(files, options, GetParam());
  }
}

TEST(LocalModelSeams, ARangeOfLayersIsCheckedBeforeAnythingIsDone) {
  const SmallModelDir files(few_models()[0]);
  Peer peer(files.start(), false);
  const SequenceSpec spec = spec_of(1, 4);
  const auto plan_of = [&](LayerRange layers, std::uint64_t in, std::uint64_t out) {
    StepPlan plan;
    plan.layers = layers;
    plan.hidden_in = in;
    plan.hidden_out = out;
    plan.new_sequences = {spec};
    plan.dropped = {spec.id};
    plan.rows = {{.sequence = spec.id, .n_tokens = 4, .table_changes = table_of(*peer, 0)}};
    return plan;
  };
  EXPECT_EQ(peer.try_run(plan_of({1, 3}, 9, 0)).status().code(), Code::kNotFound);
  Attachment hidden{.id = 9,
                    .kind = AttachmentKind::kHidden,
                    .bytes = std::string(hidden_attachment_bytes(3, 48), '\0')};
  EXPECT_EQ(peer->attach(hidden).code(), Code::kDataLoss);
  seal_hidden(hidden.bytes);
  ASSERT_TRUE(peer->attach(hidden).ok());
  hidden.id = 10;
  hidden.bytes[100] ^= 1;
  EXPECT_EQ(peer->attach(hidden).message(), "hidden states: a wrong checksum");
  hidden.bytes.pop_back();
  EXPECT_EQ(peer->attach(hidden).code(), Code::kInvalidArgument);
  EXPECT_EQ(peer.try_run(plan_of({1, 3}, 9, 0)).status().message(),
            "the plan is broken: hidden states of 584 bytes for 4 positions of 48 values");
  EXPECT_FALSE(peer.try_run(plan_of({2, 1}, 9, 0)).ok());
  EXPECT_FALSE(peer.try_run(plan_of({1, 4}, 9, 0)).ok());
  EXPECT_FALSE(peer.try_run(plan_of({0, 2}, 0, 0)).ok());
  StepPlan emits = plan_of({0, 2}, 0, 11);
  emits.rows[0].emit = Emit::kSample;
  EXPECT_EQ(peer.run(std::move(emits)).sequences.at(0).status.message(),
            "the plan is broken: a row that emits without the last layer");
  EXPECT_TRUE(peer->take(11).ok());
  EXPECT_TRUE(peer->take(9).ok()) << "refused plans use nothing up";
}

}  // namespace
}  // namespace coxswain::runner
