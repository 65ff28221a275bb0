#pragma once
// The text of an answer in which nothing is read: what its tokens say, by the rules of the request.
//
// Thread rule: one thread.

#include <string>

#include "api/answer.h"
#include "request/stop_holdback.h"

namespace coxswain::api {

class AnswerText {
 public:
  AnswerText(const SequenceAnswer& sequence, const TextRules& rules);

  // What may be seen now; `finish` comes with the last token.
  std::string push(const OutputToken& token, const SequenceFinish* finish);

 private:
  TextRules rules_;
  request::StopHoldback holdback_;
};

// All of it. REQUIRES: the sequence has ended, and keeps its tokens if special ones are shown.
std::string whole_text(const SequenceAnswer& sequence, const TextRules& rules);

}  // namespace coxswain::api
