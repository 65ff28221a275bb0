#include "rpc/convert.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <rapidcheck.h>

#include <gtest/gtest.h>
#include <proto/engine_v1.pb.h>

namespace coxswain::rpc {
namespace {

template <typename T>
std::vector<T> some(const rc::Gen<T>& gen) {
  return *rc::gen::resize(6, rc::gen::container<std::vector<T>>(gen));
}

std::uint32_t any_u32() {
  return *rc::gen::arbitrary<std::uint32_t>();
}
std::uint64_t any_u64() {
  return *rc::gen::arbitrary<std::uint64_t>();
}
bool any_bool() {
  return *rc::gen::arbitrary<bool>();
}
float any_float() {
  return static_cast<float>(*rc::gen::arbitrary<double>());
}
// Bytes of every value, invalid UTF-8 included.
std::string any_bytes() {
  return *rc::gen::resize(20, rc::gen::arbitrary<std::string>());
}
// Fields that are text on the wire.
std::string any_text() {
  return *rc::gen::resize(20, rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '~')));
}
TokenId any_token() {
  return *rc::gen::inRange<TokenId>(0, std::numeric_limits<TokenId>::max());
}
std::vector<TokenId> any_tokens() {
  return some(rc::gen::exec([] { return any_token(); }));
}

SamplingParams any_sampling() {
  SamplingParams p;
  p.do_sample = any_bool();
  p.temperature = any_float();
  p.top_k = any_token();
  p.top_p = any_float();
  p.typical_p = any_float();
  p.min_p = any_float();
  p.repetition_penalty = any_float();
  p.relative_frequency_penalty = any_float();
  p.frequency_penalty = any_float();
  p.presence_penalty = any_float();
  for (const TokenId id : any_tokens()) p.logit_bias.emplace_back(id, any_float());
  p.seed = any_u64();
  p.n_top_tokens = any_u32();
  p.penalties_count_prompt = any_bool();
  p.no_repeat_ngram_size = any_u32();
  p.logits_processor = any_text();
  p.logits_processor_tag = any_u64();
  if (any_bool()) p.grammar.bytes = std::make_shared<const std::string>("g" + any_bytes());
  if (any_bool()) {
    const auto some_ids = [](std::uint32_t least) {
      std::vector<TokenId> ids(least + any_u32() % 64);
      for (TokenId& id : ids) id = any_token();
      return ids;
    };
    p.thoughts.emplace(
        ThoughtBudget{.tokens_max = any_u32(), .open = some_ids(0), .close = some_ids(1)});
  }
  p.bad_words = some(rc::gen::exec([] { return any_tokens(); }));
  p.allowed_tokens = any_tokens();
  for (float* value : {&p.epsilon_cutoff,
                       &p.eta_cutoff,
                       &p.top_n_sigma,
                       &p.dynatemp_range,
                       &p.dynatemp_exponent,
                       &p.xtc_probability,
                       &p.xtc_threshold,
                       &p.dry_multiplier,
                       &p.dry_base})
    *value = any_float();
  p.dry_allowed_length = any_u32();
  p.dry_penalty_last_n = any_u32();
  p.dry_sequence_breakers = some(rc::gen::exec([] { return any_bytes(); }));
  p.watermark = any_bool();
  p.samplers = some(rc::gen::map(rc::gen::inRange(0, 10),
                                 [](int step) { return static_cast<SamplerStep>(step); }));
  return p;
}

SequenceSpec any_spec() {
  SequenceSpec spec;
  spec.id = SequenceId{any_u64()};
  spec.prompt = any_tokens();
  spec.produced = any_tokens();
  spec.draft = any_tokens();
  spec.sampling = any_sampling();
  spec.stopping.max_new_tokens = any_u32();
  spec.stopping.stop_sequences = some(rc::gen::exec([] { return any_bytes(); }));
  spec.stopping.ignore_eos = any_bool();
  if (any_bool()) spec.stopping.order = FinishOrder::kStopFirst;
  spec.stopping.min_new_tokens = any_u32();
  spec.stopping.end_ids = any_tokens();
  spec.stopping.stop_token_sequences = some(rc::gen::exec([] { return any_tokens(); }));
  spec.prompt_logprobs = any_bool();
  spec.rope_length = any_u32();
  spec.adapter_digest = any_text();
  spec.cache_salt = any_bytes();
  spec.outputs = {.context_logits = any_bool(),
                  .generation_logits = any_bool(),
                  .context_hidden = any_bool(),
                  .generation_hidden = any_bool()};
  return spec;
}

Row any_row() {
  Row row;
  row.sequence = SequenceId{any_u64()};
  row.first_position = any_u32();
  row.n_tokens = any_u32();
  row.tokens = any_tokens();
  row.continues = any_bool();
  row.n_draft_max = any_u32();
  row.n_candidates = any_u32();
  row.table_changes = some(rc::gen::exec([] {
    return BlockTableChange{.kv_group = any_u32(),
                            .first_index = any_u32(),
                            .blocks = some(rc::gen::arbitrary<std::uint32_t>())};
  }));
  row.emit = static_cast<Emit>(*rc::gen::inRange(0, 3));
  row.prompt_logprobs = any_bool();
  row.context_outputs = any_bool();
  return row;
}

BlockRef any_block() {
  return {.tier = *rc::gen::arbitrary<std::uint8_t>(), .id = any_u32()};
}

BlockTransfer any_transfer() {
  return {.attachment = any_u64(),
          .blocks = some(rc::gen::exec([] { return some(rc::gen::arbitrary<BlockId>()); })),
          .layers = {.begin = any_u32(), .end = any_u32()}};
}

StepPlan any_plan() {
  StepPlan plan;
  plan.step = any_u64();
  plan.epoch = any_u64();
  plan.layers = {.begin = any_u32(), .end = any_u32()};
  plan.new_sequences = some(rc::gen::exec([] { return any_spec(); }));
  plan.dropped = some(rc::gen::exec([] { return SequenceId{any_u64()}; }));
  plan.moves = some(rc::gen::exec(
      [] { return BlockMove{.kv_group = any_u32(), .from = any_block(), .to = any_block()}; }));
  plan.edits = some(rc::gen::exec([] {
    return SequenceEdit{.sequence = SequenceId{any_u64()},
                        .source = SequenceId{any_u64()},
                        .n_output = any_u32(),
                        .append = any_tokens()};
  }));
  plan.hidden_in = any_u64();
  plan.hidden_out = any_u64();
  plan.imports = some(rc::gen::exec([] { return any_transfer(); }));
  plan.exports = some(rc::gen::exec([] { return any_transfer(); }));
  plan.rows = some(rc::gen::exec([] { return any_row(); }));
  return plan;
}

std::vector<TokenAlternative> any_alternatives() {
  return some(rc::gen::exec([] {
    return TokenAlternative{
        .id = any_token(), .logprob = any_float(), .special = any_bool(), .text = any_bytes()};
  }));
}

SequenceResult any_sequence_result() {
  SequenceResult r;
  r.sequence = SequenceId{any_u64()};
  if (any_bool()) {
    r.status = Status(static_cast<Code>(*rc::gen::inRange(1, 11)),
                      static_cast<ErrorKind>(*rc::gen::inRange(0, 22)),
                      any_text(),
                      any_text());
  }
  r.tokens = some(rc::gen::exec([] {
    OutputToken token{.id = any_token(),
                      .logprob = any_float(),
                      .special = any_bool(),
                      .text = any_bytes(),
                      .alternatives = {}};
    token.alternatives = any_alternatives();
    return token;
  }));
  r.candidates = any_alternatives();
  r.next_position = any_u32();
  r.n_drafts = any_u32();
  r.prompt = some(rc::gen::exec([] {
    return PromptToken{.id = any_token(),
                       .logprob = any_float(),
                       .text = any_bytes(),
                       .alternatives = any_alternatives()};
  }));
  if (any_bool()) {
    SequenceFinish finish;
    finish.reason = static_cast<FinishReason>(*rc::gen::inRange(0, 3));
    finish.generated_text = any_bytes();
    finish.stop_text_begin = *rc::gen::inRange<std::size_t>(0, finish.generated_text.size() + 1);
    r.finish = finish;
  }
  return r;
}

// Through bytes, as on the wire.
template <typename Message, typename Value>
auto round_trip(const Value& value) {
  Message sent;
  to_proto(value, sent);
  Message received;
  RC_ASSERT(received.ParseFromString(sent.SerializeAsString()));
  return from_proto(received);
}

TEST(Convert, AnyPlanSurvives) {
  EXPECT_TRUE(rc::check([] {
    const StepPlan plan = any_plan();
    const auto back = round_trip<pb::StepPlan>(plan);
    RC_ASSERT(back.ok());
    RC_ASSERT(*back == plan);
  }));
}

TEST(Convert, AnyResultSurvives) {
  EXPECT_TRUE(rc::check([] {
    StepResult result;
    result.step = any_u64();
    result.epoch = any_u64();
    result.sequences = some(rc::gen::exec([] { return any_sequence_result(); }));
    result.layers_ready = {.begin = any_u32(), .end = any_u32()};
    result.timings = {.forward = std::chrono::nanoseconds(any_u32()),
                      .sample = std::chrono::nanoseconds(any_u32()),
                      .total = std::chrono::nanoseconds(any_u32())};
    const auto back = round_trip<pb::StepResult>(result);
    RC_ASSERT(back.ok());
    RC_ASSERT(*back == result);
  }));
}

TEST(Convert, InfoSurvives) {
  RunnerInfo info;
  info.engine_version = "1.2.3";
  info.epoch = 0xFFFFFFFFFFFFFFFFu;
  info.model_id = "m";
  info.model_type = "llama";
  info.dtype = "bfloat16";
  info.device_type = "cpu";
  info.kernel_set_id = "avx2/1";
  info.model_fingerprint = 12345678901234567u;
  info.vocab_size = 32000;
  info.hidden_size = 2048;
  info.n_layers = 12;
  info.max_position_embeddings = 2048;
  info.max_input_tokens = 1;
  info.max_total_tokens = 2;
  info.block_tokens = 32;
  info.kv_groups = {{.layers = {0, 2},
                     .kind = KvGroup::Kind::kFull,
                     .window = 0,
                     .bytes_per_block = 9,
                     .n_blocks = 10},
                    {.layers = {1},
                     .kind = KvGroup::Kind::kWindow,
                     .window = 64,
                     .sink_tokens = 4,
                     .bytes_per_block = 7,
                     .n_blocks = 8,
                     .dtype = "bfloat16",
                     .n_kv_heads = 3,
                     .k_dim = 128,
                     .v_dim = 64}};
  info.eos_token_ids = {2, 7};
  info.rope_switch_length = 4096;
  info.rope_length_is_exact = true;
  info.adapter_pages = 30;
  info.capabilities = {.plans_chunks = true,
                       .selects_rows = false,
                       .grows_blocks = true,
                       .takes_ids = false,
                       .look_ahead = true,
                       .edits = true,
                       .layer_ranges = false,
                       .attachments = true,
                       .moves = true,
                       .exports_beside = true,
                       .plans_in_flight_max = 3,
                       .draft_tokens_max = 4,
                       .candidates_max = 5,
                       .tiers = 6,
                       .attachment_bytes_max = std::uint64_t{1} << 40};
  pb::InfoResponse message;
  to_proto(info, message);
  const auto back = from_proto(message);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->epoch, info.epoch);
  EXPECT_EQ(back->kv_groups, info.kv_groups);
  EXPECT_EQ(back->eos_token_ids, info.eos_token_ids);
  EXPECT_EQ(back->hidden_size, info.hidden_size);
  EXPECT_EQ(back->kernel_set_id, info.kernel_set_id);
  // The rest: the message made from the copy is the same.
  pb::InfoResponse again;
  to_proto(*back, again);
  EXPECT_EQ(again.SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(back->capabilities, info.capabilities);
  // What only this process could use is not told.
  info.capabilities.top_tokens_max = kLocalTopTokensMax;
  info.capabilities.output_bytes_max = 1;
  info.logits_processors = {"mine"};
  to_proto(info, again);
  EXPECT_EQ(from_proto(again)->capabilities, back->capabilities);
  EXPECT_TRUE(from_proto(again)->logits_processors.empty());
  // A peer from before the numbers.
  message.mutable_capabilities()->clear_plans_in_flight_max();
  message.mutable_capabilities()->clear_tiers();
  EXPECT_EQ(from_proto(message)->capabilities.plans_in_flight_max, 2u);
  EXPECT_EQ(from_proto(message)->capabilities.tiers, 1u);
}

TEST(Convert, NotANumberSurvives) {
  StepResult result;
  result.sequences.push_back({});
  result.sequences[0].prompt.push_back(
      {.id = 1, .logprob = std::numeric_limits<float>::quiet_NaN(), .text = "a"});
  pb::StepResult message;
  to_proto(result, message);
  const auto back = from_proto(message);
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(std::isnan(back->sequences[0].prompt[0].logprob));
}

TEST(Convert, UnknownEnumsAreRefused) {
  pb::StepPlan plan;
  plan.add_rows()->set_emit(static_cast<pb::Emit>(9));
  EXPECT_EQ(from_proto(plan).status().field(), "rows.emit");

  pb::StepPlan tiers;
  tiers.add_moves()->set_to_tier(256);
  EXPECT_EQ(from_proto(tiers).status().field(), "moves");

  pb::StepResult result;
  result.add_sequences()->mutable_finish()->set_reason(static_cast<pb::FinishReason>(3));
  EXPECT_EQ(from_proto(result).status().field(), "finish.reason");

  pb::InfoResponse info;
  info.add_kv_groups()->set_kind(static_cast<pb::KvGroupKind>(4));
  EXPECT_EQ(from_proto(info).status().field(), "kv_groups.kind");

  pb::Status status;
  status.set_code(static_cast<pb::Code>(11));
  EXPECT_EQ(from_proto(status).code(), Code::kInvalidArgument);
  status.set_code(pb::CODE_INTERNAL);
  status.set_kind(static_cast<pb::ErrorKind>(23));
  EXPECT_EQ(from_proto(status).field(), "status.kind");
}

TEST(Convert, TokenIdsBeyondTheTypeAreRefused) {
  pb::StepPlan plan;
  plan.add_rows()->add_tokens(0x80000000u);
  EXPECT_EQ(from_proto(plan).status().message(),
            "`rows.tokens` must be below 2^31. Given: 2147483648");
  StepPlan negative;
  negative.rows.push_back({});
  negative.rows[0].tokens = {-1};
  pb::StepPlan message;
  to_proto(negative, message);
  EXPECT_EQ(from_proto(message).status().code(), Code::kInvalidArgument);
}

TEST(Convert, CapsHoldAtTheirBoundary) {
  pb::StepPlan plan;
  for (std::size_t i = 0; i < kPlanSequencesMax; ++i) plan.add_rows();
  EXPECT_TRUE(from_proto(plan).ok());
  plan.add_rows();
  EXPECT_EQ(from_proto(plan).status().message(),
            "`rows` must have at most 65536 entries. Given: 65537");

  pb::StepPlan changes;
  for (std::size_t i = 0; i < kPlanTableChangesMax; ++i) {
    if (i % 65536 == 0) changes.add_rows();
    changes.mutable_rows(changes.rows_size() - 1)->add_table_changes();
  }
  EXPECT_TRUE(from_proto(changes).ok());
  changes.mutable_rows(0)->add_table_changes();
  EXPECT_EQ(from_proto(changes).status().field(), "rows.table_changes");
}

TEST(Convert, AGrammarHasABoundedNumberOfBytes) {
  pb::StepPlan plan;
  pb::SamplingParams& sampling = *plan.add_new_sequences()->mutable_sampling();
  sampling.set_grammar(std::string(8'388'608, 'g'));
  const auto longest = from_proto(plan);
  ASSERT_TRUE(longest.ok());
  EXPECT_EQ(longest->new_sequences[0].sampling.grammar.size(), 8'388'608U);
  sampling.mutable_grammar()->push_back('g');
  EXPECT_EQ(from_proto(plan).status().field(), "grammar");
  EXPECT_EQ(from_proto(plan).status().message(),
            "`grammar` must be at most 8388608 bytes when compiled. Given: 8388609");
  sampling.clear_grammar();
  EXPECT_FALSE(from_proto(plan)->new_sequences[0].sampling.grammar);
  sampling.add_samplers(9);
  EXPECT_TRUE(from_proto(plan).ok());
  sampling.add_samplers(10);
  EXPECT_EQ(from_proto(plan).status().message(), "`sampling.samplers` must be below 10. Given: 10");
}

TEST(Convert, AStopOffsetBehindTheTextIsRefused) {
  pb::StepResult result;
  pb::SequenceFinish& finish = *result.add_sequences()->mutable_finish();
  finish.set_generated_text("ab");
  finish.set_stop_text_begin(2);
  EXPECT_TRUE(from_proto(result).ok());
  finish.set_stop_text_begin(3);
  EXPECT_EQ(from_proto(result).status().field(), "finish.stop_text_begin");
}

}  // namespace
}  // namespace coxswain::rpc
