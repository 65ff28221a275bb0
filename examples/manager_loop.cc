// The loop of programs that were written for TensorRT-LLM's batch manager: a queue of work items, callbacks that take
// from it and answer into it, named tensors in both directions, statistics, stop signals.
//
//     manager_loop MODEL_FOLDER
#include <cstdint>
#include <deque>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <coxswain/batch_manager.h>
#include <coxswain/local_model.h>

using namespace coxswain;

namespace {

struct WorkItem {
  std::shared_ptr<InferenceRequest> request;
  std::vector<TokenId> output = {};
  std::string error = {};
  bool is_final = false;
};

// Everything here is the worker's once the manager runs, and the program's again after `all_answered`.
class Work {
 public:
  static constexpr std::uint64_t kUnwanted = 3;  // is stopped after a few tokens

  void add(std::uint64_t id, const std::vector<TokenId>& ids, TokenId end_id) {
    auto request = std::make_shared<InferenceRequest>(id);
    const auto n = static_cast<std::int64_t>(ids.size());
    request->set(NamedTensor::of<std::int32_t>("input_ids", {1, n}, ids));
    request->set(NamedTensor::of<std::int32_t>("request_output_len", {1, 1}, {64}));
    request->set(NamedTensor::of<std::int32_t>("end_id", {1}, {end_id}));  // of itself nothing ends
    request->set(NamedTensor::of<bool>("streaming", {1}, {true}));
    items_[id].request = request;
    pending_.push_back(id);
  }

  BatchManagerCallbacks callbacks() {
    BatchManagerCallbacks on;
    on.get_requests = [this](std::int32_t max_new) { return take(max_new); };
    on.send_response = [this](std::uint64_t id,
                              std::span<const NamedTensor> outputs,
                              bool final,
                              const std::string& error) { answer(id, outputs, final, error); };
    on.poll_stop_signals = [this] { return std::exchange(stopped_, {}); };
    on.return_stats = [this](const std::string&) { ++n_iterations_; };
    return on;
  }

  std::future<void> all_answered() { return all_answered_.get_future(); }
  const std::map<std::uint64_t, WorkItem>& items() const { return items_; }
  int n_iterations() const { return n_iterations_; }

 private:
  std::vector<std::shared_ptr<InferenceRequest>> take(std::int32_t max_new) {
    std::vector<std::shared_ptr<InferenceRequest>> out;
    while (!pending_.empty() && (max_new < 0 || out.size() < static_cast<std::size_t>(max_new))) {
      out.push_back(std::move(items_[pending_.front()].request));
      pending_.pop_front();
    }
    return out;
  }

  void answer(std::uint64_t id,
              std::span<const NamedTensor> outputs,
              bool final,
              const std::string& error) {
    WorkItem& item = items_[id];
    for (const NamedTensor& tensor : outputs) {
      if (tensor.name != "output_ids") continue;
      const auto ids = tensor.as<std::int32_t>();
      item.output.insert(item.output.end(), ids.begin(), ids.end());
    }
    item.error = error;
    item.is_final = final;
    if (id == kUnwanted && item.output.size() >= 3) stopped_.insert(id);
    if (final && ++n_answered_ == items_.size()) all_answered_.set_value();
  }

  std::map<std::uint64_t, WorkItem> items_;
  std::deque<std::uint64_t> pending_;
  std::unordered_set<std::uint64_t> stopped_;
  std::promise<void> all_answered_;
  std::size_t n_answered_ = 0;
  int n_iterations_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto model = open_model(argv[1]);
  if (!model.ok()) {
    std::cerr << model.status().message() << '\n';
    return 1;
  }
  Work work;
  std::uint64_t next = 1;
  for (const std::string question : {"What is 12 + 30?", "Who are you?", "Who are you?"}) {
    auto prompt = model->chat({{"user", question}});
    if (!prompt.ok()) return 1;
    work.add(next++, prompt->ids, model->info().eos_token_ids.at(0));
  }
  auto answered = work.all_answered();
  auto manager = BatchManager::create(model->runner(),
                                      BatchingType::kInflightFused,
                                      /*max_beam_width=*/1,
                                      CapacityPolicy::kGuaranteedNoEvict,
                                      work.callbacks());
  if (!manager.ok()) {
    std::cerr << manager.status().message() << '\n';
    return 1;
  }
  answered.wait();
  (*manager).reset();  // drains and joins
  bool good = work.n_iterations() > 0;
  for (const auto& [id, item] : work.items()) {
    std::cout << id << ": " << model->codec()->decode(item.output, true) << item.error << '\n';
    good = good && item.is_final && item.error.empty();
  }
  return good ? 0 : 1;
}
