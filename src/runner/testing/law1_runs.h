#pragma once
// Test help for law 1: runners over a folder's model, and requests through the real engine, whose outcomes must be
// those of each request alone, bit for bit.
//
// Thread rule: one thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "batch/engine.h"
#include "batch/testing/plain_beams.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"

namespace coxswain::runner::testing {

struct RunnerSetup {
  std::uint32_t block_tokens = 16;
  std::size_t n_threads = 1;
  std::uint32_t rows_max = 256;
  std::uint32_t batch_size_max = 8;
  std::uint32_t kv_tokens = 2048;
  std::uint32_t request_tokens_max = 100;
  std::uint64_t task_order_seed = 0;
  std::uint64_t output_bytes_max = std::uint64_t{16} << 20;
  LogitsProcessors logits_processors = {};
  std::optional<tensor::DType> dtype = tensor::DType::kF32;
  std::optional<tensor::DType> kv_dtype = {};
  std::string quantize = {};
  std::string isa = {};
  model::WindowLimits windows = {};
  std::uint32_t draft_tokens_max = 0;  // all that are guessed are computed
  std::string speculative_model_dir = {};
  bool with_text = false;  // a tokenizer, for grammars
};

// Null, and a failure of the test, if there is none.
std::unique_ptr<LocalRunner> start(const std::string& model_dir, const RunnerSetup& setup);

// One way to drive requests, without an engine.
struct Way {
  std::string name;
  RunnerSetup setup;
  DriveOptions drive;
};

// What happened on the way, so that a test can see that it tested something.
struct Happened {
  std::uint64_t n_shared_tokens = 0;
  std::uint64_t n_pauses = 0;
  std::uint64_t n_released_blocks = 0;
  std::uint64_t n_drafts = 0;  // accepted

  Happened& operator+=(const Happened& other);
};

// Drives all requests in this way; type, kernels and windows are those of `base`.
Happened expect_same_when_driven(const std::string& model_dir,
                                 const RunnerSetup& base,
                                 const Way& way,
                                 const std::vector<SequenceSpec>& specs,
                                 const std::vector<DriveOutcome>& expected);

// Two rounds of all requests through an engine: the second may find the prefixes of the first, and each of its requests
// has two sequences of one seed, which must be equal. Everything is given back at the end. `options` is taken as it is,
// but for batch_size_max, and invariants are checked.
Happened expect_same_through_engine(const std::string& model_dir,
                                    const RunnerSetup& setup,
                                    batch::EngineOptions options,
                                    const std::vector<SequenceSpec>& specs,
                                    const std::vector<DriveOutcome>& expected);

// Every request with a further sequence for each of `seeds`: each must be what `reference` yields for the request alone
// with its seed.
void expect_children_as_alone(LocalRunner& reference,
                              const std::string& model_dir,
                              const RunnerSetup& setup,
                              batch::EngineOptions options,
                              const std::vector<SequenceSpec>& specs,
                              const std::vector<std::uint64_t>& seeds);

// A request, and what it yields over a runner that nobody else uses.
struct Alone {
  batch::GenerationRequest request;
  std::vector<batch::testing::PlainBeam> found;  // by a beam search: of plain_beam_search()
  DriveOutcome outcome;  // of any other; of a search only what it has of its prompt
};

std::vector<Alone> compute_alone(LocalRunner& reference,
                                 std::vector<batch::GenerationRequest> requests);

// Two rounds of all requests through an engine, as in expect_same_through_engine().
Happened expect_as_alone(const std::string& model_dir,
                         const RunnerSetup& setup,
                         batch::EngineOptions options,
                         const std::vector<Alone>& requests);

}  // namespace coxswain::runner::testing
