#pragma once
// Stepper: an engine without a thread, for programs with a loop of their own. What it yields is what an Executor
// yields, bit for bit.
//
//     Stepper engine(*model);
//     engine.add(std::move(request));
//     while (!engine.idle())
//       for (const Response& piece : engine.step()) use(piece);
//
// Thread rule: one thread. A LocalModel computes on threads of its own all the same.

#include <cstdint>
#include <memory>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/export.h>
#include <coxswain/local_model.h>
#include <coxswain/request.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain {

class COXSWAIN_EXPORT Stepper {
 public:
  // As Executor's. Of the options those about unread responses, statistics, stalls and the log have no meaning here:
  // step() hands over all that there is.
  explicit Stepper(const LocalModel& model, ExecutorOptions options = {});
  explicit Stepper(std::shared_ptr<StepRunner> runner, ExecutorOptions options = {});
  // Ends what is left without a response, and the model is free for another engine.
  ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  Status status() const;
  // Errors as Executor::enqueue().
  Result<RequestId> add(Request request);
  // The request ends with kCancelled in the next step(). Unknown ids are ignored.
  void cancel(RequestId id);
  // Plans, and waits until the oldest step in flight has been computed, or until a deadline or a cancel ends a request;
  // where a request waits for blocks from memory or files, for these.
  // Returns what is new, one response for each request that has something, in no order. Returns at once while idle.
  std::vector<Response> step();
  // Every request was answered and handed over.
  bool idle() const;

 private:
  class COXSWAIN_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain
