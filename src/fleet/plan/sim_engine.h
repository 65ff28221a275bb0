#pragma once
// SimEngine: the steps of one simulated replica, by what a step takes. A step has a token of each sequence that decodes
// and a chunk of the prompts that wait, in their order, as the real engine's. Like there the next step is decided when
// one begins, so what comes meanwhile waits for the one after. Steps that are alike until something happens are one
// run: a sequence of 200 tokens that is alone costs one event.
//
// Pure: time comes in as values. Thread rule: one thread.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

namespace coxswain::fleet {

// Seconds: of a step, and what each of these adds to it.
struct StepTimes {
  double step = 0.015;
  double decode = 0.0001;
  double prompt_token = 1.0 / 15'000;
  double decode_context = 0.0;  // a position of a decode
  double prompt_context = 0.0;  // a position of a prompt token
};

struct EngineRules {
  std::uint32_t step_prompt_tokens = 256;
  std::uint32_t batch_max = 1024;  // sequences in a step
  bool look_ahead = true;          // false: a step is decided when it begins
};

class SimEngine {
 public:
  SimEngine(const StepTimes& times, const EngineRules& rules) : times_(times), rules_(rules) {}

  void add_prompt(std::chrono::nanoseconds now, std::uint32_t request, std::uint32_t n_tokens);
  // It has so many positions, and n_left tokens are to come, one at least. Those whose prompt was computed here go on
  // with the next step, others as prompts do.
  void go_on(std::uint32_t request, std::uint32_t context, std::uint32_t n_left);
  void add_decode(std::chrono::nanoseconds now,
                  std::uint32_t request,
                  std::uint32_t context,
                  std::uint32_t n_left);

  std::uint32_t n_queued() const;  // prompts that no step has been decided for
  std::uint64_t queued_tokens() const { return queued_tokens_; }
  std::uint64_t prompt_tokens() const;  // of prompts that have no first token
  std::uint32_t n_sequences() const {
    return static_cast<std::uint32_t>(prompts_.size() + arriving_.size() + decodes_.size());
  }

  // When the run under way ends, anew after each of the calls above and after end(). Begins one if none is under way;
  // one of decodes alone ends with its next step if there is more to do. `prompt_share` is the part of each prompt that
  // this replica computes (live loading). Empty: nothing to do.
  std::optional<std::chrono::nanoseconds> next(std::chrono::nanoseconds now, double prompt_share);

  struct Ended {
    std::vector<std::uint32_t> prompts = {};    // computed, with their first token
    std::vector<std::uint32_t> sequences = {};  // had their last token
    double gap_s = 0.0;                         // between two tokens, the mean of the run
    std::uint64_t n_gaps = 0;
  };
  // REQUIRES: the run under way ends.
  Ended end();

 private:
  struct Prompt {
    std::chrono::nanoseconds added{};
    std::uint32_t request = 0;
    std::uint32_t n_tokens = 0;
    std::uint32_t n_done = 0;
    bool decided = false;
  };
  struct Arriving {
    std::chrono::nanoseconds added{};
    std::uint32_t request = 0;
    std::uint32_t context = 0;
    std::uint32_t n_left = 0;
  };
  struct Decode {
    std::uint64_t ends = 0;  // with its last token, by the clock
    std::uint32_t request = 0;
    std::uint32_t context_then = 0;
    bool operator>(const Decode& other) const { return ends > other.ends; }
  };

  void begin(std::chrono::nanoseconds now, double prompt_share);
  // What was added after `until` is left where it is.
  void take_arriving(std::chrono::nanoseconds until);
  double take_prompts(std::chrono::nanoseconds until);
  void decide_next();
  void decide(Prompt& prompt);
  double seconds_of(std::uint64_t n_steps) const;
  void cut(std::chrono::nanoseconds now);

  StepTimes times_;
  EngineRules rules_;
  std::deque<Prompt> prompts_;
  std::uint64_t queued_tokens_ = 0;
  std::vector<Arriving> arriving_;  // decode from the next run on
  std::priority_queue<Decode, std::vector<Decode>, std::greater<>> decodes_;
  std::uint64_t clock_ = 0;    // tokens that a sequence here from the beginning would have
  std::uint64_t context_ = 0;  // positions of all that decode

  // The run.
  std::uint64_t n_steps_ = 0;  // 0: none
  std::uint64_t n_decoding_ = 0;
  bool has_prompts_ = false;
  bool has_news_ = false;  // something was added since it began
  double first_s_ = 0.0;   // its first step
  double growth_s_ = 0.0;  // each further one takes so much longer
  std::chrono::nanoseconds began_{};
  // When the first step of the next run is decided, if it follows at once.
  std::chrono::nanoseconds decided_{};
  std::chrono::nanoseconds ended_ = std::chrono::nanoseconds::min();
};

}  // namespace coxswain::fleet
