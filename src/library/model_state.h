#pragma once
// ModelState: what the handles of a LocalModel share, and the lease by which one engine at a time computes with it.
//
// Thread rule: immutable but for the lease, which any thread may take.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <coxswain/local_model.h>
#include <coxswain/status.h>

#include "chat/template_set.h"
#include "grammar/compiler.h"
#include "runner/local_runner.h"
#include "speech/model.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::library {

struct ModelState {
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  chat::TemplateSet templates;
  speech::Manner manner;
  grammar::Compiler grammars;  // of chats: any thread
  std::shared_ptr<runner::LocalRunner> runner;
  // What the runner has room for.
  std::uint32_t prefill_tokens_max = 0;
  std::uint32_t batch_size_max = 0;
  std::atomic<bool> in_use = false;
};

// Held by the engine that computes with a model.
class ModelLease {
 public:
  ModelLease() = default;
  // Errors: kFailedPrecondition if another engine has it.
  static Result<ModelLease> take(std::shared_ptr<ModelState> state) {
    if (state->in_use.exchange(true)) {
      return Status(Code::kFailedPrecondition,
                    "the model is in use by another engine; one at a time computes with it");
    }
    ModelLease lease;
    lease.state_ = std::move(state);
    return lease;
  }
  ModelLease(ModelLease&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ModelLease& operator=(ModelLease&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~ModelLease() {
    if (state_ != nullptr) state_->in_use.store(false);
  }

 private:
  std::shared_ptr<ModelState> state_;
};

}  // namespace coxswain::library
