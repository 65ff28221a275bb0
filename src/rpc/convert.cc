#include "rpc/convert.h"

#include <proto/engine_v1.pb.h>

#include "rpc/convert_detail.h"

namespace coxswain::rpc {

using detail::count_up;
using detail::token_from_wire;
using detail::tokens_from_wire;
using detail::tokens_to_wire;
using detail::unknown_enum;

// Enum numbers on the wire are those of the C++ enums.
static_assert(static_cast<int>(Code::kInternal) == pb::Code_MAX);
static_assert(static_cast<int>(ErrorKind::kContextLength) == pb::ErrorKind_MAX);
static_assert(static_cast<int>(KvGroup::Kind::kState) == pb::KvGroupKind_MAX);
static_assert(static_cast<int>(Emit::kCandidates) == pb::Emit_MAX);
static_assert(static_cast<int>(FinishReason::kStopSequence) == pb::FinishReason_MAX);
static_assert(static_cast<int>(AttachmentKind::kBlocks) == pb::AttachmentKind_MAX);

namespace {

template <typename Field>
void blocks_to_proto(const std::vector<BlockId>& from, Field& to) {
  to.Reserve(static_cast<int>(from.size()));
  for (const BlockId id : from) to.Add(id);
}

void row_to_proto(const Row& from, pb::Row& to) {
  to.set_sequence(static_cast<std::uint64_t>(from.sequence));
  to.set_first_position(from.first_position);
  to.set_n_tokens(from.n_tokens);
  tokens_to_wire(from.tokens, *to.mutable_tokens());
  to.set_continues(from.continues);
  to.set_n_draft_max(from.n_draft_max);
  for (const BlockTableChange& change : from.table_changes) {
    pb::BlockTableChange& entry = *to.add_table_changes();
    entry.set_kv_group(change.kv_group);
    entry.set_first_index(change.first_index);
    blocks_to_proto(change.blocks, *entry.mutable_blocks());
  }
  to.set_emit(static_cast<pb::Emit>(from.emit));
  to.set_n_candidates(from.n_candidates);
  to.set_prompt_logprobs(from.prompt_logprobs);
  to.set_context_outputs(from.context_outputs);
}

Result<Row> row_from_proto(const pb::Row& from, std::size_t& n_changes) {
  Row to;
  to.sequence = SequenceId{from.sequence()};
  to.first_position = from.first_position();
  to.n_tokens = from.n_tokens();
  COXSWAIN_ASSIGN_OR_RETURN(to.tokens, tokens_from_wire(from.tokens(), "rows.tokens"));
  to.continues = from.continues();
  to.n_draft_max = from.n_draft_max();
  const auto n = static_cast<std::size_t>(from.table_changes_size());
  COXSWAIN_RETURN_IF_ERROR(count_up(n_changes, n, kPlanTableChangesMax, "rows.table_changes"));
  to.table_changes.reserve(n);
  for (const pb::BlockTableChange& change : from.table_changes()) {
    to.table_changes.push_back({.kv_group = change.kv_group(),
                                .first_index = change.first_index(),
                                .blocks = {change.blocks().begin(), change.blocks().end()}});
  }
  if (!pb::Emit_IsValid(from.emit())) return unknown_enum("rows.emit", from.emit());
  to.emit = static_cast<Emit>(from.emit());
  to.n_candidates = from.n_candidates();
  to.prompt_logprobs = from.prompt_logprobs();
  to.context_outputs = from.context_outputs();
  return to;
}

using AlternativeList = google::protobuf::RepeatedPtrField<pb::TokenAlternative>;

void alternatives_to_proto(const std::vector<TokenAlternative>& from, AlternativeList& to) {
  for (const TokenAlternative& alternative : from) {
    pb::TokenAlternative& entry = *to.Add();
    entry.set_id(static_cast<std::uint32_t>(alternative.id));
    entry.set_logprob(alternative.logprob);
    entry.set_special(alternative.special);
    entry.set_text(alternative.text);
  }
}

Result<std::vector<TokenAlternative>> alternatives_from_proto(const AlternativeList& from,
                                                              std::string_view field) {
  std::vector<TokenAlternative> to;
  to.reserve(static_cast<std::size_t>(from.size()));
  for (const pb::TokenAlternative& entry : from) {
    COXSWAIN_ASSIGN_OR_RETURN(const TokenId id, token_from_wire(entry.id(), field));
    to.push_back(
        {.id = id, .logprob = entry.logprob(), .special = entry.special(), .text = entry.text()});
  }
  return to;
}

void output_to_proto(const OutputToken& from, pb::OutputToken& to) {
  to.set_id(static_cast<std::uint32_t>(from.id));
  to.set_logprob(from.logprob);
  to.set_special(from.special);
  to.set_text(from.text);
  alternatives_to_proto(from.alternatives, *to.mutable_alternatives());
}

Result<OutputToken> output_from_proto(const pb::OutputToken& from, std::size_t& n_items) {
  const auto n = static_cast<std::size_t>(from.alternatives_size());
  COXSWAIN_RETURN_IF_ERROR(count_up(n_items, n + 1, kResultItemsMax, "sequences.tokens"));
  OutputToken to;
  COXSWAIN_ASSIGN_OR_RETURN(to.id, token_from_wire(from.id(), "sequences.tokens.id"));
  to.logprob = from.logprob();
  to.special = from.special();
  to.text = from.text();
  COXSWAIN_ASSIGN_OR_RETURN(
      to.alternatives,
      alternatives_from_proto(from.alternatives(), "sequences.tokens.alternatives.id"));
  return to;
}

Result<PromptToken> prompt_from_proto(const pb::PromptToken& from, std::size_t& n_items) {
  const auto n = static_cast<std::size_t>(from.alternatives_size());
  COXSWAIN_RETURN_IF_ERROR(count_up(n_items, n + 1, kResultItemsMax, "sequences.prompt"));
  PromptToken to;
  COXSWAIN_ASSIGN_OR_RETURN(to.id, token_from_wire(from.id(), "sequences.prompt.id"));
  to.logprob = from.logprob();
  to.text = from.text();
  COXSWAIN_ASSIGN_OR_RETURN(
      to.alternatives,
      alternatives_from_proto(from.alternatives(), "sequences.prompt.alternatives.id"));
  return to;
}

void sequence_to_proto(const SequenceResult& from, pb::SequenceResult& to) {
  to.set_sequence(static_cast<std::uint64_t>(from.sequence));
  if (!from.status.ok()) to_proto(from.status, *to.mutable_status());
  for (const OutputToken& token : from.tokens) output_to_proto(token, *to.add_tokens());
  for (const PromptToken& token : from.prompt) {
    pb::PromptToken& entry = *to.add_prompt();
    entry.set_id(static_cast<std::uint32_t>(token.id));
    entry.set_logprob(token.logprob);
    entry.set_text(token.text);
    alternatives_to_proto(token.alternatives, *entry.mutable_alternatives());
  }
  alternatives_to_proto(from.candidates, *to.mutable_candidates());
  to.set_next_position(from.next_position);
  to.set_n_drafts(from.n_drafts);
  if (!from.finish) return;
  to.mutable_finish()->set_reason(static_cast<pb::FinishReason>(from.finish->reason));
  to.mutable_finish()->set_generated_text(from.finish->generated_text);
  to.mutable_finish()->set_stop_text_begin(from.finish->stop_text_begin);
}

Result<SequenceFinish> finish_from_proto(const pb::SequenceFinish& from) {
  if (!pb::FinishReason_IsValid(from.reason())) return unknown_enum("finish.reason", from.reason());
  if (from.stop_text_begin() > from.generated_text().size()) {
    return invalid_argument(
        "`finish.stop_text_begin` lies behind the text: " + std::to_string(from.stop_text_begin()),
        "finish.stop_text_begin");
  }
  return SequenceFinish{.reason = static_cast<FinishReason>(from.reason()),
                        .generated_text = from.generated_text(),
                        .stop_text_begin = from.stop_text_begin()};
}

Result<SequenceResult> sequence_from_proto(const pb::SequenceResult& from, std::size_t& n_items) {
  SequenceResult to;
  to.sequence = SequenceId{from.sequence()};
  if (from.has_status()) to.status = from_proto(from.status());
  to.tokens.reserve(static_cast<std::size_t>(from.tokens_size()));
  for (const pb::OutputToken& token : from.tokens()) {
    COXSWAIN_ASSIGN_OR_RETURN(OutputToken output, output_from_proto(token, n_items));
    to.tokens.push_back(std::move(output));
  }
  to.prompt.reserve(static_cast<std::size_t>(from.prompt_size()));
  for (const pb::PromptToken& token : from.prompt()) {
    COXSWAIN_ASSIGN_OR_RETURN(PromptToken prompt, prompt_from_proto(token, n_items));
    to.prompt.push_back(std::move(prompt));
  }
  if (from.candidates_size() > 0) {
    const auto n = static_cast<std::size_t>(from.candidates_size());
    COXSWAIN_RETURN_IF_ERROR(count_up(n_items, n, kResultItemsMax, "sequences.candidates"));
    COXSWAIN_ASSIGN_OR_RETURN(
        to.candidates, alternatives_from_proto(from.candidates(), "sequences.candidates.id"));
  }
  to.next_position = from.next_position();
  to.n_drafts = from.n_drafts();
  if (from.has_finish()) {
    COXSWAIN_ASSIGN_OR_RETURN(to.finish, finish_from_proto(from.finish()));
  }
  return to;
}

void group_to_proto(const KvGroup& from, pb::KvGroup& to) {
  blocks_to_proto(from.layers, *to.mutable_layers());
  to.set_kind(static_cast<pb::KvGroupKind>(from.kind));
  to.set_window(from.window);
  to.set_sink_tokens(from.sink_tokens);
  to.set_bytes_per_block(from.bytes_per_block);
  to.set_n_blocks(from.n_blocks);
  to.set_dtype(from.dtype);
  to.set_n_kv_heads(from.n_kv_heads);
  to.set_k_dim(from.k_dim);
  to.set_v_dim(from.v_dim);
}

Result<KvGroup> group_from_proto(const pb::KvGroup& from) {
  std::size_t n_layers = 0;
  COXSWAIN_RETURN_IF_ERROR(count_up(
      n_layers, static_cast<std::size_t>(from.layers_size()), kInfoItemsMax, "kv_groups.layers"));
  if (!pb::KvGroupKind_IsValid(from.kind())) return unknown_enum("kv_groups.kind", from.kind());
  return KvGroup{.layers = {from.layers().begin(), from.layers().end()},
                 .kind = static_cast<KvGroup::Kind>(from.kind()),
                 .window = from.window(),
                 .sink_tokens = from.sink_tokens(),
                 .bytes_per_block = from.bytes_per_block(),
                 .n_blocks = from.n_blocks(),
                 .dtype = from.dtype(),
                 .n_kv_heads = from.n_kv_heads(),
                 .k_dim = from.k_dim(),
                 .v_dim = from.v_dim()};
}

// `n_items` counts groups and blocks over one plan.
Result<BlockTransfer> transfer_from_proto(const pb::BlockTransfer& from,
                                          std::size_t& n_items,
                                          std::string_view field) {
  BlockTransfer to{.attachment = from.attachment(),
                   .layers = {.begin = from.layer_begin(), .end = from.layer_end()}};
  COXSWAIN_RETURN_IF_ERROR(
      count_up(n_items, static_cast<std::size_t>(from.groups_size()) + 1, kPlanMovesMax, field));
  for (const pb::BlockList& group : from.groups()) {
    COXSWAIN_RETURN_IF_ERROR(
        count_up(n_items, static_cast<std::size_t>(group.blocks_size()), kPlanMovesMax, field));
    to.blocks.emplace_back(group.blocks().begin(), group.blocks().end());
  }
  return to;
}

// Tiers are bytes; one that is none is none that any runner has.
Result<BlockRef> block_from_proto(std::uint32_t tier, BlockId id) {
  if (tier > 0xFF)
    return invalid_argument("`moves` has the unknown tier " + std::to_string(tier), "moves");
  return BlockRef{.tier = static_cast<std::uint8_t>(tier), .id = id};
}

std::chrono::nanoseconds nanoseconds_from_wire(std::uint64_t count) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(count));
}

std::uint64_t nanoseconds_to_wire(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

}  // namespace

void to_proto(const Status& from, pb::Status& to) {
  to.set_code(static_cast<pb::Code>(from.code()));
  to.set_kind(static_cast<pb::ErrorKind>(from.kind()));
  to.set_message(from.message());
  to.set_field(from.field());
}

Status from_proto(const pb::Status& from) {
  if (!pb::Code_IsValid(from.code())) return unknown_enum("status.code", from.code());
  if (!pb::ErrorKind_IsValid(from.kind())) return unknown_enum("status.kind", from.kind());
  return {static_cast<Code>(from.code()),
          static_cast<ErrorKind>(from.kind()),
          from.message(),
          from.field()};
}

void to_proto(const RunnerInfo& from, pb::InfoResponse& to) {
  to.set_engine_version(from.engine_version);
  to.set_epoch(from.epoch);
  to.set_model_id(from.model_id);
  to.set_model_type(from.model_type);
  to.set_dtype(from.dtype);
  to.set_device_type(from.device_type);
  to.set_kernel_set_id(from.kernel_set_id);
  to.set_model_fingerprint(from.model_fingerprint);
  to.set_vocab_size(from.vocab_size);
  to.set_hidden_size(from.hidden_size);
  to.set_n_layers(from.n_layers);
  to.set_max_position_embeddings(from.max_position_embeddings);
  to.set_max_input_tokens(from.max_input_tokens);
  to.set_max_total_tokens(from.max_total_tokens);
  to.set_block_tokens(from.block_tokens);
  for (const KvGroup& group : from.kv_groups) group_to_proto(group, *to.add_kv_groups());
  tokens_to_wire(from.eos_token_ids, *to.mutable_eos_token_ids());
  to.set_rope_switch_length(from.rope_switch_length);
  to.set_rope_length_is_exact(from.rope_length_is_exact);
  to.set_adapter_pages(from.adapter_pages);
  pb::Capabilities& capabilities = *to.mutable_capabilities();
  capabilities.set_plans_chunks(from.capabilities.plans_chunks);
  capabilities.set_selects_rows(from.capabilities.selects_rows);
  capabilities.set_grows_blocks(from.capabilities.grows_blocks);
  capabilities.set_takes_ids(from.capabilities.takes_ids);
  capabilities.set_look_ahead(from.capabilities.look_ahead);
  capabilities.set_edits(from.capabilities.edits);
  capabilities.set_layer_ranges(from.capabilities.layer_ranges);
  capabilities.set_attachments(from.capabilities.attachments);
  capabilities.set_moves(from.capabilities.moves);
  capabilities.set_exports_beside(from.capabilities.exports_beside);
  capabilities.set_plans_in_flight_max(from.capabilities.plans_in_flight_max);
  capabilities.set_draft_tokens_max(from.capabilities.draft_tokens_max);
  capabilities.set_candidates_max(from.capabilities.candidates_max);
  capabilities.set_tiers(from.capabilities.tiers);
  capabilities.set_attachment_bytes_max(from.capabilities.attachment_bytes_max);
}

Result<RunnerInfo> from_proto(const pb::InfoResponse& from) {
  std::size_t n_items = 0;
  COXSWAIN_RETURN_IF_ERROR(
      count_up(n_items,
               static_cast<std::size_t>(from.kv_groups_size() + from.eos_token_ids_size()),
               kInfoItemsMax,
               "kv_groups"));
  RunnerInfo to;
  to.engine_version = from.engine_version();
  to.epoch = from.epoch();
  to.model_id = from.model_id();
  to.model_type = from.model_type();
  to.dtype = from.dtype();
  to.device_type = from.device_type();
  to.kernel_set_id = from.kernel_set_id();
  to.model_fingerprint = from.model_fingerprint();
  to.vocab_size = from.vocab_size();
  to.hidden_size = from.hidden_size();
  to.n_layers = from.n_layers();
  to.max_position_embeddings = from.max_position_embeddings();
  to.max_input_tokens = from.max_input_tokens();
  to.max_total_tokens = from.max_total_tokens();
  to.block_tokens = from.block_tokens();
  for (const pb::KvGroup& group : from.kv_groups()) {
    COXSWAIN_ASSIGN_OR_RETURN(KvGroup value, group_from_proto(group));
    to.kv_groups.push_back(std::move(value));
  }
  COXSWAIN_ASSIGN_OR_RETURN(to.eos_token_ids,
                            tokens_from_wire(from.eos_token_ids(), "eos_token_ids"));
  to.rope_switch_length = from.rope_switch_length();
  to.rope_length_is_exact = from.rope_length_is_exact();
  to.adapter_pages = from.adapter_pages();
  const pb::Capabilities& can = from.capabilities();
  to.capabilities = {.plans_chunks = can.plans_chunks(),
                     .selects_rows = can.selects_rows(),
                     .grows_blocks = can.grows_blocks(),
                     .takes_ids = can.takes_ids(),
                     .look_ahead = can.look_ahead(),
                     .edits = can.edits(),
                     .layer_ranges = can.layer_ranges(),
                     .attachments = can.attachments(),
                     .moves = can.moves(),
                     .exports_beside = can.exports_beside(),
                     .draft_tokens_max = can.draft_tokens_max(),
                     .candidates_max = can.candidates_max(),
                     .attachment_bytes_max = can.attachment_bytes_max()};
  // A peer that does not know these fields has the defaults.
  if (can.plans_in_flight_max() != 0)
    to.capabilities.plans_in_flight_max = can.plans_in_flight_max();
  if (can.tiers() != 0) to.capabilities.tiers = can.tiers();
  return to;
}

void to_proto(const BlockTransfer& from, pb::BlockTransfer& to) {
  to.set_attachment(from.attachment);
  to.set_layer_begin(from.layers.begin);
  to.set_layer_end(from.layers.end);
  for (const auto& blocks : from.blocks)
    blocks_to_proto(blocks, *to.add_groups()->mutable_blocks());
}

Result<BlockTransfer> from_proto(const pb::BlockTransfer& from) {
  std::size_t n_items = 0;
  return transfer_from_proto(from, n_items, "blocks");
}

void to_proto(const StepPlan& from, pb::StepPlan& to) {
  to.set_step(from.step);
  to.set_epoch(from.epoch);
  to.set_layer_begin(from.layers.begin);
  to.set_layer_end(from.layers.end);
  for (const SequenceSpec& spec : from.new_sequences)
    detail::spec_to_proto(spec, *to.add_new_sequences());
  for (const SequenceId id : from.dropped) to.add_dropped(static_cast<std::uint64_t>(id));
  for (const BlockMove& move : from.moves) {
    pb::BlockMove& entry = *to.add_moves();
    entry.set_kv_group(move.kv_group);
    entry.set_from(move.from.id);
    entry.set_from_tier(move.from.tier);
    entry.set_to(move.to.id);
    entry.set_to_tier(move.to.tier);
  }
  for (const SequenceEdit& edit : from.edits) {
    pb::SequenceEdit& entry = *to.add_edits();
    entry.set_sequence(static_cast<std::uint64_t>(edit.sequence));
    entry.set_source(static_cast<std::uint64_t>(edit.source));
    entry.set_n_output(edit.n_output);
    tokens_to_wire(edit.append, *entry.mutable_append());
  }
  to.set_hidden_in(from.hidden_in);
  to.set_hidden_out(from.hidden_out);
  for (const BlockTransfer& transfer : from.imports) to_proto(transfer, *to.add_imports());
  for (const BlockTransfer& transfer : from.exports) to_proto(transfer, *to.add_exports());
  for (const Row& row : from.rows) row_to_proto(row, *to.add_rows());
}

Result<StepPlan> from_proto(const pb::StepPlan& from) {
  std::size_t n_sequences = 0;
  COXSWAIN_RETURN_IF_ERROR(count_up(n_sequences,
                                    static_cast<std::size_t>(from.new_sequences_size()) +
                                        static_cast<std::size_t>(from.edits_size()) +
                                        static_cast<std::size_t>(from.dropped_size()),
                                    kPlanSequencesMax,
                                    "new_sequences"));
  std::size_t n_rows = 0;
  COXSWAIN_RETURN_IF_ERROR(
      count_up(n_rows, static_cast<std::size_t>(from.rows_size()), kPlanSequencesMax, "rows"));
  std::size_t n_moves = 0;
  COXSWAIN_RETURN_IF_ERROR(
      count_up(n_moves, static_cast<std::size_t>(from.moves_size()), kPlanMovesMax, "moves"));

  StepPlan to;
  to.step = from.step();
  to.epoch = from.epoch();
  to.layers = {.begin = from.layer_begin(), .end = from.layer_end()};
  std::size_t n_items = 0;
  to.new_sequences.reserve(static_cast<std::size_t>(from.new_sequences_size()));
  for (const pb::SequenceSpec& spec : from.new_sequences()) {
    COXSWAIN_ASSIGN_OR_RETURN(SequenceSpec value, detail::spec_from_proto(spec, n_items));
    to.new_sequences.push_back(std::move(value));
  }
  to.dropped.reserve(static_cast<std::size_t>(from.dropped_size()));
  for (const std::uint64_t id : from.dropped()) to.dropped.push_back(SequenceId{id});
  to.moves.reserve(n_moves);
  for (const pb::BlockMove& move : from.moves()) {
    BlockMove value{.kv_group = move.kv_group()};
    COXSWAIN_ASSIGN_OR_RETURN(value.from, block_from_proto(move.from_tier(), move.from()));
    COXSWAIN_ASSIGN_OR_RETURN(value.to, block_from_proto(move.to_tier(), move.to()));
    to.moves.push_back(value);
  }
  to.edits.reserve(static_cast<std::size_t>(from.edits_size()));
  for (const pb::SequenceEdit& edit : from.edits()) {
    SequenceEdit value{.sequence = SequenceId{edit.sequence()},
                       .source = SequenceId{edit.source()},
                       .n_output = edit.n_output()};
    COXSWAIN_ASSIGN_OR_RETURN(value.append, tokens_from_wire(edit.append(), "edits.append"));
    to.edits.push_back(std::move(value));
  }
  to.hidden_in = from.hidden_in();
  to.hidden_out = from.hidden_out();
  for (const pb::BlockTransfer& transfer : from.imports()) {
    COXSWAIN_ASSIGN_OR_RETURN(BlockTransfer value,
                              transfer_from_proto(transfer, n_moves, "imports"));
    to.imports.push_back(std::move(value));
  }
  for (const pb::BlockTransfer& transfer : from.exports()) {
    COXSWAIN_ASSIGN_OR_RETURN(BlockTransfer value,
                              transfer_from_proto(transfer, n_moves, "exports"));
    to.exports.push_back(std::move(value));
  }
  std::size_t n_changes = 0;
  to.rows.reserve(n_rows);
  for (const pb::Row& row : from.rows()) {
    COXSWAIN_ASSIGN_OR_RETURN(Row value, row_from_proto(row, n_changes));
    to.rows.push_back(std::move(value));
  }
  return to;
}

void to_proto(const StepResult& from, pb::StepResult& to) {
  to.set_step(from.step);
  to.set_epoch(from.epoch);
  for (const SequenceResult& sequence : from.sequences)
    sequence_to_proto(sequence, *to.add_sequences());
  to.set_layers_ready_begin(from.layers_ready.begin);
  to.set_layers_ready_end(from.layers_ready.end);
  to.set_forward_ns(nanoseconds_to_wire(from.timings.forward));
  to.set_sample_ns(nanoseconds_to_wire(from.timings.sample));
  to.set_total_ns(nanoseconds_to_wire(from.timings.total));
}

Result<StepResult> from_proto(const pb::StepResult& from) {
  std::size_t n_sequences = 0;
  COXSWAIN_RETURN_IF_ERROR(count_up(n_sequences,
                                    static_cast<std::size_t>(from.sequences_size()),
                                    kPlanSequencesMax,
                                    "sequences"));
  StepResult to;
  to.step = from.step();
  to.epoch = from.epoch();
  std::size_t n_items = 0;
  to.sequences.reserve(n_sequences);
  for (const pb::SequenceResult& sequence : from.sequences()) {
    COXSWAIN_ASSIGN_OR_RETURN(SequenceResult value, sequence_from_proto(sequence, n_items));
    to.sequences.push_back(std::move(value));
  }
  to.layers_ready = {.begin = from.layers_ready_begin(), .end = from.layers_ready_end()};
  to.timings = {.forward = nanoseconds_from_wire(from.forward_ns()),
                .sample = nanoseconds_from_wire(from.sample_ns()),
                .total = nanoseconds_from_wire(from.total_ns())};
  return to;
}

}  // namespace coxswain::rpc
