#include "handover_split.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "batch/first_layers.h"
#include "batch/handover.h"
#include "measures.h"
#include "require.h"
#include "timed_sink.h"

namespace coxswain::bench {
namespace {

using Seconds = std::chrono::duration<double>;
using Parked = Result<std::shared_ptr<const batch::ParkedContext>>;

constexpr std::uint32_t kPromptsOfARound = 6;
constexpr std::chrono::seconds kPatience{120};

class Split {
 public:
  Split(const SplitRun& run, std::unique_ptr<BlockTransport> by)
      : run_(run), service_({}, std::move(by)) {}

  void print() {
    for (std::uint32_t i = 0; i <= run_.n_rounds; ++i) {
      if (i == 1) figures_ = {};  // the first one is to warm up
      one_alone();
      const double divided = many(true);
      const double alone = many(false);
      figures_.divided_rate.push_back(divided);
      figures_.alone_rate.push_back(alone);
      figures_.gain.push_back(divided / alone);
    }
    const double mib = static_cast<double>(figures_.n_bytes) / (1 << 20);
    std::printf("%u tokens, %u layers at the first engine, %u rounds, medians\n",
                run_.n_tokens,
                run_.n_layers,
                run_.n_rounds);
    line("first layers at the first engine", median(figures_.first_s) * 1e3, "ms");
    line("from then to the first token", median(figures_.rest_s) * 1e3, "ms");
    line("to the first token, computed in one", median(figures_.whole_s) * 1e3, "ms");
    line("passed for a prompt", mib, "MiB");
    line("prompts of a backlog, divided", median(figures_.divided_rate), "1/s");
    line("prompts of a backlog, second engine alone", median(figures_.alone_rate), "1/s");
    line("of these, ratio of each round", median(figures_.gain), "");
  }

 private:
  struct Figures {
    std::vector<double> first_s;
    std::vector<double> rest_s;
    std::vector<double> whole_s;
    std::vector<double> divided_rate;
    std::vector<double> alone_rate;
    std::vector<double> gain;
    std::uint64_t n_bytes = 0;
  };
  struct Done {
    std::shared_ptr<TimedSink> sink = std::make_shared<TimedSink>();
    std::promise<batch::HandoverResult> moved = {};
  };

  static void line(const char* what, double value, const char* unit) {
    std::printf("  %-44s %9.2f %s\n", what, value, unit);
  }

  // Of one text; what is cached of one salt serves no other.
  batch::GenerationRequest request(std::uint32_t text) {
    batch::GenerationRequest out;
    out.id = RequestId{++n_requests_};
    for (std::uint32_t i = 0; i < run_.n_tokens; ++i)
      out.prompt.push_back(static_cast<TokenId>(5 + (i * 37 + i / 50 + text * 11) % 1000));
    out.cache_salt = std::to_string(n_requests_);
    out.stopping = {.max_new_tokens = 2, .ignore_eos = true};
    out.sampling.do_sample = text % 2 == 1;
    out.sampling.seed = text;
    return out;
  }

  std::future<Parked> first_layers(const batch::GenerationRequest& request) {
    const auto promise = std::make_shared<std::promise<Parked>>();
    batch::compute_first_layers(
        run_.first, request, run_.n_layers, Clock::now() + kPatience, [promise](Parked parked) {
          promise->set_value(std::move(parked));
        });
    return promise->get_future();
  }

  void pass_on(const batch::GenerationRequest& request, Parked parked, Done& done) {
    if (!parked.ok()) die(parked.status());
    service_.start(
        {.from = &run_.first,
         .to = &run_.second,
         .parked = *parked,
         .request = request,
         .sink = done.sink},
        [&done](batch::HandoverResult result) { done.moved.set_value(std::move(result)); });
  }

  std::vector<TokenId> tokens(Done& done) {
    const batch::HandoverResult result = done.moved.get_future().get();
    if (!result.status.ok()) die(result.status);
    if (!result.moved) die(result.why_not);
    done.sink->wait();
    figures_.n_bytes = std::max(figures_.n_bytes, result.n_bytes);
    return done.sink->ids();
  }

  void require_same(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
    if (a == b) return;
    std::puts("the tokens differ");
    std::exit(1);
  }

  void submit(const batch::GenerationRequest& request, const std::shared_ptr<TimedSink>& sink) {
    if (Status status = run_.second.submit(request, sink); !status.ok()) die(status);
  }

  void one_alone() {
    const TimePoint begin = Clock::now();
    const batch::GenerationRequest divided = request(n_requests_ % 4);
    Parked parked = first_layers(divided).get();
    const TimePoint handed = Clock::now();
    Done done;
    pass_on(divided, std::move(parked), done);
    const std::vector<TokenId> seen = tokens(done);
    figures_.first_s.push_back(Seconds(handed - begin).count());
    figures_.rest_s.push_back(Seconds(done.sink->first_at() - handed).count());
    batch::GenerationRequest again = divided;
    again.cache_salt += " again";
    const auto sink = std::make_shared<TimedSink>();
    const TimePoint start = Clock::now();
    submit(again, sink);
    sink->wait();
    figures_.whole_s.push_back(Seconds(sink->first_at() - start).count());
    require_same(sink->ids(), seen);
  }

  // Prompts a second of several that wait at once. Divided: the first engine is one prompt ahead of the second.
  double many(bool divided) {
    std::vector<batch::GenerationRequest> requests;
    for (std::uint32_t i = 0; i < kPromptsOfARound; ++i) requests.push_back(request(i));
    const TimePoint begin = Clock::now();
    std::vector<std::vector<TokenId>> seen;
    if (divided) {
      std::vector<Done> done(kPromptsOfARound);
      std::future<Parked> ahead = first_layers(requests[0]);
      for (std::uint32_t i = 0; i < kPromptsOfARound; ++i) {
        Parked parked = ahead.get();
        if (i + 1 < kPromptsOfARound) ahead = first_layers(requests[i + 1]);
        pass_on(requests[i], std::move(parked), done[i]);
      }
      for (Done& each : done) seen.push_back(tokens(each));
    } else {
      std::vector<std::shared_ptr<TimedSink>> sinks;
      for (const auto& each : requests)
        submit(each, sinks.emplace_back(std::make_shared<TimedSink>()));
      for (const auto& sink : sinks) {
        sink->wait();
        seen.push_back(sink->ids());
      }
    }
    const double seconds = Seconds(Clock::now() - begin).count();
    if (last_seen_.empty()) last_seen_ = seen;
    for (std::size_t i = 0; i < seen.size(); ++i) require_same(seen[i], last_seen_[i]);
    return kPromptsOfARound / seconds;
  }

  const SplitRun run_;
  batch::HandoverService service_;
  Figures figures_;
  std::vector<std::vector<TokenId>> last_seen_;  // of the texts of many()
  std::uint64_t n_requests_ = 0;
};

}  // namespace

void run_split(const SplitRun& run, std::unique_ptr<BlockTransport> by) {
  Split(run, std::move(by)).print();
}

}  // namespace coxswain::bench
