#pragma once
// BeamSearch: which beams of a search go on and which answers it has found. A value: what it says follows from the
// candidates that it was given, and from nothing else.
//
// The rules are in coxswain/beam_params.h; in order of a step:
//   1. the candidates of all beams are put in order: sum of log-probabilities less the diversity's share, ties to the
//      better beam, then to the better candidate;
//   2. of the first `width`, those with an end token are finished answers; in the last step all of them are;
//   3. the first `width` without one are the beams of the next step;
//   4. of the finished answers the `width` best are kept, ties to the one that was found first.
// A beam's best width + n_end_ids candidates are enough for that.
//
// Beams share their beginnings: a token is kept once, with the one before it. Memory: at most 2 * width tokens a step.
//
// Thread rule: one thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/beam_params.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain::batch {

class BeamSearch {
 public:
  // `end_ids`: tokens that end an answer. REQUIRES: width and n_new_max are > 0.
  BeamSearch(const BeamParams& params, std::uint32_t n_new_max, std::vector<TokenId> end_ids)
      : params_(params), n_new_max_(n_new_max), end_ids_(std::move(end_ids)) {}

  // A beam of the next step: beam `parent` of this one and a token behind it.
  struct Child {
    std::uint32_t parent = 0;
    TokenId token = 0;

    friend bool operator==(const Child&, const Child&) = default;
  };
  struct Answer {
    std::vector<OutputToken> tokens;
    double score = 0.0;  // by which answers are compared
    bool at_end_token = false;
  };

  // candidates[i]: what may follow beam i of those that step() returned last, best first, n_candidates() or all that
  // there are; at first there is one beam. The beams of the next step, best first; none: the search has ended.
  // REQUIRES: not ended().
  std::vector<Child> step(std::span<const std::vector<TokenAlternative>> candidates);

  bool ended() const { return beams_.empty(); }
  std::uint32_t n_candidates() const {
    return params_.width + static_cast<std::uint32_t>(end_ids_.size());
  }
  std::uint32_t n_steps() const { return n_steps_; }
  std::size_t n_beams() const { return beams_.size(); }
  // The tokens of beam i.
  std::vector<TokenId> ids(std::size_t beam) const;
  // The best answers, best first, at most `n`: those that are finished and, until the search has ended, the beams as
  // they are at that length.
  std::vector<Answer> best(std::size_t n) const;

 private:
  static constexpr std::uint32_t kRoot = 0xFFFFFFFFU;
  struct Node {
    std::uint32_t before = kRoot;
    OutputToken token;
  };
  struct Beam {
    std::uint32_t node = kRoot;
    double sum = 0.0;  // of log-probabilities
  };
  struct Finished {
    Beam beam;
    double score = 0.0;
    bool at_end_token = false;
  };
  struct Option {
    double key = 0.0;  // what they are put in order by
    std::uint32_t parent = 0;
    const TokenAlternative* token = nullptr;
  };
  std::vector<Option> in_order(std::span<const std::vector<TokenAlternative>> candidates) const;
  bool is_end(TokenId id) const;
  double score(double sum, std::uint32_t n_tokens) const;
  Beam extend(const Option& option);
  void finish(const Option& option, bool at_end_token);
  bool can_improve(std::span<const Beam> beams) const;
  Answer answer(const Finished& found) const;

  BeamParams params_;
  std::uint32_t n_new_max_ = 0;
  std::vector<TokenId> end_ids_;
  std::uint32_t n_steps_ = 0;
  std::vector<Node> nodes_;
  std::vector<Beam> beams_{Beam{}};
  std::vector<Finished> finished_;  // best first, at most `width`
};

}  // namespace coxswain::batch
