#pragma once
// Whether a prompt is computed in a replica of its own kind, which hands it over, or where its answer is generated.
//
// It goes apart if its blocks take less than twice the time to pass that it takes to compute where they would go, so
// that the gap behind its first token is not far longer than the one that it spares others, and if requests lose less
// time in all:
//
//   together   (waiting tokens + own tokens) c, of the request; and own tokens x c of each that generates beside it
//   apart      (waiting tokens + own tokens) c there; and the transfer, between the first and the second token
//
// where c is what a prompt token takes to compute. So a prompt stays where nobody generates, where most of it is
// cached, where it is short, and while the other kind has a backlog.
//
// Thread rule: values and pure functions.

#include <cstdint>

namespace coxswain::fleet {

enum class Disaggregation : std::uint8_t {
  kStatic,  // every prompt that can be
  kAuto,    // where it pays
};

// What a replica would have to do for it.
struct PromptSite {
  std::uint64_t waiting_tokens = 0;  // of prompts before it
  std::uint64_t own_tokens = 0;      // of the prompt, such that are not cached there
  std::uint64_t n_generating = 0;    // sequences whose next tokens wait for it
};

struct PromptCase {
  double token_seconds = 0;  // c; 0: nothing is known, and the prompt stays
  PromptSite together;
  PromptSite apart;
  double transfer_seconds = 0;
};

double seconds_lost(const PromptSite& site, double token_seconds);
bool pays_apart(const PromptCase& prompt);

}  // namespace coxswain::fleet
