// StepExecutor: what programs in this process may ask for beside tokens: logits, hidden states, and a hand of their own
// on the logits before a token is chosen.

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "runner/step_executor.h"

namespace coxswain::runner {

Status StepExecutor::check_local(const SequenceSpec& spec) const {
  const std::string& name = spec.sampling.logits_processor;
  if (!name.empty() && !limits_.logits_processors.contains(name)) {
    return {Code::kUnimplemented,
            ErrorKind::kValidation,
            "this runner has no logits processor `" + name + "`",
            "logits_processor"};
  }
  if (!spec.outputs.any() || limits_.output_bytes_max > 0) return {};
  return {Code::kUnimplemented,
          ErrorKind::kValidation,
          "this runner gives no logits and no hidden states: output_bytes_max is 0",
          "outputs"};
}

// Logits or hidden states of `n_rows` rows of the slice, to the end of `out`.
Status StepExecutor::append_rows(RowValues which,
                                 std::size_t first_row,
                                 std::size_t n_rows,
                                 std::vector<float>& out) {
  const bool wants_logits = which == RowValues::kLogits;
  const model::ModelInfo& info = parts_.model->info();
  const std::size_t width = wants_logits ? info.vocab_size : info.hidden_size;
  const std::size_t at = out.size();
  out.resize(at + n_rows * width);
  for (std::size_t done = 0; done < n_rows;) {
    const std::size_t n = std::min(limits_.logit_rows_max, n_rows - done);
    logit_row_ids_.clear();
    for (std::size_t i = 0; i < n; ++i)
      logit_row_ids_.push_back(static_cast<std::uint32_t>(first_row + done + i));
    const std::span<float> to(out.data() + at + done * width, n * width);
    COXSWAIN_RETURN_IF_ERROR(
        wants_logits ? parts_.model->logits(hidden_, logit_row_ids_, to, *parts_.exec)
                     : parts_.model->final_hidden(hidden_, logit_row_ids_, to, *parts_.exec));
    done += n;
  }
  return {};
}

SequenceOutputs& StepExecutor::outputs_of(SequenceResult& result) {
  if (result.outputs == nullptr) result.outputs = std::make_shared<SequenceOutputs>();
  return *result.outputs;
}

Status StepExecutor::write_outputs_of(ReadyRow& ready, const model::SequenceRows& rows) {
  const OutputParams& wanted = ready.state->spec().outputs;
  SequenceOutputs& out = outputs_of(*ready.result);
  const auto first_position = static_cast<std::size_t>(rows.first_position);
  const std::size_t n_prompt = ready.state->prompt_length();
  if (ready.row->context_outputs && first_position < n_prompt) {
    const std::size_t n = std::min(rows.n_rows, n_prompt - first_position);
    if (wanted.context_logits) {
      COXSWAIN_RETURN_IF_ERROR(
          append_rows(RowValues::kLogits, rows.first_row, n, out.context_logits));
    }
    if (wanted.context_hidden) {
      COXSWAIN_RETURN_IF_ERROR(
          append_rows(RowValues::kHidden, rows.first_row, n, out.context_hidden));
    }
  }
  const std::size_t end = first_position + rows.n_rows;
  const bool yields = ready.emits && ready.row->emit == Emit::kSample &&
                      end == ready.first_position + ready.n_tokens;
  if (!yields || !wanted.generation_hidden) return {};
  return append_rows(
      RowValues::kHidden, rows.first_row + rows.n_rows - 1, 1, out.generation_hidden);
}

void StepExecutor::write_outputs() {
  if (limits_.output_bytes_max == 0) return;
  for (std::size_t i = 0; i < n_batch_rows_; ++i) {
    ReadyRow& ready = *batch_owner_[i];
    if (ready.state == nullptr || !ready.state->spec().outputs.any()) continue;
    const Status status = write_outputs_of(ready, batch_rows_[i]);
    if (!status.ok()) fail(ready, status.with_context("outputs"));
  }
}

Status StepExecutor::process_logits(const SequenceState& state, std::span<float> logits) const {
  const SamplingParams& sampling = state.spec().sampling;
  const auto found = limits_.logits_processors.find(sampling.logits_processor);
  if (found == limits_.logits_processors.end()) {
    return sampling.logits_processor.empty() ? Status()
                                             : internal_error("no such logits processor");
  }
  const LogitsInput input{.sequence = state.spec().id,
                          .tag = sampling.logits_processor_tag,
                          .prompt = state.spec().prompt,
                          .output = state.output()};
  const std::string context = "logits processor `" + sampling.logits_processor + "`";
  try {
    const Status status = found->second->process(input, logits);
    return status.ok() ? status : status.with_context(context);
  } catch (const std::exception& error) {
    return internal_error(std::string("it threw: ") + error.what()).with_context(context);
  } catch (...) {
    return internal_error("it threw something").with_context(context);
  }
}

}  // namespace coxswain::runner
