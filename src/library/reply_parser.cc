#include <algorithm>
#include <utility>

#include <coxswain/chat.h>

#include "library/chat_parts.h"

namespace coxswain {

using Kind = ReplyEvent::Kind;

class ReplyParser::Impl {
 public:
  Impl(const library::ReplyForm* form, std::uint32_t sequence)
      : sequence_(sequence),
        parts_(form != nullptr ? form->options : speech::ReplyOptions(), sequence) {
    message_.role = "assistant";
  }

  std::vector<ReplyEvent> push(const Response& piece);
  const ChatMessage& message() const { return message_; }
  std::uint32_t n_reasoning_tokens() const { return parts_.n_reasoning_tokens(); }

 private:
  void take(std::vector<reply::Part> parts, std::vector<ReplyEvent>& out);
  void take(reply::Part part, std::vector<ReplyEvent>& out);
  void end_call(std::vector<ReplyEvent>& out);
  std::uint32_t last_call() const {
    return static_cast<std::uint32_t>(message_.tool_calls.size()) - 1;
  }

  std::uint32_t sequence_;
  speech::PartReader parts_;
  ChatMessage message_;
  std::size_t n_ahead_ = 0;  // bytes of tokens whose text did not come yet
  bool in_call_ = false;
  bool ended_ = false;
};

void ReplyParser::Impl::end_call(std::vector<ReplyEvent>& out) {
  if (std::exchange(in_call_, false)) out.push_back({.kind = Kind::kCallEnd, .call = last_call()});
}

void ReplyParser::Impl::take(reply::Part part, std::vector<ReplyEvent>& out) {
  using PartKind = reply::Part::Kind;
  if (part.kind != PartKind::kArguments) end_call(out);
  switch (part.kind) {
    case PartKind::kText:
      message_.content += part.text;
      out.push_back({.kind = Kind::kText, .text = std::move(part.text)});
      return;
    case PartKind::kReasoning:
      message_.reasoning += part.text;
      out.push_back({.kind = Kind::kReasoning, .text = std::move(part.text)});
      return;
    case PartKind::kCall:
      message_.tool_calls.push_back({.id = part.id, .name = part.text});
      in_call_ = true;
      out.push_back({.kind = Kind::kCallBegin,
                     .text = std::move(part.text),
                     .call = last_call(),
                     .id = std::move(part.id)});
      return;
    case PartKind::kArguments:
      message_.tool_calls.back().arguments += part.text;
      out.push_back({.kind = Kind::kArguments, .text = std::move(part.text), .call = last_call()});
  }
}

void ReplyParser::Impl::take(std::vector<reply::Part> parts, std::vector<ReplyEvent>& out) {
  for (reply::Part& part : parts) take(std::move(part), out);
}

// The text of a response is that of all tokens up to here, but for what may be a stop string: a token's share of it is
// what would have come if it had come alone.
std::vector<ReplyEvent> ReplyParser::Impl::push(const Response& piece) {
  std::vector<ReplyEvent> out;
  if (piece.sequence != sequence_ || ended_) return out;
  ended_ = piece.ends_sequence();
  std::string_view text = piece.text;
  for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
    const OutputToken& token = piece.tokens[i];
    const bool is_last_here = i + 1 == piece.tokens.size();
    if (!token.special) n_ahead_ += token.text.size();
    const std::size_t n = is_last_here ? text.size() : std::min(n_ahead_, text.size());
    take(parts_.push(token, text.substr(0, n), is_last_here && ended_), out);
    text.remove_prefix(n);
    n_ahead_ -= std::min(n, n_ahead_);
  }
  if (!ended_) return out;
  if (piece.tokens.empty()) take(parts_.finish(), out);
  end_call(out);
  return out;
}

ReplyParser::ReplyParser(const ChatTurn& turn, std::uint32_t sequence)
    : impl_(std::make_unique<Impl>(turn.form.get(), sequence)) {}
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;
ReplyParser::~ReplyParser() = default;

std::vector<ReplyEvent> ReplyParser::push(const Response& piece) {
  return impl_->push(piece);
}

const ChatMessage& ReplyParser::message() const {
  return impl_->message();
}

std::uint32_t ReplyParser::n_reasoning_tokens() const {
  return impl_->n_reasoning_tokens();
}

}  // namespace coxswain
