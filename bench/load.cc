// coxswain-bench-load: how soon a model is in memory, beside what this machine needs for its bytes alone (kHelp).

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>

#include "arguments.h"
#include "base/machine.h"
#include "kernels/exec_context.h"
#include "kernels/kernel_table.h"
#include "measures.h"
#include "model/model.h"
#include "model/model_files.h"
#include "require.h"
#include "tensor/aligned_buffer.h"

namespace coxswain::bench {
namespace {

using BenchClock = std::chrono::steady_clock;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-load MODEL_DIR [--quantize NAME] [--threads N] [--isa NAME] [--rounds N]
                            [--weights-cache-dir DIR]

How soon a model's weights are in memory, as the server loads them: read, packed, hashed.

  --quantize NAME  a format that weights are made into (as stored)
  --threads N      threads that pack (a thread for each core)
  --isa NAME       the instruction set, as --isa of the server (the best that this CPU has)
  --rounds N       loads (5)
  --weights-cache-dir DIR  keeps what the first load packs, as the server does; the others read it (none)

Every round has three times: the load; the same bytes copied out of the files in pieces of 512 KiB by
as many threads, and nothing done with them; and the zeroing of as much fresh memory as the weights
take. The sum of the last two is what a load cannot be faster than. The first round reads from the
disk what the page cache lacks.
)";

double seconds_of(auto&& work) {
  const auto begin = BenchClock::now();
  work();
  return std::chrono::duration<double>(BenchClock::now() - begin).count();
}

// Copies all tensors out of the files.
void read_all(const weights::Checkpoint& checkpoint, kernels::ExecContext& exec) {
  constexpr std::uint64_t kPiece = std::uint64_t{512} << 10;
  struct Piece {
    const weights::TensorFile* file;
    std::uint64_t at;
  };
  std::vector<Piece> pieces;
  for (const weights::TensorFile& file : checkpoint.files()) {
    for (std::uint64_t at = 0; at < file.n_bytes(); at += kPiece) pieces.push_back({&file, at});
  }
  std::vector<std::vector<std::byte>> rooms(exec.n_threads(), std::vector<std::byte>(kPiece));
  exec.pool().run(pieces.size(), [&](std::size_t i, std::size_t worker) {
    const auto& [file, at] = pieces[i];
    const std::uint64_t n = std::min(kPiece, file->n_bytes() - at);
    if (!file->read_at(at, std::span(rooms[worker]).first(n))) std::abort();
  });
}

void zero(std::uint64_t n_bytes, kernels::ExecContext& exec) {
  constexpr std::size_t kPage = 4096;
  auto memory = require(tensor::AlignedBuffer::allocate(n_bytes));
  const std::size_t n_tasks = n_bytes / (std::size_t{2} << 20) + 1;
  exec.pool().run(n_tasks, [&](std::size_t i, std::size_t) {
    for (std::size_t at = n_bytes * i / n_tasks; at < n_bytes * (i + 1) / n_tasks; at += kPage)
      memory.data()[at] = std::byte{1};
  });
}

// The most memory that this process has had, in MiB.
double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int run(int argc, char** argv) {
  Arguments arguments(argc, argv, kHelp);
  model::LoadOptions options;
  options.quantize = arguments.text("quantize");
  const std::size_t n_threads =
      arguments.count("threads", static_cast<std::uint32_t>(base::usable_cores()));
  options.kernels = require(kernels::select_kernels(arguments.text("isa")));
  options.cache.folder = arguments.text("weights-cache-dir");
  options.cache.maker = "bench " + std::string(options.kernels->id);
  const std::uint32_t n_rounds = arguments.count("rounds", 5);
  options.model_dir = arguments.required_word("MODEL_DIR");
  arguments.finish();

  kernels::ExecContext exec(n_threads);
  options.exec = &exec;
  const model::ModelFiles files = require(model::ModelFiles::open(options.model_dir));
  const weights::Checkpoint checkpoint = require(files.open_weights());
  const double stored_gb = static_cast<double>(checkpoint.n_bytes()) / 1e9;
  const double start_mib = peak_mib();
  std::vector<double> loads;
  std::vector<double> limits;
  double first_peak = 0;
  std::uint64_t held = 0;
  for (std::uint32_t round = 0; round < n_rounds; ++round) {
    std::unique_ptr<model::Model> model;
    loads.push_back(seconds_of([&] { model = require(model::Model::load(options)); }));
    if (round == 0) first_peak = peak_mib() - start_mib;
    held = model->info().weight_bytes;
    if (round == 0)
      std::printf("%s %s, %s, %zu threads: %.3f GB stored, %.3f GB held\n",
                  model->info().model_type.c_str(),
                  model->info().dtype.c_str(),
                  std::string(options.kernels->id).c_str(),
                  n_threads,
                  stored_gb,
                  static_cast<double>(held) / 1e9);
    model.reset();
    const double reads = seconds_of([&] { read_all(checkpoint, exec); });
    const double zeros = seconds_of([&] { zero(held, exec); });
    limits.push_back(reads + zeros);
    std::printf("load %6.3f s   files copied %6.3f s   memory zeroed %6.3f s\n",
                loads.back(),
                reads,
                zeros);
    std::fflush(stdout);
  }
  std::printf(
      "median %.3f s (%.2f GB/s of the files), %.1f x the bytes alone; peak %.0f MiB, "
      "weights %.0f MiB\n",
      median(loads),
      stored_gb / median(loads),
      median(loads) / median(limits),
      first_peak,
      static_cast<double>(held) / (1 << 20));
  return 0;
}

}  // namespace
}  // namespace coxswain::bench

// NOLINTNEXTLINE(bugprone-exception-escape): a library's exception may as well end a benchmark
int main(int argc, char** argv) {
  return coxswain::bench::run(argc, argv);
}
