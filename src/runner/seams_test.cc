// What step_runner.h promises beside rows and tokens, by a LocalRunner in this process and behind a socket: edits,
// forks, candidates, blocks that move between runners, ranges of layers. Everything is compared with a run that
// needed none of it.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "model/test_models.h"
#include "rpc/shard_service.h"
#include "rpc/sharded_client.h"
#include "runner/fake_model.h"
#include "runner/local_runner.h"

namespace coxswain::runner {
namespace {

constexpr std::uint32_t kBlockTokens = 8;
constexpr std::uint32_t kBlocksOfOne = 8;  // room for 64 positions
constexpr std::uint64_t kAttachmentBytes = std::uint64_t{8} << 20;

RunnerOptions small_options() {
  RunnerOptions options;
  options.block_tokens = kBlockTokens;
  options.kv_blocks = 100;
  options.n_threads = 1;
  options.memory_budget_bytes = std::uint64_t{1} << 30;
  options.max_batch_prefill_tokens = 64;
  options.max_batch_size = 8;
  options.attachment_bytes_max = kAttachmentBytes;
  return options;
}

// A runner, driven directly or through a shard's socket.
class Peer {
 public:
  Peer(std::unique_ptr<LocalRunner> runner, bool streamed) : runner_(std::move(runner)) {
    if (!streamed) return;
    codec_ = make_fake_codec();
    auto service =
        rpc::ShardService::start(*runner_, *codec_, {.socket_path = folder_.file("shard-0")}, log_);
    EXPECT_TRUE(service.ok()) << service.status().message();
    service_ = std::move(service).value();
    auto client = rpc::ShardedClient::connect(service_->socket_path(), {});
    EXPECT_TRUE(client.ok()) << client.status().message();
    client_ = std::move(client).value();
  }
  ~Peer() { client_.reset(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  StepRunner& operator*() { return client_ ? static_cast<StepRunner&>(*client_) : *runner_; }
  StepRunner* operator->() { return &**this; }
  LocalRunner& local() { return *runner_; }
  void hang_up() { client_.reset(); }

  Result<StepResult> try_run(StepPlan plan) {
    plan.step = ++step_;
    plan.epoch = runner_->info().epoch;
    return (**this).run(std::move(plan));
  }
  StepResult run(StepPlan plan) {
    auto result = try_run(std::move(plan));
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? std::move(result).value() : StepResult{};
  }

 private:
  base::TempFolder folder_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "seams_test", .file_descriptor = -1}};
  std::unique_ptr<LocalRunner> runner_;
  std::shared_ptr<const TextCodec> codec_;
  std::unique_ptr<rpc::ShardService> service_;
  std::unique_ptr<rpc::ShardedClient> client_;
  std::uint64_t step_ = 100;
};

std::unique_ptr<LocalRunner> fake_runner(const RunnerOptions& options = small_options()) {
  auto runner = LocalRunner::create_with(options, make_fake_model(), make_fake_codec(), "fake-1");
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return std::move(runner).value();
}

// The blocks of the n-th place: no two places share one.
std::vector<BlockTableChange> table_of(StepRunner& runner, std::uint32_t place) {
  std::vector<BlockTableChange> out;
  for (std::uint32_t g = 0; g < runner.info().kv_groups.size(); ++g) {
    BlockTableChange& change = out.emplace_back();
    change.kv_group = g;
    for (std::uint32_t i = 0; i < kBlocksOfOne; ++i)
      change.blocks.push_back(1 + place * kBlocksOfOne + i);
  }
  return out;
}

struct Text {
  std::vector<OutputToken> tokens;
  std::optional<SequenceFinish> finish;
  friend bool operator==(const Text&, const Text&) = default;
};

void add(Text& text, SequenceResult result) {
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  for (OutputToken& token : result.tokens) text.tokens.push_back(std::move(token));
  if (result.finish) text.finish = std::move(result.finish);
}

// Where the blocks of a sequence are, and which of its rows are known and not computed.
struct Known {
  std::uint32_t place = 0;
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

// Rows [known.first, known.end), then up to n_tokens tokens. `plan` comes before the first row.
Text generate(
    Peer& peer, SequenceId id, const Known& known, std::size_t n_tokens, StepPlan plan = {}) {
  const auto [place, first, n_known] = known;
  Text out;
  plan.rows.push_back({.sequence = id,
                       .first_position = first,
                       .n_tokens = n_known - first,
                       .table_changes = table_of(*peer, place),
                       .emit = Emit::kSample});
  add(out, peer.run(std::move(plan)).sequences.at(0));
  while (out.tokens.size() < n_tokens && !out.finish) {
    StepPlan next;
    next.rows = {{.sequence = id, .n_tokens = 1, .continues = true, .emit = Emit::kSample}};
    add(out, peer.run(std::move(next)).sequences.at(0));
  }
  return out;
}

std::vector<SequenceSpec> specs() {
  std::vector<SequenceSpec> out;
  for (std::uint32_t i = 0; i < 6; ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    for (std::uint32_t p = 0; p < 3 + 4 * i; ++p)
      spec.prompt.push_back(static_cast<TokenId>(5 + (p * 7 + i) % 50));
    spec.stopping = {.max_new_tokens = 30, .ignore_eos = i % 2 == 0};
    if (i % 3 == 0) spec.stopping.stop_sequences = {"ab", "z"};
    spec.rope_length = 60;
    spec.sampling.n_top_tokens = i % 3;
    if (i > 1) {
      spec.sampling.do_sample = true;
      spec.sampling.seed = 9 + i;
      spec.sampling.repetition_penalty = i == 2 ? 1.3F : 1.0F;
      spec.sampling.frequency_penalty = i == 3 ? 0.7F : 0.0F;
      spec.sampling.top_p = i == 4 ? 0.9F : 1.0F;
    }
    out.push_back(std::move(spec));
  }
  return out;
}

SequenceSpec with_history(SequenceSpec spec,
                          SequenceId id,
                          const std::vector<OutputToken>& tokens,
                          std::size_t n_output,
                          const std::vector<TokenId>& append) {
  spec.id = id;
  for (std::size_t i = 0; i < n_output; ++i) spec.produced.push_back(tokens[i].id);
  spec.produced.insert(spec.produced.end(), append.begin(), append.end());
  return spec;
}

std::uint32_t length(const SequenceSpec& spec) {
  return static_cast<std::uint32_t>(spec.prompt.size() + spec.produced.size());
}

class Seams : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, Seams, testing::Bool(), [](const auto& over) {
  return over.param ? std::string("stream") : std::string("process");
});

TEST_P(Seams, AnEditedSequenceIsTheOneOfItsHistory) {
  Peer peer(fake_runner(), GetParam());
  const SequenceId other{70};
  const SequenceId fresh{80};
  for (const SequenceSpec& spec : specs()) {
    const auto n_prompt = static_cast<std::uint32_t>(spec.prompt.size());
    for (const auto& [n_output, append] :
         std::vector<std::pair<std::uint32_t, std::vector<TokenId>>>{
             {0, {}}, {0, {9, 9}}, {3, {}}, {3, {7}}, {5, {30, 31, 32}}}) {
      StepPlan start;
      start.new_sequences = {spec};
      const Text before = generate(peer, spec.id, {0, 0, n_prompt}, 6, std::move(start));
      const auto kept =
          static_cast<std::uint32_t>(std::min<std::size_t>(n_output, before.tokens.size()));
      const SequenceSpec same = with_history(spec, fresh, before.tokens, kept, append);
      StepPlan introduce;
      introduce.new_sequences = {same};
      const Text expected = generate(peer, fresh, {1, 0, length(same)}, 12, std::move(introduce));

      StepPlan fork;
      fork.edits = {{.sequence = other, .source = spec.id, .n_output = kept, .append = append}};
      EXPECT_EQ(generate(peer, other, {2, 0, length(same)}, 12, std::move(fork)), expected);

      // The keys of what stays are still there.
      const std::uint32_t computed = std::min(
          n_prompt + kept, n_prompt + static_cast<std::uint32_t>(before.tokens.size()) - 1);
      const std::uint32_t first = append.empty() ? computed - 1 : computed;
      StepPlan rewind;
      rewind.edits = {{.sequence = spec.id, .source = spec.id, .n_output = kept, .append = append}};
      EXPECT_EQ(generate(peer, spec.id, {0, first, length(same)}, 12, std::move(rewind)), expected);

      StepPlan drop;
      drop.dropped = {spec.id, other, fresh};
      peer.run(std::move(drop));
    }
  }
}

TEST_P(Seams, TwoSequencesMayChangePlaces) {
  Peer peer(fake_runner(), GetParam());
  const auto two = specs();
  const auto start = [&](std::size_t i, std::uint32_t place) {
    StepPlan plan;
    plan.new_sequences = {two[i]};
    return generate(peer, two[i].id, {place, 0, length(two[i])}, 3, std::move(plan));
  };
  const Text a = start(0, 0);
  const Text b = start(1, 1);
  StepPlan swap;
  swap.edits = {{.sequence = two[0].id, .source = two[1].id, .n_output = 3},
                {.sequence = two[1].id, .source = two[0].id, .n_output = 3}};
  swap.rows = {
      {.sequence = two[0].id,
       .n_tokens = length(two[1]) + 3,
       .table_changes = table_of(*peer, 2),
       .emit = Emit::kSample},
      {.sequence = two[1].id,
       .n_tokens = length(two[0]) + 3,
       .table_changes = table_of(*peer, 3),
       .emit = Emit::kSample},
  };
  const StepResult swapped = peer.run(std::move(swap));
  for (const std::size_t i : {0U, 1U}) {
    StepPlan fresh;
    fresh.new_sequences = {
        with_history(two[i], SequenceId{90 + i}, i == 0 ? a.tokens : b.tokens, 3, {})};
    const Text expected =
        generate(peer, SequenceId{90 + i}, {4, 0, length(two[i]) + 3}, 1, std::move(fresh));
    EXPECT_EQ(swapped.sequences.at(1 - i).tokens, expected.tokens);
  }
}

TEST_P(Seams, AnEditThatCannotBeDoneFailsItsSequenceAlone) {
  Peer peer(fake_runner(), GetParam());
  const auto two = specs();
  StepPlan start;
  start.new_sequences = {two[0], two[1]};
  const Row good{.sequence = two[1].id,
                 .n_tokens = length(two[1]),
                 .table_changes = table_of(*peer, 1),
                 .emit = Emit::kSample};
  start.rows = {good};
  peer.run(std::move(start));
  for (const SequenceEdit& edit :
       {SequenceEdit{.sequence = SequenceId{50}, .source = SequenceId{51}},
        SequenceEdit{.sequence = SequenceId{50}, .source = two[0].id, .n_output = 1},
        SequenceEdit{.sequence = SequenceId{50}, .source = two[0].id, .append = {9999}},
        SequenceEdit{.sequence = SequenceId{50},
        .source = two[0].id,
        .append = std::vector<TokenId>(30, 7)}}) {
    StepPlan plan;
    plan.edits = {edit};
    plan.rows = {good,
                 {.sequence = edit.sequence,
                  .n_tokens = 1,
                  .table_changes = table_of(*peer, 2),
                  .emit = Emit::kSample}};
    plan.edits.push_back({.sequence = two[1].id, .source = two[1].id, .n_output = 0});
    const StepResult result = peer.run(std::move(plan));
    EXPECT_TRUE(result.sequences.at(0).status.ok());
    EXPECT_EQ(result.sequences.at(0).tokens.size(), 1U);
    EXPECT_FALSE(result.sequences.at(1).status.ok());
  }
}

// A greedy sequence told its own best candidates is the greedy sequence.
TEST_P(Seams, CandidatesAreTheBestProcessedScoresAndNothingIsChosen) {
  Peer peer(fake_runner(), GetParam());
  for (SequenceSpec spec : specs()) {
    spec.stopping.stop_sequences.clear();
    spec.stopping.ignore_eos = true;
    spec.sampling.do_sample = false;
    spec.sampling.n_top_tokens = 5;
    StepPlan start;
    start.new_sequences = {spec};
    const Text greedy = generate(peer, spec.id, {0, 0, length(spec)}, 6, std::move(start));

    const SequenceId told{60};
    StepPlan plan;
    plan.new_sequences = {spec};
    plan.new_sequences[0].id = told;
    plan.new_sequences[0].sampling.n_top_tokens = 0;
    Row row{.sequence = told,
            .n_tokens = length(spec),
            .table_changes = table_of(*peer, 1),
            .emit = Emit::kCandidates,
            .n_candidates = 5};
    for (std::uint32_t n = 0; n < greedy.tokens.size(); ++n) {
      plan.rows = {row};
      const SequenceResult result = peer.run(std::move(plan)).sequences.at(0);
      ASSERT_TRUE(result.status.ok()) << result.status.message();
      EXPECT_TRUE(result.tokens.empty());
      std::vector<TokenAlternative> best = greedy.tokens[n].alternatives;
      best.resize(std::min<std::size_t>(best.size(), 5));
      EXPECT_EQ(result.candidates, best) << n;
      plan = {};
      plan.edits = {{.sequence = told,
                     .source = told,
                     .n_output = n,
                     .append = {result.candidates.at(0).id}}};
      row = {.sequence = told,
             .n_tokens = 1,
             .continues = true,
             .emit = Emit::kCandidates,
             .n_candidates = 5};
    }
    StepPlan drop;
    drop.dropped = {spec.id, told};
    peer.run(std::move(drop));
  }
}

TEST(LocalRunnerSeams, WhatHasNoUseIsRefusedByName) {
  Peer peer(fake_runner(), true);
  const SequenceSpec spec = specs()[0];
  const auto refused = [&](auto change) {
    StepPlan plan;
    plan.new_sequences = {spec};
    plan.rows = {{.sequence = spec.id,
                  .n_tokens = length(spec),
                  .table_changes = table_of(*peer, 0),
                  .emit = Emit::kSample}};
    change(plan);
    const auto result = peer.try_run(std::move(plan));
    return result.ok() ? std::string() : result.status().message();
  };
  EXPECT_EQ(refused([](StepPlan& p) { p.rows[0].n_draft_max = 1; }),
            "plan: `rows.n_draft_max` is 1, this runner has draft_tokens_max 0");
  EXPECT_EQ(refused([](StepPlan& p) { p.rows[0].n_candidates = 1; }),
            "plan: `rows.n_candidates` is for rows that emit candidates");
  EXPECT_EQ(refused([](StepPlan& p) {
              p.rows[0].emit = Emit::kCandidates;
              p.rows[0].n_candidates = 65;
            }),
            "plan: `rows.n_candidates` is 65, this runner has candidates_max 64");
  EXPECT_EQ(refused([](StepPlan& p) { p.hidden_in = 3; }),
            "plan: `hidden_in` is for ranges that begin behind layer 0");
  EXPECT_EQ(refused([](StepPlan& p) { p.layers = {.begin = 0, .end = 1}; }),
            "plan: `hidden_out` is missing: the range ends before the last layer");
  EXPECT_EQ(
      refused([](StepPlan& p) { p.moves = {{.from = {.id = 1}, .to = {.tier = 1, .id = 1}}}; }),
      "plan: `moves` names tier 1, this runner has tier 0 alone");
  EXPECT_EQ(refused([](StepPlan& p) { p.imports = {{.attachment = 4, .blocks = {{1}}}}; }),
            "plan: `imports` has blocks of 1 KV groups, not of 2");
  EXPECT_EQ(refused([](StepPlan& p) {
              p.exports = {{.attachment = 0, .blocks = {{1}, {1}}}};
            }),
            "plan: `exports` names no attachment");
  EXPECT_EQ(refused([](StepPlan&) {}), "");
}

TEST_P(Seams, AttachmentsAreBoundedAndOfKnownKinds) {
  Peer peer(fake_runner(), GetParam());
  for (const AttachmentKind kind :
       {AttachmentKind::kGrammar, AttachmentKind::kMedia, AttachmentKind::kAdapter}) {
    const Status status = peer->attach({.id = 1, .kind = kind, .bytes = "x"});
    EXPECT_EQ(status.code(), Code::kUnimplemented);
    EXPECT_NE(status.message().find(name_of(kind)), std::string::npos) << status.message();
  }
  EXPECT_EQ(peer->attach({.id = 1, .kind = AttachmentKind::kHidden, .bytes = "abc"}).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(peer->attach({.id = 1, .kind = AttachmentKind::kBlocks, .bytes = "abc"}).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(peer->attach({.id = 0, .kind = AttachmentKind::kHidden}).code(),
            Code::kInvalidArgument);
  // Several parts of a message's size; a hole in the middle would show.
  Attachment large{.id = 2, .kind = AttachmentKind::kHidden, .bytes = std::string(5 << 20, 'x')};
  for (std::size_t i = 0; i < large.bytes.size(); i += 4096)
    large.bytes[i] = static_cast<char>(i >> 12U);
  EXPECT_TRUE(peer->attach(large).ok());
  EXPECT_TRUE(peer->attach(large).ok());  // again
  Attachment other = large;
  other.bytes[0] ^= 1;
  EXPECT_EQ(peer->attach(other).code(), Code::kFailedPrecondition);
  other.id = 3;
  const Status full = peer->attach(other);
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_NE(full.message().find("attachment_bytes_max 8388608"), std::string::npos)
      << full.message();
  const auto back = peer->take(2);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, large);
  EXPECT_EQ(peer->take(2).status().code(), Code::kNotFound);
  EXPECT_TRUE(peer->attach(other).ok());
  EXPECT_TRUE(peer->detach(3).ok());
  EXPECT_TRUE(peer->detach(3).ok());
  EXPECT_EQ(peer->take(3).status().code(), Code::kNotFound);
  Attachment beyond{.id = 4, .kind = AttachmentKind::kHidden, .bytes = std::string(16 << 20, 'x')};
  EXPECT_EQ(peer->attach(beyond).code(), Code::kResourceExhausted);
}

TEST(LocalRunnerSeams, AStreamThatEndsTakesItsAttachmentsWithIt) {
  Peer peer(fake_runner(), true);
  peer.run({});
  ASSERT_TRUE(peer->attach({.id = 5, .kind = AttachmentKind::kHidden}).ok());
  peer.hang_up();
  for (int i = 0; i < 1000 && peer.local().take(5).ok();
       ++i) {  // put back until the shard has noticed
    EXPECT_TRUE(peer.local().attach({.id = 5, .kind = AttachmentKind::kHidden}).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(peer.local().take(5).status().code(), Code::kNotFound);
}

TEST_P(Seams, AWaitEndsAtItsTime) {
  Peer peer(fake_runner(), GetParam());
  const auto ticket = peer->submit({.step = 1, .epoch = peer->info().epoch});
  ASSERT_TRUE(ticket.ok());
  auto result = peer->wait(*ticket, Clock::now() - std::chrono::seconds(1));
  if (result.ok()) return;  // it was there
  EXPECT_EQ(result.status().code(), Code::kDeadlineExceeded);
  result = peer->wait(*ticket, Clock::now() + std::chrono::minutes(1));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->step, 1U);
}

TEST(LocalRunnerSeams, WithoutRoomThereAreNoAttachments) {
  RunnerOptions options = small_options();
  options.attachment_bytes_max = 0;
  Peer peer(fake_runner(options), false);
  EXPECT_FALSE(peer->info().capabilities.attachments || peer->info().capabilities.layer_ranges);
  EXPECT_EQ(peer->attach({.id = 1}).code(), Code::kUnimplemented);
  EXPECT_EQ(peer->take(1).status().code(), Code::kNotFound);
}

// ---- real models ----

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

TEST_P(Seams, ASequenceThatMovesGoesOnAsIfItHadStayed) {
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
TEST_P(Seams, APartOfABlockIsTakenFromAnotherSequence) {
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

TEST(LocalRunnerSeams, BlocksOfAnotherLayoutAreRefusedByName) {
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

TEST_P(Seams, LayersSplitAnywhereGiveTheSameBits) {
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

TEST(LocalRunnerSeams, ARangeOfLayersIsCheckedBeforeAnythingIsDone) {
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
  ASSERT_TRUE(
      peer->attach(
              {.id = 9, .kind = AttachmentKind::kHidden, .bytes = std::string(3 * 48 * 4, '\0')})
          .ok());
  EXPECT_EQ(peer.try_run(plan_of({1, 3}, 9, 0)).status().message(),
            "the plan is broken: hidden states of 576 bytes for 4 positions of 48 values");
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
