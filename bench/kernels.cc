// coxswain-bench-kernels: the kernels in the shapes of Llama-3.2-1B beside the limits of this machine; kHelp says more.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "arguments.h"
#include "kernels/kernel_table.h"
#include "machine_limits.h"
#include "require.h"

namespace coxswain::bench {
namespace {

using kernels::KernelTable;
using kernels::MatrixImage;
using kernels::WeightFormat;

struct Options {
  std::size_t n_threads = std::max(1U, std::thread::hardware_concurrency());
  std::string isa;
  std::string only;
  Timer timer = Timer::kWall;
};

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-kernels [--threads N] [--isa NAME] [--only TEXT] [--clock wall|cpu]

The kernels in the shapes of Llama-3.2-1B beside the limits of this machine, measured in the
same run.

  --threads N       threads of the pool (all CPUs)
  --isa NAME        the instruction set, as --isa of the server (the best that this CPU has)
  --only TEXT       only what has TEXT in its name, e.g. bf16, attention, elementwise; attention's
                    are `attention TYPE decode` and `attention TYPE prompt`
  --clock wall|cpu  cpu counts the time of this thread alone: for --threads 1 on a machine that
                    others use as well (wall)

Decode rows are shares of the read bandwidth read right before and after; prefill rows are shares
of the peak of the instruction that the set multiplies with. Weights are cold: several layers of
their own memory are used in turn. The last line says what other programs took.
)";

Options parse(int argc, char** argv) {
  Arguments arguments(argc, argv, kHelp);
  Options options;
  options.n_threads = arguments.count("threads", static_cast<std::uint32_t>(options.n_threads));
  options.isa = arguments.text("isa");
  options.only = arguments.text("only");
  if (arguments.one_of("clock", {"wall", "cpu"}, "wall") == "cpu") options.timer = Timer::kThread;
  arguments.finish();
  return options;
}

// Outputs and inputs of a layer's matrices, fused as the model does: q, k and v; output; gate and up; down.
struct Shape {
  const char* name;
  std::size_t n, k;
};
constexpr Shape kLayer[] = {
    {"qkv", 3072, 2048}, {"out", 2048, 2048}, {"gate_up", 16384, 2048}, {"down", 2048, 8192}};
constexpr Shape kHead = {"head", 128256, 2048};
constexpr std::size_t kLayers = 16;     // of the model
constexpr std::size_t kColdLayers = 3;  // kept in memory and used in turn

std::vector<float> random_values(std::size_t n) {
  std::mt19937 generator(1);
  std::normal_distribution<float> distribution(0.0F, 0.05F);
  std::vector<float> out(n);
  for (float& value : out) value = distribution(generator);
  return out;
}

struct Weights {
  std::vector<MatrixImage> layers;  // kColdLayers times kLayer
  MatrixImage head;

  std::size_t layer_bytes() const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < std::size(kLayer); ++i) bytes += layers[i].bytes.size();
    return bytes;
  }
};

MatrixImage pack(const KernelTable& table,
                 const WeightFormat& format,
                 const Shape& shape,
                 const std::vector<float>& values) {
  // Blocks of rows repeat the same random values; bits of weights do not change the speed.
  std::vector<kernels::DenseRows> pieces;
  const std::size_t block = values.size() / shape.k;
  for (std::size_t row = 0; row < shape.n; row += block) {
    pieces.push_back({reinterpret_cast<const std::byte*>(values.data()),
                      tensor::DType::kF32,
                      std::min(block, shape.n - row)});
  }
  return require(kernels::pack_matrix(table.ops(format), shape.k, pieces));
}

Weights make_weights(const KernelTable& table, const WeightFormat& format) {
  const std::vector<float> values = random_values(std::size_t{2048} * 2048);
  Weights weights;
  for (std::size_t layer = 0; layer < kColdLayers; ++layer) {
    for (const Shape& shape : kLayer) weights.layers.push_back(pack(table, format, shape, values));
  }
  weights.head = pack(table, format, kHead, values);
  return weights;
}

class Bench {
 public:
  Bench(const Options& options, const KernelTable& table)
      : options_(options),
        table_(table),
        exec_(options.n_threads),
        reader_(std::size_t{512} << 20) {}

  void limits();
  void linears(const WeightFormat& format);
  void attention();
  void elementwise();
  void others() const {
    std::printf("other programs took %.1f %% of all CPU time\n", 100 * others_.share());
  }

 private:
  bool wanted(const std::string& name) const {
    return name.find(options_.only) != std::string::npos;
  }
  // Seconds of one call for m rows, a median.
  double time_of(std::size_t m, const std::vector<const MatrixImage*>& matrices);
  double layer_seconds(const Weights& weights, std::size_t m);
  void print_decode(const Weights& weights, const WeightFormat& format);
  void print_rows(const Weights& weights, const WeightFormat& format, std::size_t m);
  // Of `n_streams` sequences, the last n_rows of `length` positions each.
  void attention_rows(tensor::DType type,
                      std::size_t n_streams,
                      std::size_t n_rows,
                      std::size_t length);

  const Options& options_;
  const KernelTable& table_;
  kernels::ExecContext exec_;
  ReadBandwidth reader_;
  ComputePeaks peaks_;
  OthersLoad others_;  // while something is measured
};

void Bench::limits() {
  peaks_ = measure_peaks(exec_.pool(), options_.timer);
  std::printf("set %s, %zu threads\n", std::string(table_.id).c_str(), exec_.n_threads());
  std::printf(
      "limits: read %.1f GB/s; f32 %.3f, bf16 %.3f, int8 %.3f, amx bf16 %.3f, amx int8 %.3f T "
      "operations/s\n",
      reader_.measure(exec_.pool(), options_.timer) / 1e9,
      peaks_.f32 / 1e12,
      peaks_.bf16 / 1e12,
      peaks_.int8 / 1e12,
      peaks_.amx_bf16 / 1e12,
      peaks_.amx_int8 / 1e12);
}

double Bench::time_of(std::size_t m, const std::vector<const MatrixImage*>& matrices) {
  std::size_t n = 0;
  std::size_t k = 0;
  for (const MatrixImage* matrix : matrices) {
    n = std::max(n, matrix->n);
    k = std::max(k, matrix->k);
  }
  const std::vector<float> x = random_values(m * k);
  std::vector<float> y(m * n);
  auto scratch = require(tensor::AlignedBuffer::allocate(
      kernels::linear_scratch_bytes({.rows = m, .k = k, .n_threads = exec_.n_threads()})));
  const auto pass = [&] {
    for (const MatrixImage* matrix : matrices) {
      const kernels::LinearInput input{x.data(), matrix->k, m, matrix->k};
      const kernels::LinearPiece piece{matrix, y.data(), matrix->n};
      const kernels::LinearProblem problem{.m = m, .pieces = {&piece, 1}};
      table_.linear(exec_,
                    {.inputs = {&input, 1}, .problems = {&problem, 1}, .scratch = scratch.bytes()});
    }
  };
  pass();
  std::vector<double> times;
  others_.begin();
  const double begin = now(options_.timer);
  while (times.size() < 3 || (now(options_.timer) - begin < 1.0 && times.size() < 50)) {
    const double start = now(options_.timer);
    pass();
    times.push_back(now(options_.timer) - start);
  }
  others_.end();
  std::nth_element(
      times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double Bench::layer_seconds(const Weights& weights, std::size_t m) {
  std::vector<const MatrixImage*> all;
  all.reserve(weights.layers.size());
  for (const MatrixImage& matrix : weights.layers) all.push_back(&matrix);
  return time_of(m, all) / kColdLayers;
}

void Bench::print_decode(const Weights& weights, const WeightFormat& format) {
  const std::string name = std::string(format.name);
  const double before = reader_.measure(exec_.pool(), options_.timer);
  const double layer = layer_seconds(weights, 1);
  const double between = reader_.measure(exec_.pool(), options_.timer);
  const double head = time_of(1, {&weights.head});
  const double after = reader_.measure(exec_.pool(), options_.timer);
  const double layer_rate = static_cast<double>(weights.layer_bytes()) / layer;
  const double head_rate = static_cast<double>(weights.head.bytes.size()) / head;
  const double bytes = kLayers * static_cast<double>(weights.layer_bytes()) +
                       static_cast<double>(weights.head.bytes.size());
  const double model = kLayers * layer + head;
  const double limit = (before + between + after) / 3;
  std::printf(
      "%-9s m    1: layers %5.1f GB/s (%3.0f %%), head %5.1f GB/s (%3.0f %%), model %5.1f GB/s = "
      "%5.1f tok/s, %3.0f %% of %.1f %.1f %.1f GB/s read\n",
      name.c_str(),
      layer_rate / 1e9,
      200 * layer_rate / (before + between),
      head_rate / 1e9,
      200 * head_rate / (between + after),
      bytes / model / 1e9,
      1 / model,
      100 * bytes / model / limit,
      before / 1e9,
      between / 1e9,
      after / 1e9);
}

void Bench::print_rows(const Weights& weights, const WeightFormat& format, std::size_t m) {
  const double layer = layer_seconds(weights, m);
  double operations = 0;
  for (const Shape& shape : kLayer) operations += 2.0 * static_cast<double>(m * shape.n * shape.k);
  std::printf(
      "%-9s m %4zu: layers %.3f T/s, %3.0f %% of peak; %.0f tok/s without head and attention\n",
      std::string(format.name).c_str(),
      m,
      operations / layer / 1e12,
      100 * operations / layer / peak_for(peaks_, table_.isa, table_.ops(format).arithmetic),
      static_cast<double>(m) / (layer * kLayers));
}

void Bench::linears(const WeightFormat& format) {
  if (!wanted(std::string(format.name))) return;
  const Weights weights = make_weights(table_, format);
  print_decode(weights, format);
  for (const std::size_t m : {2U, 4U, 8U, 16U, 32U, 64U, 128U, 512U})
    print_rows(weights, format, m);
}

// Caches of a model's layers for some sequences: of as many layers as make a decode read from memory.
class LayersCache {
 public:
  static constexpr std::size_t kHeads = 32;
  static constexpr std::size_t kKvHeads = 8;
  static constexpr std::size_t kDim = 64;
  static constexpr std::size_t kTokens = 16;

  LayersCache(tensor::DType type, std::size_t n_streams, std::size_t length)
      : type_(type),
        length_(length),
        block_bytes_(kKvHeads * kernels::kv_head_bytes(type, kTokens, kDim)),
        blocks_(n_streams * length / kTokens),
        region_bytes_(blocks_.size() * block_bytes_),
        n_layers_(std::clamp<std::size_t>(kColdBytes / layer_bytes(), 2, kLayers)),
        bytes_(require(tensor::AlignedBuffer::allocate(n_layers_ * layer_bytes()))) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i] = static_cast<BlockId>(i);
  }

  kernels::KvLayerView layer(std::size_t index) {
    kernels::KvLayerView view;
    view.k = bytes_.data() + index * layer_bytes();
    view.v = view.k + region_bytes_;
    view.k_block_stride_bytes = view.v_block_stride_bytes = block_bytes_;
    view.type = type_;
    view.n_kv_heads = kKvHeads;
    view.block_tokens = kTokens;
    view.k_head_dim = view.v_head_dim = kDim;
    return view;
  }
  std::size_t n_layers() const { return n_layers_; }
  std::size_t layer_bytes() const { return 2 * region_bytes_; }
  // The last n_rows positions of a stream.
  kernels::AttentionSequence rows(std::size_t stream, std::size_t n_rows) const {
    const std::size_t n_blocks = length_ / kTokens;
    kernels::AttentionSequence sequence;
    sequence.n_rows = n_rows;
    sequence.first_position = static_cast<std::int32_t>(length_ - n_rows);
    sequence.blocks = std::span(blocks_).subspan(stream * n_blocks, n_blocks);
    return sequence;
  }

 private:
  static constexpr std::size_t kColdBytes = std::size_t{256} << 20;

  tensor::DType type_;
  std::size_t length_;
  std::size_t block_bytes_;
  std::vector<BlockId> blocks_;
  std::size_t region_bytes_;
  std::size_t n_layers_;
  tensor::AlignedBuffer bytes_;
};

void Bench::attention() {
  for (const tensor::DType type :
       {tensor::DType::kBf16, tensor::DType::kI8, tensor::DType::kI4, tensor::DType::kF8E4M3}) {
    const std::string name = "attention " + std::string(tensor::name_of(type));
    if (wanted(name + " decode")) {
      for (const std::size_t length : {512U, 2048U, 8192U}) attention_rows(type, 1, 1, length);
      attention_rows(type, 256, 1, 64);
      for (const std::size_t length : {2048U, 8192U}) attention_rows(type, 32, 1, length);
    }
    if (wanted(name + " prompt")) {
      for (const std::size_t length : {512U, 2048U}) attention_rows(type, 1, length, length);
    }
  }
}

void Bench::attention_rows(tensor::DType type,
                           std::size_t n_streams,
                           std::size_t n_rows,
                           std::size_t length) {
  constexpr std::size_t kWidth = LayersCache::kHeads * LayersCache::kDim;
  constexpr std::size_t kKvWidth = LayersCache::kKvHeads * LayersCache::kDim;
  LayersCache cache(type, n_streams, length);
  const std::vector<float> x = random_values(std::max(length, n_streams) * kWidth);
  std::vector<float> out(n_streams * n_rows * kWidth);
  auto scratch = require(tensor::AlignedBuffer::allocate(
      kernels::attention_scratch_bytes(exec_.n_threads(), LayersCache::kHeads, LayersCache::kDim)));
  std::vector<kernels::AttentionSequence> sequences;
  for (std::size_t i = 0; i < n_streams; ++i) {
    const kernels::AttentionSequence everything = cache.rows(i, length);
    for (std::size_t layer = 0; layer < cache.n_layers(); ++layer) {
      table_.kv_write(
          exec_, {cache.layer(layer), x.data(), kKvWidth, x.data(), kKvWidth, {&everything, 1}});
    }
    sequences.push_back(cache.rows(i, n_rows));
    sequences.back().first_row = i * n_rows;
  }
  std::vector<double> times;
  const double before = reader_.measure(exec_.pool(), options_.timer);
  others_.begin();
  for (std::size_t repeat = 0; repeat < 4 * kLayers; ++repeat) {
    kernels::AttentionArgs args;
    args.cache = cache.layer(repeat % cache.n_layers());
    args.q = x.data();
    args.q_stride = args.out_stride = kWidth;
    args.out = out.data();
    args.n_heads = LayersCache::kHeads;
    args.scale = 0.125F;
    args.sequences = sequences;
    args.scratch = scratch.bytes();
    const double start = now(options_.timer);
    table_.attention(exec_, args);
    times.push_back(now(options_.timer) - start);
  }
  others_.end();
  const double read = std::max(before, reader_.measure(exec_.pool(), options_.timer));
  std::sort(times.begin(), times.end());
  const double seconds = times[times.size() / 2];
  const double rows = static_cast<double>(n_rows);
  const double keys =
      static_cast<double>(n_streams) * rows * (static_cast<double>(length) - (rows - 1) / 2);
  const double operations = keys * kWidth * 4;
  const double rate = static_cast<double>(cache.layer_bytes()) / seconds;
  std::printf(
      "attention %3zu x %4zu rows, %4zu positions, %s cache: %8.1f us a layer, %.3f T/s (%3.0f "
      "%% of f32 peak), %.1f GB/s of cache (%3.0f %% of %.1f)\n",
      n_streams,
      n_rows,
      length,
      std::string(tensor::name_of(type)).c_str(),
      seconds * 1e6,
      operations / seconds / 1e12,
      100 * operations / seconds / peaks_.f32,
      rate / 1e9,
      100 * rate / read,
      read / 1e9);
}

void Bench::elementwise() {
  if (!wanted("elementwise")) return;
  for (const std::size_t m : {std::size_t{1}, std::size_t{512}}) {
    std::vector<float> x = random_values(m * 16384);
    const std::vector<float> weight = random_values(16384);
    std::vector<float> y(m * 8192);
    const auto report = [&](const char* name, auto&& body) {
      std::vector<double> times;
      for (int repeat = 0; repeat < 31; ++repeat) {
        const double start = now(options_.timer);
        body();
        times.push_back(now(options_.timer) - start);
      }
      std::sort(times.begin(), times.end());
      std::printf("%-14s m %4zu: %7.1f us\n", name, m, times[15] * 1e6);
    };
    report("rms_norm 2048", [&] {
      table_.rms_norm(exec_,
                      {.x = x.data(),
                       .x_stride = 2048,
                       .y = y.data(),
                       .y_stride = 2048,
                       .m = m,
                       .n = 2048,
                       .weight = weight.data()});
    });
    report("silu*up 8192", [&] {
      table_.activation(exec_,
                        {x.data(),
                         16384,
                         x.data() + 8192,
                         16384,
                         y.data(),
                         8192,
                         m,
                         8192,
                         kernels::Activation::kSilu});
    });
    report("add 2048", [&] { table_.add(exec_, {x.data(), 2048, y.data(), 2048, m, 2048}); });
    report("rope 40 heads", [&] {
      table_.rope(exec_,
                  {x.data(),
                   3072,
                   m,
                   40,
                   64,
                   64,
                   weight.data(),
                   weight.data(),
                   kernels::RopeStyle::kHalves});
    });
  }
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  using namespace coxswain::bench;
  const Options options = parse(argc, argv);
  Bench bench(options, *require(coxswain::kernels::select_kernels(options.isa)));
  bench.limits();
  for (const auto* format : coxswain::kernels::weight_formats()) bench.linears(*format);
  bench.attention();
  bench.elementwise();
  bench.others();
  return 0;
}
