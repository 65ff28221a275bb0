#include "conformance/quant_folders.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <vector>

#include "conformance/golden_values.h"
#include "conformance/reference_model.h"
#include "conformance/sha256.h"
#include "model/model_files.h"
#include "model/stored_quant_config.h"
#include "weights/quant/module.h"
#include "weights/safetensors.h"

namespace coxswain::conformance {
namespace {

constexpr std::size_t kGoldenBytesMax = std::size_t{64} << 20;
constexpr double kRelative = 1e-6;  // of bitsandbytes

Result<std::vector<float>> values_of(const weights::DerivedTensor& tensor) {
  COXSWAIN_ASSIGN_OR_RETURN(
      const auto rows,
      tensor.open(
          [](const weights::StoredTensor& part, std::uint64_t offset, std::span<std::byte> out) {
            return part.file->read(*part.info, offset, out);
          }));
  const std::uint64_t k = tensor.info.shape.back();
  std::uint64_t n = 1;
  for (std::size_t i = 0; i + 1 < tensor.info.shape.size(); ++i) n *= tensor.info.shape[i];
  std::vector<float> out(n * k);
  // In pieces, as a loader asks for them.
  const std::uint64_t step = std::max<std::uint64_t>(n / 3, 1);
  for (std::uint64_t at = 0; at < n; at += step)
    COXSWAIN_RETURN_IF_ERROR(rows->read(at, std::min(step, n - at), out.data() + at * k));
  return out;
}

bool is_near(double got, double expected, double scale) {
  return std::fabs(got - expected) <= kRelative * scale;
}

Status check_near(const std::vector<float>& values,
                  const std::string& name,
                  const json::Value& facts,
                  const weights::TensorFile& samples) {
  double sum = 0.0;
  double abs_sum = 0.0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    abs_sum += std::fabs(static_cast<double>(value));
  }
  const double expected = golden_number(facts, "abs_sum", -1.0);
  if (!is_near(abs_sum, expected, expected) ||
      !is_near(sum, golden_number(facts, "sum", INFINITY), expected))
    return mismatch(name + ": sums differ");
  const weights::TensorInfo* const rows = samples.find(name);
  if (rows == nullptr) return {};  // some weights only
  std::vector<float> first(rows->n_bytes() / sizeof(float));
  if (first.empty() || first.size() > values.size()) return mismatch(name + ": sizes differ");
  COXSWAIN_RETURN_IF_ERROR(samples.read(*rows, 0, std::as_writable_bytes(std::span(first))));
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto wanted = static_cast<double>(first[i]);
    if (!is_near(static_cast<double>(values[i]), wanted, std::fabs(wanted)))
      return mismatch(name + ": value " + std::to_string(i) + " is " + std::to_string(values[i]) +
                      ", expected " + std::to_string(wanted));
  }
  return {};
}

Status check_layer(const weights::TensorFile& file,
                   const std::string& name,
                   const json::Value& facts) {
  weights::StoredQuant quant;
  quant.method = weights::StoredMethod::kGptq;
  quant.bits = static_cast<std::uint32_t>(golden_number(facts, "bits", 0));
  quant.group_size = static_cast<std::uint64_t>(golden_number(facts, "group_size", 0));
  quant.zeros_less_one = true;
  if (quant.bits == 0) return mismatch("no number of bits");
  weights::quant::Module module(name);
  for (const std::string_view suffix : weights::quant::kGptq.suffixes) {
    if (const auto* const part = file.find(name + std::string(suffix)))
      module.add(suffix, {part, &file});
  }
  COXSWAIN_ASSIGN_OR_RETURN(const weights::DerivedTensor tensor,
                            weights::quant::kGptq.derive(module, quant));
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<float> values, values_of(tensor));
  const weights::TensorInfo* const expected = file.find(name + ".dequantized");
  if (expected == nullptr || expected->shape != tensor.info.shape) return mismatch("another shape");
  std::vector<float> wanted(values.size());
  COXSWAIN_RETURN_IF_ERROR(file.read(*expected, 0, std::as_writable_bytes(std::span(wanted))));
  if (sha256_hex(std::as_bytes(std::span(wanted))) != sha256_hex(std::as_bytes(std::span(values))))
    return mismatch("values differ");
  return {};
}

}  // namespace

Result<std::size_t> check_weights(const std::string& folder, const json::Value& expected) {
  const json::Value* const list = expected.find("dequantized");
  if (list == nullptr || !list->is_object() || list->as_object().empty())
    return mismatch("no dequantised weights are listed");
  COXSWAIN_ASSIGN_OR_RETURN(const model::ModelFiles files, model::ModelFiles::open(folder));
  COXSWAIN_ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint, files.open_weights());
  if (files.stored_quant().method == weights::StoredMethod::kNone)
    return Status(Code::kUnimplemented, "quantising at load in another program's arithmetic");
  const bool is_near_enough =
      model::quantize_name(files.stored_quant()).starts_with("bitsandbytes");
  std::optional<weights::TensorFile> samples;
  if (is_near_enough) {
    COXSWAIN_ASSIGN_OR_RETURN(samples,
                              weights::open_safetensors(folder + "/expected_dequant.safetensors"));
  }
  for (const auto& [name, facts] : list->as_object()) {
    const auto at = checkpoint.find(name);
    if (!at || at.derived == nullptr) return mismatch(name + " is not quantised");
    COXSWAIN_ASSIGN_OR_RETURN(const std::vector<float> values, values_of(*at.derived));
    if (is_near_enough) {
      COXSWAIN_RETURN_IF_ERROR(check_near(values, name, facts, *samples));
    } else if (sha256_hex(std::as_bytes(std::span(values))) != golden_string(facts, "sha256_f32")) {
      return mismatch(name + ": the hash of its values differs");
    }
  }
  return list->as_object().size();
}

void run_layers(const std::string& folder, ConformanceReport& report) {
  if (!std::filesystem::exists(folder + "layers.json")) return;
  const auto list = json::parse_file(folder + "layers.json", kGoldenBytesMax);
  const auto file = weights::open_safetensors(folder + "layers.safetensors");
  if (!list.ok() || !file.ok() || !list->is_object())
    return report.fail("layers", "layers.json and layers.safetensors cannot be read");
  for (const auto& [layer, facts] : list->as_object()) {
    const std::string name = "layer-" + layer;
    if (!layer.starts_with("gptq") || !report.wants(name)) continue;
    if (const Status status = check_layer(*file, layer, facts); status.ok()) {
      report.pass(name, "equal bits");
    } else {
      report.fail(name, status.message());
    }
  }
}

}  // namespace coxswain::conformance
