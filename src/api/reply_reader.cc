#include "api/reply_reader.h"

#include <utility>

namespace coxswain::api {

Reply read_reply(const ReplyOptions& options,
                 const SequenceAnswer& sequence,
                 std::size_t index,
                 const TextRules& rules) {
  using Kind = reply::Part::Kind;
  ReplyReader reader(options, index, sequence.stops, sequence.id_stops, rules);
  Reply out;
  for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
    const bool last = i + 1 == sequence.tokens.size();
    for (reply::Part& part : reader.push(sequence.tokens[i], last ? &sequence.finish : nullptr)) {
      if (part.kind == Kind::kText) out.content += part.text;
      if (part.kind == Kind::kReasoning) out.reasoning += part.text;
      if (part.kind == Kind::kCall)
        out.calls.push_back({std::move(part.id), std::move(part.text), {}});
      if (part.kind == Kind::kArguments) out.calls.back().arguments += part.text;
    }
  }
  out.n_reasoning_tokens = reader.n_reasoning_tokens();
  return out;
}

}  // namespace coxswain::api
