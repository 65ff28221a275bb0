#include "model/random_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "model/families/family.h"
#include "weights/safetensors_writer.h"

namespace coxswain::model {
namespace {

using tensor::DType;

constexpr std::size_t kBufferValues = std::size_t{1} << 20;

struct RandomTensor {
  weights::TensorDeclaration declaration;
  float mean = 0.0F;
  float spread = 0.0F;  // standard deviation
};

std::uint64_t n_values(const std::vector<std::uint64_t>& shape) {
  std::uint64_t n = 1;
  for (const std::uint64_t dimension : shape) n *= dimension;
  return n;
}

// Every tensor that a map names, once.
class TensorList {
 public:
  TensorList(const Architecture& architecture, weights::StoredType type) : type_(type) {
    const TensorMap& map = architecture.tensors;
    prefix_ = map.prefixes.front();
    norm_mean_ = 1.0F - architecture.arch.norm.weight_offset;
    map.embedding.visit(*this);
    for (const LayerMap& layer : map.layers) layer.visit(*this);
    map.head.visit(*this);
    prefix_.clear();  // the head stands beside the model
    (*this)(map.head.matrix);
  }

  // Of a part of a map.
  void operator()(const MatrixMap& map) {
    for (const Rows& rows : map.rows) {
      add(rows.tensor, rows.shape, 0.0F, 1.0F / std::sqrt(static_cast<float>(map.k)));
      add(rows.bias, {n_values(rows.shape) / map.k}, 0.0F, 0.1F);
    }
  }
  void operator()(const NormMap& map) {
    add(map.weight, norm_mean_, 0.1F);
    add(map.bias, 0.0F, 0.1F);
  }
  void operator()(const VectorMap& map) { add(map, 0.0F, 1.0F); }

  const std::vector<RandomTensor>& tensors() const { return tensors_; }

 private:
  void add(const std::string& name,
           const std::vector<std::uint64_t>& shape,
           float mean,
           float spread) {
    if (name.empty() || !names_.insert(prefix_ + name).second) return;
    tensors_.push_back({{prefix_ + name, type_, shape}, mean, spread});
  }
  void add(const VectorMap& map, float mean, float spread) {
    for (const std::string& name : map.tensors)
      add(name, {map.size / map.tensors.size()}, mean, spread);
  }
  weights::StoredType type_;
  std::string prefix_;
  float norm_mean_ = 1.0F;
  std::set<std::string> names_;
  std::vector<RandomTensor> tensors_;
};

// SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t next_bits(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

// Nearly normal with mean 0 and variance 1: the sum of four uniform 16-bit numbers.
float next_normal(std::uint64_t& state) {
  const std::uint64_t bits = next_bits(state);
  const auto sum = static_cast<std::int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) +
                                             (bits >> 32 & 0xFFFF) + (bits >> 48));
  constexpr float kScale = 1.7320508F / 65536.0F;  // sqrt(12 / 4) over the range of one number
  return static_cast<float>(sum - 2 * 65535) * kScale;
}

void append_value(std::vector<std::byte>& out, DType type, float value) {
  const std::size_t at = out.size();
  out.resize(at + tensor::size_of(type));
  if (type == DType::kF32) {
    std::memcpy(out.data() + at, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits =
      type == DType::kBf16 ? tensor::float_to_bf16(value) : tensor::float_to_f16(value);
  std::memcpy(out.data() + at, &bits, sizeof(bits));
}

}  // namespace

Status write_random_checkpoint(const json::Value& config, const RandomCheckpointOptions& options) {
  if (config.find("quantization_config") != nullptr)
    return invalid_argument("config: quantization_config: random weights are written plainly",
                            "quantization_config");
  COXSWAIN_ASSIGN_OR_RETURN(const Architecture architecture, read_architecture(config));
  const auto stored = options.type == DType::kF32    ? weights::StoredType::kF32
                      : options.type == DType::kBf16 ? weights::StoredType::kBf16
                                                     : weights::StoredType::kF16;
  const TensorList list(architecture, stored);
  std::vector<weights::TensorDeclaration> declarations;
  std::uint64_t total = 0;
  for (const RandomTensor& tensor : list.tensors()) {
    declarations.push_back(tensor.declaration);
    total += n_values(tensor.declaration.shape) * tensor::size_of(options.type);
  }
  COXSWAIN_ASSIGN_OR_RETURN(
      auto writer,
      weights::SafetensorsWriter::create(options.dir + "/model.safetensors", declarations));
  std::uint64_t state = options.seed;
  std::uint64_t done = 0;
  std::vector<std::byte> buffer;
  for (const RandomTensor& tensor : list.tensors()) {
    const std::uint64_t n = n_values(tensor.declaration.shape);
    for (std::uint64_t at = 0; at < n; at += kBufferValues) {
      buffer.clear();
      for (std::uint64_t i = at; i < std::min(n, at + kBufferValues); ++i) {
        append_value(buffer, options.type, tensor.mean + tensor.spread * next_normal(state));
      }
      COXSWAIN_RETURN_IF_ERROR(writer.append(buffer));
      done += buffer.size();
      if (options.progress) options.progress(done, total);
    }
  }
  COXSWAIN_RETURN_IF_ERROR(writer.finish());
  std::ofstream file(options.dir + "/config.json", std::ios::binary);
  file << json::write(config) << '\n';
  file.close();
  if (!file) return {Code::kResourceExhausted, options.dir + "/config.json: cannot be written"};
  return {};
}

}  // namespace coxswain::model
