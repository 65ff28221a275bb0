#include "api/answer_text.h"

namespace coxswain::api {

AnswerText::AnswerText(const SequenceAnswer& sequence, const TextRules& rules)
    : rules_(rules), holdback_(sequence.stops, sequence.id_stops, rules.stop_text) {}

std::string AnswerText::push(const OutputToken& token, const SequenceFinish* finish) {
  const bool hidden =
      speech::is_hidden_end(rules_, token, finish) || (token.special && !rules_.shows_special);
  const std::string_view visible = hidden ? std::string_view() : token.text;
  return finish != nullptr ? holdback_.finish(visible, *finish, token.id)
                           : holdback_.push(visible, token.id);
}

std::string whole_text(const SequenceAnswer& sequence, const TextRules& rules) {
  if (!rules.shows_special) {
    return std::string(rules.stop_text == request::StopText::kKept
                           ? request::text_through_stop(sequence.finish, sequence.stops)
                           : request::text_before_stop(sequence.finish));
  }
  AnswerText text(sequence, rules);
  std::string out;
  for (const OutputToken& token : sequence.tokens)
    out += text.push(token, &token == &sequence.tokens.back() ? &sequence.finish : nullptr);
  return out;
}

}  // namespace coxswain::api
