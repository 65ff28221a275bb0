#include "library/response_gatherer.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "batch/sequence_outputs.h"
#include "request/best_of.h"

namespace coxswain::library {

namespace {

// Decoders look back over few tokens; this many are plenty.
constexpr std::size_t kContextTokens = 8;

}  // namespace

ResponseGatherer::ResponseGatherer(const batch::GenerationRequest& request,
                                   std::uint32_t n_best,
                                   std::shared_ptr<const TextCodec> codec)
    : id_(request.id),
      n_prompt_(static_cast<std::uint32_t>(request.prompt.size())),
      n_best_(n_best),
      codec_(std::move(codec)) {
  for (std::uint32_t i = 0; i < request.n_answers(); ++i) parts_.emplace_back(request.stopping);
  n_open_ = parts_.size();
  if (request.beams.width == 1) return;
  const auto n_context =
      static_cast<std::ptrdiff_t>(std::min(request.prompt.size(), kContextTokens));
  context_.assign(request.prompt.end() - n_context, request.prompt.end());
}

// As the runner does it for a sequence that it samples.
void ResponseGatherer::make_texts(std::vector<OutputToken>& tokens) const {
  const auto stream = codec_->stream(context_, false);
  for (OutputToken& token : tokens) token.text = stream->push(token.id);
  if (!tokens.empty()) tokens.back().text += stream->finish();
}

void ResponseGatherer::add(batch::TokenEvent event, std::shared_ptr<const ParkedAt> parked_at) {
  if (event.whole && codec_ != nullptr) make_texts(event.tokens);
  Part& part = parts_[event.sequence];
  Response& next = part.next;
  for (std::size_t i = 0; i < event.tokens.size(); ++i) {
    const OutputToken& token = event.tokens[i];
    const std::string_view visible = token.special ? std::string_view() : token.text;
    const bool last = event.finish && i + 1 == event.tokens.size();
    next.text += last ? part.holdback.finish(visible, *event.finish, token.id)
                      : part.holdback.push(visible, token.id);
  }
  if (next.tokens.empty()) {
    next.tokens = std::move(event.tokens);
  } else {
    next.tokens.insert(next.tokens.end(),
                       std::make_move_iterator(event.tokens.begin()),
                       std::make_move_iterator(event.tokens.end()));
  }
  if (!event.prompt.empty()) next.prompt = std::move(event.prompt);
  if (event.outputs) batch::append_outputs(std::move(*event.outputs), next.outputs);
  next.cumulative_logprob = event.cumulative_logprob;
  if (!event.final) return;
  part.ended = true;
  --n_open_;
  next.status = std::move(event.status);
  if (event.finish) next.finish = event.finish->reason;
  if (event.parked != nullptr) {
    next.text.clear();  // it comes with the generation
    next.context_phase = ContextPhase{.request = id_,
                                      .first_tokens = next.tokens,
                                      .cumulative_logprob = next.cumulative_logprob,
                                      .state = std::move(parked_at)};
  }
  next.usage = {.n_prompt_tokens = n_prompt_,
                .n_cached_prompt_tokens = event.n_cached_prompt_tokens,
                .n_generated_tokens = event.n_generated,
                .n_draft_tokens = event.drafts.computed,
                .n_accepted_draft_tokens = event.drafts.accepted};
  if (n_open_ == 0 && n_best_ > 0) choose();
}

// All have ended, and nothing of them was taken.
void ResponseGatherer::choose() {
  const auto good = std::ranges::stable_partition(
      parts_, [](const Part& part) { return !part.next.status.ok(); });
  request::rank_answers(std::span(good.begin(), good.end()));
  parts_.erase(parts_.begin() + n_best_, parts_.end());
}

Response ResponseGatherer::take() {
  const std::size_t i = next_with_news();
  if (i == parts_.size()) return {.id = id_};
  Response out = std::exchange(parts_[i].next, {});
  out.id = id_;
  out.sequence = static_cast<std::uint32_t>(i);
  out.final = answered() && !has_news();
  return out;
}

std::size_t ResponseGatherer::next_with_news() const {
  if (n_best_ > 0 && n_open_ > 0) return parts_.size();
  std::size_t i = 0;
  while (i < parts_.size() && parts_[i].next.empty()) ++i;
  return i;
}

std::size_t ResponseGatherer::n_unread_tokens() const {
  if (n_best_ > 0 && n_open_ > 0) return 0;  // nobody can read them yet
  std::size_t out = 0;
  for (const Part& part : parts_) out += part.next.tokens.size();
  return out;
}

}  // namespace coxswain::library
