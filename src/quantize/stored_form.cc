#include "quantize/stored_form.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor/dtype.h"

namespace coxswain::quantize {
namespace {

using weights::StoredType;

constexpr std::uint64_t kWordBits = 32;

template <typename T>
OutputTensor tensor_of(std::string name,
                       StoredType type,
                       std::vector<std::uint64_t> shape,
                       const std::vector<T>& values) {
  OutputTensor out{{std::move(name), type, std::move(shape)}, {}};
  out.bytes.resize(values.size() * sizeof(T));
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

// Codes fill words from the lowest bits on; bits divide a word.
std::uint64_t words_of(std::uint64_t n_codes, std::uint32_t bits) {
  return (n_codes * bits + kWordBits - 1) / kWordBits;
}
void put_code(std::uint32_t& word, std::uint64_t i, std::uint32_t bits, std::uint32_t code) {
  word |= code << (i * bits % kWordBits);
}

std::vector<std::uint16_t> as_float16(const std::vector<float>& values) {
  std::vector<std::uint16_t> out;
  out.reserve(values.size());
  for (const float value : values) out.push_back(tensor::float_to_f16(value));
  return out;
}

// qweight has the codes of an output in a column, qzeros the zero points less one of a group in a row.
std::vector<OutputTensor> gptq_tensors(const std::string& module, const QuantisedMatrix& m) {
  const std::uint32_t bits = bits_of(m.kind);
  const std::uint64_t per_word = kWordBits / bits;
  std::vector<std::uint32_t> codes(words_of(m.k, bits) * m.n);
  for (std::uint64_t k = 0; k < m.k; ++k) {
    for (std::uint64_t n = 0; n < m.n; ++n)
      put_code(codes[k / per_word * m.n + n], k, bits, m.code(n, k));
  }
  std::uint32_t zeros = 0;
  for (std::uint64_t i = 0; i < per_word; ++i) put_code(zeros, i, bits, (1U << (bits - 1)) - 1);
  const std::uint64_t zero_words = words_of(m.n, bits);
  std::vector<float> scales;
  for (std::uint64_t g = 0; g < m.n_groups(); ++g) {
    for (std::uint64_t n = 0; n < m.n; ++n) scales.push_back(m.scale(n, g));
  }
  std::vector<OutputTensor> out;
  out.push_back(
      tensor_of(module + ".qweight", StoredType::kI32, {words_of(m.k, bits), m.n}, codes));
  out.push_back(tensor_of(module + ".qzeros",
                          StoredType::kI32,
                          {m.n_groups(), zero_words},
                          std::vector<std::uint32_t>(m.n_groups() * zero_words, zeros)));
  out.push_back(
      tensor_of(module + ".scales", StoredType::kF16, {m.n_groups(), m.n}, as_float16(scales)));
  out.push_back(tensor_of(module + ".g_idx", StoredType::kI32, {m.k}, m.groups));
  return out;
}

std::vector<OutputTensor> packed_tensors(const std::string& module, const QuantisedMatrix& m) {
  const std::uint32_t bits = bits_of(m.kind);
  const std::uint64_t per_word = kWordBits / bits;
  const std::uint64_t words = words_of(m.k, bits);
  std::vector<std::uint32_t> codes(m.n * words);
  for (std::uint64_t n = 0; n < m.n; ++n) {
    for (std::uint64_t k = 0; k < m.k; ++k)
      put_code(codes[n * words + k / per_word], k, bits, m.code(n, k));
  }
  std::vector<OutputTensor> out;
  out.push_back(tensor_of(module + ".weight_packed", StoredType::kI32, {m.n, words}, codes));
  out.push_back(tensor_of(
      module + ".weight_scale", StoredType::kF16, {m.n, m.n_groups()}, as_float16(m.scales)));
  out.push_back(tensor_of(
      module + ".weight_shape", StoredType::kI64, {2}, std::vector<std::uint64_t>{m.n, m.k}));
  return out;
}

std::vector<OutputTensor> float8_tensors(const std::string& module, const QuantisedMatrix& m) {
  std::vector<OutputTensor> out;
  out.push_back(tensor_of(module + ".weight", StoredType::kF8E4M3, {m.n, m.k}, m.codes));
  out.push_back(tensor_of(module + ".weight_scale", StoredType::kF32, {m.n, 1}, m.scales));
  return out;
}

json::Value gptq_config(const StoredOptions& options) {
  json::Object out;
  out.set("quant_method", "gptq");
  out.set("bits", json::Value::integer(bits_of(options.kind)));
  out.set("group_size",
          json::Value::integer(
              options.group_size == 0 ? -1 : static_cast<std::int64_t>(options.group_size)));
  out.set("sym", true);
  out.set("desc_act", options.act_order);
  out.set("checkpoint_format", "gptq");
  out.set("damp_percent", json::Value::real(options.percdamp));
  out.set("static_groups", false);
  out.set("true_sequential", false);
  return out;
}

json::Value compressed_config(const StoredOptions& options,
                              const std::vector<std::string>& ignored) {
  const bool is_float = options.kind == NumberKind::kFloat8;
  const bool has_groups = options.group_size != 0 && !is_float;
  json::Object weights;
  weights.set("num_bits", json::Value::integer(bits_of(options.kind)));
  weights.set("type", is_float ? "float" : "int");
  weights.set("symmetric", true);
  weights.set("strategy", has_groups ? "group" : "channel");
  weights.set("group_size",
              has_groups ? json::Value::unsigned_integer(options.group_size) : json::Value());
  weights.set("dynamic", false);
  weights.set("actorder", options.act_order ? json::Value("weight") : json::Value());
  json::Object group;
  group.set("targets", json::Array{json::Value("Linear")});
  group.set("weights", std::move(weights));
  group.set("input_activations", nullptr);
  group.set("output_activations", nullptr);
  json::Object groups;
  groups.set("group_0", std::move(group));
  json::Array ignore;
  for (const std::string& module : ignored) ignore.emplace_back(module);
  json::Object out;
  out.set("quant_method", "compressed-tensors");
  out.set("format", is_float ? "float-quantized" : "pack-quantized");
  out.set("quantization_status", "compressed");
  out.set("config_groups", std::move(groups));
  out.set("ignore", std::move(ignore));
  return out;
}

}  // namespace

Status check_shape(const StoredOptions& options,
                   const std::string& module,
                   std::uint64_t n,
                   std::uint64_t k) {
  const std::string shape = "\"" + module + "\" has " + std::to_string(k) + " inputs and " +
                            std::to_string(n) + " outputs, ";
  if (options.form == StoredForm::kGptq) {
    const std::uint64_t per_word = kWordBits / bits_of(options.kind);
    if (k % per_word == 0 && n % per_word == 0) return {};
    return invalid_argument(shape + "the format gptq wants multiples of " +
                            std::to_string(per_word) + "; take --format compressed-tensors");
  }
  if (options.kind == NumberKind::kFloat8 || options.group_size == 0 || k % options.group_size == 0)
    return {};
  return invalid_argument(shape + "no multiple of --groupsize " +
                          std::to_string(options.group_size) +
                          ", as compressed-tensors want it; take another, or -1");
}

std::vector<OutputTensor> stored_tensors(const StoredOptions& options,
                                         const std::string& module,
                                         const QuantisedMatrix& matrix) {
  if (matrix.kind == NumberKind::kFloat8) return float8_tensors(module, matrix);
  return options.form == StoredForm::kGptq ? gptq_tensors(module, matrix)
                                           : packed_tensors(module, matrix);
}

json::Value quantization_config(const StoredOptions& options,
                                const std::vector<std::string>& ignored) {
  return options.form == StoredForm::kGptq ? gptq_config(options)
                                           : compressed_config(options, ignored);
}

}  // namespace coxswain::quantize
