#pragma once
// Program: what stands on the other side of a BatchManager's callbacks in a test: a queue of requests, and a record of
// every call. Checks the rules of the stream of responses.
//
// Thread rule: callbacks come from the worker; all else from any thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <coxswain/batch_manager.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "batch/engine.h"

namespace coxswain::manager::testing {

struct Reply {
  std::vector<std::vector<NamedTensor>> responses;  // the outputs of each call
  std::vector<std::string> errors;                  // likewise
  int n_final = 0;

  // Of all responses, one behind the other.
  std::vector<TokenId> ids() const {
    std::vector<TokenId> out;
    for (const auto& outputs : responses) {
      for (const NamedTensor& tensor : outputs) {
        if (tensor.name != "output_ids") continue;
        const auto ids = tensor.as<std::int32_t>();
        out.insert(out.end(), ids.begin(), ids.end());
      }
    }
    return out;
  }
  std::string error() const { return errors.empty() ? std::string() : errors.back(); }
};

inline const NamedTensor* find(const std::vector<NamedTensor>& outputs, std::string_view name) {
  for (const NamedTensor& tensor : outputs)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

class Program {
 public:
  // `kinds` of calls are written down in order: "get", "send 7", "send 7 final", "poll", "stats".
  BatchManagerCallbacks callbacks() {
    BatchManagerCallbacks on;
    on.get_requests = [this](std::int32_t max_new) { return take(max_new); };
    on.send_response = [this](std::uint64_t id,
                              std::span<const NamedTensor> outputs,
                              bool final,
                              const std::string& error) { note(id, outputs, final, error); };
    on.poll_stop_signals = [this] {
      base::MutexLock lock(mu_);
      if (is_busy_) log_.push_back("poll");
      return std::exchange(stops_, {});
    };
    on.return_stats = [this](const std::string& json) {
      base::MutexLock lock(mu_);
      log_.push_back("stats");
      stats_.push_back(json);
    };
    return on;
  }

  void submit(std::shared_ptr<InferenceRequest> request) { submit_all({std::move(request)}); }
  // They are asked for together.
  void submit_all(const std::vector<std::shared_ptr<InferenceRequest>>& requests) {
    base::MutexLock lock(mu_);
    queue_.insert(queue_.end(), requests.begin(), requests.end());
  }
  void stop(std::uint64_t id) {
    base::MutexLock lock(mu_);
    stops_.insert(id);
  }

  Reply wait(std::uint64_t id, int n_final = 1) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return replies_[id].n_final >= n_final; });
    return replies_[id];
  }
  void wait_responses(std::uint64_t id, std::size_t n) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return replies_[id].responses.size() >= n; });
  }
  Reply reply(std::uint64_t id) {
    base::MutexLock lock(mu_);
    return replies_[id];
  }
  // Requests that were taken and have no final response.
  int n_open() const {
    base::MutexLock lock(mu_);
    return n_open_;
  }
  // Until get_requests has been called `n` times in all.
  void wait_asked(std::size_t n) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return asked_.size() >= n; });
  }
  std::vector<std::int32_t> asked() const {
    base::MutexLock lock(mu_);
    return asked_;
  }
  // Calls from the first request on, as long as one was served.
  std::vector<std::string> log() const {
    base::MutexLock lock(mu_);
    return log_;
  }
  std::vector<std::string> stats() const {
    base::MutexLock lock(mu_);
    return stats_;
  }

  // Set before the manager is made; called by the worker.
  std::function<void(std::uint64_t id, bool final)> on_send = [](std::uint64_t, bool) {};
  std::function<void()> on_get = [] {};

 private:
  std::vector<std::shared_ptr<InferenceRequest>> take(std::int32_t max_new) {
    on_get();
    base::MutexLock lock(mu_);
    asked_.push_back(max_new);
    std::vector<std::shared_ptr<InferenceRequest>> out;
    while (!queue_.empty() && (max_new < 0 || out.size() < static_cast<std::size_t>(max_new))) {
      ++n_open_;
      out.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    is_busy_ = n_open_ > 0;
    if (is_busy_) log_.push_back("get");
    changed_.notify_all();
    return out;
  }

  void note(std::uint64_t id,
            std::span<const NamedTensor> outputs,
            bool final,
            const std::string& error) {
    {
      base::MutexLock lock(mu_);
      Reply& reply = replies_[id];
      EXPECT_TRUE(error.empty() || final) << "an error that is not final";
      reply.responses.emplace_back(outputs.begin(), outputs.end());
      reply.errors.push_back(error);
      log_.push_back("send " + std::to_string(id) + (final ? " final" : ""));
    }
    on_send(id, final);
    if (!final) return changed_.notify_all();
    base::MutexLock lock(mu_);
    ++replies_[id].n_final;
    --n_open_;
    changed_.notify_all();
  }

  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::deque<std::shared_ptr<InferenceRequest>> queue_ GUARDED_BY(mu_);
  std::unordered_set<std::uint64_t> stops_ GUARDED_BY(mu_);
  std::map<std::uint64_t, Reply> replies_ GUARDED_BY(mu_);
  std::vector<std::int32_t> asked_ GUARDED_BY(mu_);
  std::vector<std::string> log_ GUARDED_BY(mu_);
  std::vector<std::string> stats_ GUARDED_BY(mu_);
  int n_open_ GUARDED_BY(mu_) = 0;
  bool is_busy_ GUARDED_BY(mu_) = false;
};

// The tensors that every request has.
inline std::shared_ptr<InferenceRequest> make_request(std::uint64_t id,
                                                      const std::vector<TokenId>& prompt,
                                                      std::int32_t n_new,
                                                      bool streaming = false) {
  auto out = std::make_shared<InferenceRequest>(id);
  const auto n = static_cast<std::int64_t>(prompt.size());
  out->set(NamedTensor::of<std::int32_t>("input_ids", {1, n}, prompt));
  out->set(NamedTensor::of<std::int32_t>("request_output_len", {1, 1}, {n_new}));
  out->set(NamedTensor::of<bool>("streaming", {1}, {streaming}));
  return out;
}

// The same for the engine: without an end token, as a request is that names none.
inline batch::GenerationRequest plain_request(const std::vector<TokenId>& prompt,
                                              std::uint32_t n_new) {
  batch::GenerationRequest out;
  out.prompt = prompt;
  out.stopping.max_new_tokens = n_new;
  out.stopping.ignore_eos = true;
  return out;
}

}  // namespace coxswain::manager::testing
