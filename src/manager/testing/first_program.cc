// What is between the marks compiles as it stands.
#include "manager/testing/first_program.h"

#include <future>
#include <unordered_set>
#include <utility>

#include <coxswain/batch_manager.h>

#include "base/mutex.h"

namespace coxswain::manager::testing {
namespace {

// The program's own.
struct Queue {
  std::vector<std::shared_ptr<InferenceRequest>> take(std::int32_t max_new) {
    const base::MutexLock lock(mutex);
    if (max_new == 0) return {};
    return std::exchange(requests, {});
  }
  void put(std::shared_ptr<InferenceRequest> request) {
    const base::MutexLock lock(mutex);
    requests.push_back(std::move(request));
  }

  base::Mutex mutex;
  std::vector<std::shared_ptr<InferenceRequest>> requests GUARDED_BY(mutex);
};

}  // namespace

ProgramResult run_first_program(const std::string& folder, const std::vector<TokenId>& ids) {
  ProgramResult result;
  Queue queue;
  std::promise<void> end;
  const auto use = [&](std::uint64_t, std::int32_t token) { result.ids.push_back(token); };
  const auto log = [&](const std::string& json) { result.stats.push_back(json); };
  // clang-format off
  // --- begin
BatchManagerCallbacks on;
on.get_requests = [&](std::int32_t max_new) { return queue.take(max_new); };      // std::vector<std::shared_ptr<InferenceRequest>>; negative = all
on.send_response = [&](std::uint64_t id, std::span<const NamedTensor> outputs, bool final, const std::string& error) {
  for (const NamedTensor& t : outputs)
    if (t.name == "output_ids") for (std::int32_t token : t.as<std::int32_t>()) use(id, token);
  // --- end
  if (!final) return;
  result.error = error;
  end.set_value();
  // --- begin
};
on.poll_stop_signals = [&] { return std::unordered_set<std::uint64_t>{}; };       // optional, as the next
on.return_stats = [&](const std::string& json) { log(json); };
auto request = std::make_shared<InferenceRequest>(std::uint64_t{7});
request->set(NamedTensor::of<std::int32_t>("input_ids", {1, std::int64_t(ids.size())}, ids));
request->set(NamedTensor::of<std::int32_t>("request_output_len", {1, 1}, {32}));
request->set(NamedTensor::of<bool>("streaming", {1}, {true}));                // of<T>(name, std::vector<std::int64_t> shape, std::vector<T> values)
auto manager = BatchManager::create(folder, BatchingType::kInflightFused, /*max_beam_width=*/1, CapacityPolicy::kGuaranteedNoEvict, std::move(on));
  // --- end
  // clang-format on
  if (!manager.ok()) {
    result.error = manager.status().message();
    return result;
  }
  queue.put(std::move(request));
  manager.value()->notify();
  end.get_future().wait();
  return result;
}

}  // namespace coxswain::manager::testing
