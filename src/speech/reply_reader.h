#pragma once
// The tokens of one sequence as the parts of its answer (thoughts, text and calls), without any part of a stop string.
//
// Thread rule: one thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/step_runner.h>

#include "reply/parser.h"
#include "request/stop_holdback.h"

namespace coxswain::speech {

// How the text of an answer is read where it may be more than what the model says.
struct ReplyOptions {
  reply::ParserSetup parser;
  bool one_call = false;  // calls behind the first are left out
  // Ids are "0", "1", ...; else drawn from the seed, unless the model gives them.
  bool numbers_calls = false;
  std::uint64_t id_seed = 0;
};

// Reads text that may be seen, a token at a time.
class PartReader {
 public:
  // `sequence`: which of the request's, so that calls of different ones have different ids.
  PartReader(const ReplyOptions& options, std::size_t sequence);

  // The token has come, and `visible`, the next piece of the text of all tokens, may be seen now. Every call has an id;
  // arguments belong to the last call.
  std::vector<reply::Part> push(const OutputToken& token, std::string_view visible, bool is_last);
  // There is no more, and no token was the last.
  std::vector<reply::Part> finish();

  std::uint32_t n_calls() const { return options_.one_call && n_calls_ > 1 ? 1 : n_calls_; }
  // Up to the last one that yielded a thought, counted from the one behind the last that yielded something else.
  std::uint32_t n_reasoning_tokens() const { return n_reasoning_tokens_; }

 private:
  // A special token stands behind so many bytes of visible text.
  struct Special {
    std::size_t offset;
    std::string text;
  };

  void parse(std::string_view visible, std::vector<reply::Part>& out);
  std::vector<reply::Part> finished(std::vector<reply::Part> parts);
  std::string call_id() const;

  ReplyOptions options_;
  std::size_t sequence_;
  std::unique_ptr<reply::Parser> parser_;
  std::deque<Special> specials_;  // whose place was not released yet
  std::size_t n_visible_ = 0;     // bytes that came
  std::size_t n_released_ = 0;    // of these, bytes that the parser has
  std::uint32_t n_calls_ = 0;     // that the parser found
  std::uint32_t n_reasoning_tokens_ = 0;
  std::uint32_t n_silent_tokens_ = 0;  // since the last part
};

// What the text of an answer shows beside what the model says.
struct TextRules {
  request::StopText stop_text = request::StopText::kCut;
  bool shows_special = false;  // special tokens as they are spelled

  friend bool operator==(const TextRules&, const TextRules&) = default;
};

// Whether the token ends the answer and is no part of what it shows of special tokens.
bool is_hidden_end(const TextRules& rules, const OutputToken& token, const SequenceFinish* finish);

// The same for tokens as they come from an engine.
class ReplyReader {
 public:
  // `id_stops`: stop sequences of ids (StopHoldback).
  ReplyReader(const ReplyOptions& options,
              std::size_t sequence,
              std::vector<std::string> stops,
              std::vector<std::vector<TokenId>> id_stops = {},
              const TextRules& rules = {});

  // What the token adds; `finish` comes with the last one.
  std::vector<reply::Part> push(const OutputToken& token, const SequenceFinish* finish);

  std::uint32_t n_calls() const { return parts_.n_calls(); }
  std::uint32_t n_reasoning_tokens() const { return parts_.n_reasoning_tokens(); }

 private:
  TextRules rules_;
  request::StopHoldback holdback_;
  PartReader parts_;
};

}  // namespace coxswain::speech
