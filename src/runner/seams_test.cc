// What step_runner.h promises beside rows and tokens, by a LocalRunner in this process and behind a socket: edits,
// forks, candidates, attachments, waits that end at a time. Everything is compared with a run that needed none of it.

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runner/hidden_states.h"
#include "runner/testing/seam_peer.h"

namespace coxswain::runner {
namespace {

using testing::fake_runner;
using testing::generate;
using testing::kAttachmentBytes;
using testing::length;
using testing::Peer;
using testing::small_options;
using testing::table_of;
using testing::Text;
using testing::with_history;

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

class Seams : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, Seams, ::testing::Bool(), [](const auto& over) {
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
  EXPECT_EQ(refused([](StepPlan& p) { p.rows[0].n_draft_max = 9; }),
            "plan: `rows.n_draft_max` is 9, this runner has draft_tokens_max 0");
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

// Rows of that many bytes, with their checksum.
Attachment hidden_of(std::uint64_t id, std::string rows) {
  rows.resize(rows.size() + sizeof(std::uint64_t));
  seal_hidden(rows);
  return {.id = id, .kind = AttachmentKind::kHidden, .bytes = std::move(rows)};
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
  Attachment large = hidden_of(2, std::string(5 << 20, 'x'));
  for (std::size_t i = 0; i < large.bytes.size() - sizeof(std::uint64_t); i += 4096)
    large.bytes[i] = static_cast<char>(i >> 12U);
  seal_hidden(large.bytes);
  EXPECT_TRUE(peer->attach(large).ok());
  EXPECT_TRUE(peer->attach(large).ok());  // again
  Attachment other = large;
  other.bytes[0] ^= 1;
  EXPECT_EQ(peer->attach(other).code(), Code::kDataLoss);
  seal_hidden(other.bytes);
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
  EXPECT_EQ(peer->attach(hidden_of(4, std::string(16 << 20, 'x'))).code(),
            Code::kResourceExhausted);
}

TEST(LocalRunnerSeams, AStreamThatEndsTakesItsAttachmentsWithIt) {
  Peer peer(fake_runner(), true);
  peer.run({});
  ASSERT_TRUE(peer->attach(hidden_of(5, {})).ok());
  BlockTransfer made{.attachment = 6};
  made.blocks.resize(peer->info().kv_groups.size(), {1});
  ASSERT_EQ(peer->export_blocks(made), Status());
  peer.hang_up();
  for (int i = 0; i < 1000 && peer.local().take(5).ok();
       ++i) {  // put back until the shard has noticed
    EXPECT_TRUE(peer.local().attach(hidden_of(5, {})).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(peer.local().take(5).status().code(), Code::kNotFound);
  // Another one needs the whole room.
  const Attachment whole = hidden_of(7, std::string(kAttachmentBytes - 512, 'x'));
  for (int i = 0; i < 1000 && !peer.local().attach(whole).ok(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(peer.local().take(6).status().code(), Code::kNotFound);
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

}  // namespace
}  // namespace coxswain::runner
