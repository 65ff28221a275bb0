#pragma once
// Whether an answer that one runner began may go on in another one: the same model, computed to the same bits.

#include <string>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain::fleet {

// Errors: kFailedPrecondition, with what differs. `who` begins the sentence.
inline Status check_same_model(const std::string& who,
                               const RunnerInfo& runner,
                               const RunnerInfo& first) {
  const auto differs = [&](const std::string& what) {
    return Status(Code::kFailedPrecondition, who + " " + what);
  };
  if (runner.vocab_size != first.vocab_size || runner.model_fingerprint != first.model_fingerprint)
    return differs("serves another model than the first");
  if (runner.dtype != first.dtype)
    return differs("computes in " + runner.dtype + ", the first in " + first.dtype + " (--dtype)");
  if (runner.kernel_set_id != first.kernel_set_id) {
    return differs("computes with " + runner.kernel_set_id + ", the first with " +
                   first.kernel_set_id +
                   ": an answer could not go on there (--isa names a set that both have)");
  }
  return {};
}

}  // namespace coxswain::fleet
