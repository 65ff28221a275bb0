// coxswain-bench-multicast: how long packed weights take from one shard to several; kHelp says more.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <numeric>
#include <span>
#include <stdlib.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <proto/engine_v1.grpc.pb.h>

#include "arguments.h"
#include "measures.h"
#include "peers/peer_weights.h"
#include "peers/weights_service.h"
#include "require.h"
#include "rpc/convert.h"
#include "weights/image_store.h"

namespace coxswain {
namespace {

using bench::median;
using bench::require;
namespace pb = engine::v1;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-multicast [--mib N] [--section-mib N] [--rate-mib N] [--receivers N] [--rounds N]

Weights of N MiB (64) in sections of N MiB (4) go from one sender to 1 .. N receivers (3), over Unix sockets in one
process. Each sender's link is emulated: it sends at most N MiB/s (40), all its receivers together.

  star    every receiver takes from the one sender
  chain   the first receiver takes from the sender, each other one from the receiver before it, while that still loads
  lanes   one receiver takes from 1 .. N senders at once, each of which sends a part

Arms run in turn; prints medians over the rounds (5) of the time until the last receiver has all, the same divided by
that of one receiver from one sender, the bounds that are to hold, and the processor time of both ends for each GiB that
arrived.
)";

struct Setting {
  std::size_t bytes = 0;
  std::size_t section_bytes = 0;
  std::uint64_t rate_bytes = 0;
};

// One process's worth of weights, and the service that sends them.
class Node final : public pb::Engine::Service {
 public:
  Node(const std::string& path, const Setting& setting)
      : path_(path), service_(store_, setting.rate_bytes) {
    for (std::size_t left = setting.bytes; left > 0; left -= sections_.back().size()) {
      sections_.emplace_back(std::min(left, setting.section_bytes));
      store_->announce(sections_.size() - 1, sections_.back());
    }
    store_->describe({.key = "bench", .fingerprint = 1});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) bench::die(internal_error("no server at " + path));
  }
  ~Node() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& path() const { return path_; }

  // Has everything from the start.
  void fill() {
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      for (std::size_t k = 0; k < sections_[i].size(); ++k)
        sections_[i][k] = static_cast<std::byte>(k * 31 + i);
      store_->arrived(i, sections_[i].size());
    }
    store_->complete();
  }

  void load(std::vector<std::string> sources) {
    peers::PeerWeightsOptions options;
    options.addresses = std::move(sources);
    peers::PeerWeights source(options);
    (void)require(source.open("bench"));
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      const Status status =
          source.read(i, sections_[i], [&](std::size_t n) { store_->arrived(i, n); });
      if (!status.ok()) bench::die(status);
    }
    store_->complete();
  }

  bool has_same(const Node& other) const { return sections_ == other.sections_; }

  grpc::Status Weights(grpc::ServerContext* context,
                       const pb::WeightsRequest* request,
                       grpc::ServerWriter<pb::WeightsPart>* writer) override {
    const Status status = service_.send(*context, *request, *writer);
    pb::WeightsPart part;
    if (status.ok()) return grpc::Status::OK;
    rpc::to_proto(status, *part.mutable_status());
    writer->Write(part);
    return grpc::Status::OK;
  }

 private:
  const std::string path_;
  std::shared_ptr<weights::ImageStore> store_ = std::make_shared<weights::ImageStore>();
  peers::WeightsService service_;
  std::vector<std::vector<std::byte>> sections_;
  std::unique_ptr<grpc::Server> server_;
};

struct Measured {
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
};

class Bench {
 public:
  explicit Bench(const Setting& setting) : setting_(setting) {
    std::string name = (std::filesystem::temp_directory_path() / "coxswain-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) bench::die(internal_error("no folder for sockets"));
    folder_ = name;
  }
  ~Bench() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Receiver i takes from sources(i); senders come first in the numbers.
  template <typename Sources>
  void run(std::size_t n_senders, std::size_t n_receivers, Sources sources, Measured& out) {
    std::vector<std::unique_ptr<Node>> nodes;
    for (std::size_t i = 0; i < n_senders + n_receivers; ++i) {
      nodes.push_back(
          std::make_unique<Node>(folder_ + "/" + std::to_string(n_sockets_++), setting_));
      if (i < n_senders) nodes.back()->fill();
    }
    const double cpu = bench::process_cpu_seconds();
    const auto begin = Clock::now();
    std::vector<std::future<void>> loads;
    for (std::size_t i = n_senders; i < nodes.size(); ++i) {
      std::vector<std::string> from;
      for (const std::size_t source : sources(i)) from.push_back(nodes[source]->path());
      loads.push_back(
          std::async(std::launch::async, [node = nodes[i].get(), from] { node->load(from); }));
    }
    for (auto& load : loads) load.get();
    out.seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    out.cpu_seconds.push_back(bench::process_cpu_seconds() - cpu);
    for (std::size_t i = n_senders; i < nodes.size(); ++i) {
      if (!nodes[i]->has_same(*nodes[0])) bench::die(internal_error("other bytes arrived"));
    }
  }

 private:
  const Setting setting_;
  std::string folder_;
  std::size_t n_sockets_ = 0;
};

int run(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  constexpr std::size_t kMib = std::size_t{1} << 20;
  const Setting setting{.bytes = arguments.count("mib", 64) * kMib,
                        .section_bytes = arguments.count("section-mib", 4) * kMib,
                        .rate_bytes = arguments.count("rate-mib", 40) * kMib};
  const std::size_t n_max = arguments.count("receivers", 3);
  const std::uint32_t n_rounds = arguments.count("rounds", 5);
  arguments.finish();

  // The library itself ends with its last user, which takes seconds: not between two rounds.
  grpc_init();
  Bench bench(setting);
  std::vector<Measured> star(n_max);
  std::vector<Measured> chain(n_max);
  std::vector<Measured> lanes(n_max);
  for (std::uint32_t round = 0; round < n_rounds; ++round) {
    for (std::size_t n = 1; n <= n_max; ++n) {
      const auto first = [](std::size_t) { return std::vector<std::size_t>{0}; };
      bench.run(1, n, first, star[n - 1]);
      const auto before = [](std::size_t i) { return std::vector<std::size_t>{i - 1}; };
      bench.run(1, n, before, chain[n - 1]);
      const auto all = [n](std::size_t) {
        std::vector<std::size_t> senders(n);
        std::iota(senders.begin(), senders.end(), 0);
        return senders;
      };
      bench.run(n, 1, all, lanes[n - 1]);
    }
  }
  const double mib = static_cast<double>(setting.bytes) / kMib;
  std::printf("%.0f MiB, links of %.0f MiB/s (emulated): %.2f s at the least\n\n",
              mib,
              static_cast<double>(setting.rate_bytes) / kMib,
              static_cast<double>(setting.bytes) / static_cast<double>(setting.rate_bytes));
  std::printf("%-6s %2s %8s %8s  %-9s %10s\n", "arm", "N", "s", "/ N = 1", "bound", "CPU s/GiB");
  const auto print = [&](const char* name, std::span<const Measured> arm, auto bound, bool shared) {
    const double one = median(arm[0].seconds);
    for (std::size_t n = 1; n <= arm.size(); ++n) {
      const double ratio = median(arm[n - 1].seconds) / one;
      const double gib = mib / 1024 * static_cast<double>(shared ? 1 : n);
      std::printf("%-6s %2zu %8.2f %8.2f  %-9s %10.2f\n",
                  name,
                  n,
                  median(arm[n - 1].seconds),
                  ratio,
                  bound(static_cast<double>(n)).c_str(),
                  median(arm[n - 1].cpu_seconds) / gib);
    }
  };
  const auto text = [](const char* sign, double value) {
    char out[32];
    std::snprintf(out, sizeof out, "%s %.2f", sign, value);
    return std::string(out);
  };
  print(
      "star", star, [&](double n) { return text(">=", 0.8 * n); }, false);
  print(
      "chain", chain, [&](double) { return text("<=", 1.15); }, false);
  print(
      "lanes", lanes, [&](double n) { return text("<=", 1.2 / n); }, true);
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  return coxswain::run(argc, argv);
}
