#include "speech/reply_reader.h"

#include <array>
#include <utility>

#include "base/keyed_hash.h"

namespace coxswain::speech {
namespace {

// As some templates want them: nine letters and digits.
constexpr std::size_t kIdCharacters = 9;
constexpr std::string_view kIdAlphabet =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

}  // namespace

PartReader::PartReader(const ReplyOptions& options, std::size_t sequence)
    : options_(options), sequence_(sequence), parser_(reply::make_parser(options.parser)) {}

std::string PartReader::call_id() const {
  if (options_.numbers_calls) return std::to_string(n_calls_ - 1);
  const std::array<std::uint64_t, 2> place{sequence_, n_calls_};
  std::uint64_t bits =
      base::sip_hash(std::as_bytes(std::span(place)), {options_.id_seed, 0}, base::kSip13);
  std::string out;
  for (std::size_t i = 0; i < kIdCharacters; ++i, bits /= kIdAlphabet.size())
    out += kIdAlphabet[bits % kIdAlphabet.size()];
  return out;
}

// Gives `visible` to the parser, with the special tokens that stand in front of it, within it and behind it.
void PartReader::parse(std::string_view visible, std::vector<reply::Part>& out) {
  for (;;) {
    const bool special =
        !specials_.empty() && specials_.front().offset <= n_released_ + visible.size();
    const std::size_t n = special ? specials_.front().offset - n_released_ : visible.size();
    if (n > 0) parser_->push(visible.substr(0, n), false, out);
    n_released_ += n;
    visible.remove_prefix(n);
    if (!special) return;
    parser_->push(specials_.front().text, true, out);
    specials_.pop_front();
  }
}

// Ids, and what the client does not want left out.
std::vector<reply::Part> PartReader::finished(std::vector<reply::Part> parts) {
  using Kind = reply::Part::Kind;
  std::vector<reply::Part> out;
  out.reserve(parts.size());
  for (reply::Part& part : parts) {
    const bool begins = part.kind == Kind::kCall;
    if (begins) {
      ++n_calls_;
      if (part.id.empty() || options_.numbers_calls) part.id = call_id();
    }
    const bool of_call = begins || part.kind == Kind::kArguments;
    if (of_call && n_calls_ > n_calls()) continue;
    out.push_back(std::move(part));
  }
  return out;
}

std::vector<reply::Part> PartReader::push(const OutputToken& token,
                                          std::string_view visible,
                                          bool is_last) {
  if (token.special)
    specials_.push_back({n_visible_, token.text});
  else
    n_visible_ += token.text.size();
  std::vector<reply::Part> parts;
  parse(visible, parts);
  if (is_last) parser_->finish(parts);
  ++n_silent_tokens_;
  if (!parts.empty()) {
    if (parts.back().kind == reply::Part::Kind::kReasoning) n_reasoning_tokens_ += n_silent_tokens_;
    n_silent_tokens_ = 0;
  }
  return finished(std::move(parts));
}

std::vector<reply::Part> PartReader::finish() {
  std::vector<reply::Part> parts;
  parser_->finish(parts);
  return finished(std::move(parts));
}

bool is_hidden_end(const TextRules& rules, const OutputToken& token, const SequenceFinish* finish) {
  return rules.shows_special && token.special && rules.stop_text == request::StopText::kCut &&
         finish != nullptr && finish->reason != FinishReason::kLength;
}

ReplyReader::ReplyReader(const ReplyOptions& options,
                         std::size_t sequence,
                         std::vector<std::string> stops,
                         std::vector<std::vector<TokenId>> id_stops,
                         const TextRules& rules)
    : rules_(rules),
      holdback_(std::move(stops), std::move(id_stops), rules.stop_text),
      parts_(options, sequence) {}

std::vector<reply::Part> ReplyReader::push(const OutputToken& token, const SequenceFinish* finish) {
  const std::string_view visible = token.special ? std::string_view() : token.text;
  OutputToken hidden;  // in place of one that is not to be seen
  hidden.special = true;
  return parts_.push(is_hidden_end(rules_, token, finish) ? hidden : token,
                     finish != nullptr ? holdback_.finish(visible, *finish, token.id)
                                       : holdback_.push(visible, token.id),
                     finish != nullptr);
}

}  // namespace coxswain::speech
