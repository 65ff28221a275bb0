#include "conformance/quant.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <utility>

#include "conformance/golden_values.h"
#include "conformance/quant_as_stored.h"
#include "conformance/quant_folders.h"
#include "conformance/reference_model.h"
#include "gguf/tensor_types.h"
#include "json/json.h"
#include "weights/gguf_blocks.h"
#include "weights/safetensors.h"

namespace coxswain::conformance {
namespace {

constexpr std::size_t kGoldenBytesMax = std::size_t{64} << 20;
constexpr std::uint32_t kTokensMax = 256;
// Of logits. Both sides have the same weights and round activations in float32: only sums differ in their order.
constexpr double kTolerance = 3e-4;
constexpr double kGapMin = 1e-3;  // greedy ids may part where best and second are nearer than this

struct Verdict {
  double worst_logit = 0.0;
  std::size_t n_ids = 0;
  std::size_t n_weights = 0;  // whose values are equal
  AsStored as_stored;

  std::string text() const {
    char line[160];
    std::snprintf(line,
                  sizeof(line),
                  "logits %.1e  %zu greedy ids  held %s (%.0f %% of float32) %.1f %% off",
                  worst_logit,
                  n_ids,
                  as_stored.format.c_str(),
                  as_stored.bytes_share * 100.0,
                  as_stored.worst_error * 100.0);
    return line + (n_weights == 0 ? "" : "  " + std::to_string(n_weights) + " weights");
  }
};

// Greedy ids behind a prompt that is fed already, and the logits behind them.
Status check_greedy(ReferenceModel& loaded, const json::Value& prompt, Verdict& verdict) {
  const auto ids = golden_ids(prompt, "greedy_ids");
  const auto gaps = golden_doubles(prompt, "greedy_gap");
  if (ids.empty() || gaps.size() != ids.size()) return mismatch("no greedy ids");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(const auto logits, loaded.sequence->logits(1));
    const std::string what = "greedy step " + std::to_string(i);
    if (i + 1 == ids.size()) {
      const std::string field = "logits_after_" + std::to_string(i) + "_tokens";
      if (prompt.find(field) != nullptr)
        COXSWAIN_RETURN_IF_ERROR(
            compare(logits, golden_floats(prompt, field), kTolerance, verdict.worst_logit, what));
    }
    if (gaps[i] < kGapMin) return {};
    if (const TokenId got = argmax(logits); got != ids[i])
      return mismatch(what + ": id " + std::to_string(got) + ", expected " +
                      std::to_string(ids[i]) + " (gap " + std::to_string(gaps[i]) + ")");
    ++verdict.n_ids;
    COXSWAIN_RETURN_IF_ERROR(loaded.sequence->feed({&ids[i], 1}));
  }
  return {};
}

Result<Verdict> check_model(const ConformanceOptions& options,
                            const std::string& path,
                            const std::string& expected_path) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value expected,
                            json::parse_file(expected_path, kGoldenBytesMax));
  COXSWAIN_ASSIGN_OR_RETURN(ReferenceModel loaded, load_reference_model(options, path, kTokensMax));
  const json::Value* const prompts = expected.find("prompts");
  if (prompts == nullptr || !prompts->is_array() || prompts->as_array().empty())
    return mismatch(expected_path + ": no prompts");
  Verdict verdict;
  for (const json::Value& prompt : prompts->as_array()) {
    const auto ids = golden_ids(prompt, "ids");
    if (ids.empty() || ids.size() > kTokensMax / 2)
      return mismatch("a prompt is too long or empty");
    loaded.sequence->restart(kTokensMax);
    COXSWAIN_RETURN_IF_ERROR(loaded.sequence->feed(ids));
    const bool has_all = prompt.find("logits_all_positions") != nullptr;
    COXSWAIN_ASSIGN_OR_RETURN(const auto logits, loaded.sequence->logits(has_all ? ids.size() : 1));
    COXSWAIN_RETURN_IF_ERROR(
        compare(logits,
                golden_floats(prompt, has_all ? "logits_all_positions" : "logits_last"),
                kTolerance,
                verdict.worst_logit,
                "prompt of " + std::to_string(ids.size())));
    COXSWAIN_RETURN_IF_ERROR(check_greedy(loaded, prompt, verdict));
  }
  COXSWAIN_ASSIGN_OR_RETURN(verdict.as_stored,
                            check_as_stored(options, path, expected, kTokensMax));
  return verdict;
}

void tell(ConformanceReport& report, const std::string& name, const Result<Verdict>& verdict) {
  if (verdict.ok()) {
    report.pass(name, verdict->text());
  } else if (verdict.status().code() == Code::kUnimplemented) {
    report.skip(name, verdict.status().message());
  } else {
    report.fail(name, verdict.status().message());
  }
}

Result<Verdict> check_folder(const ConformanceOptions& options, const std::string& folder) {
  const std::string expected_path = folder + "/expected.json";
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value expected,
                            json::parse_file(expected_path, kGoldenBytesMax));
  COXSWAIN_ASSIGN_OR_RETURN(const std::size_t n_weights, check_weights(folder, expected));
  COXSWAIN_ASSIGN_OR_RETURN(Verdict verdict, check_model(options, folder, expected_path));
  verdict.n_weights = n_weights;
  return verdict;
}

Result<std::vector<std::byte>> bytes_of(const weights::TensorFile& file, const std::string& name) {
  const weights::TensorInfo* const tensor = file.find(name);
  if (tensor == nullptr) return mismatch("no tensor " + name);
  std::vector<std::byte> out(tensor->n_bytes());
  COXSWAIN_RETURN_IF_ERROR(file.read(*tensor, 0, out));
  return out;
}

// Every block of one type. Returns how many.
Result<std::size_t> check_blocks(const weights::TensorFile& file,
                                 const std::string& name,
                                 const json::Value& facts) {
  const auto id = static_cast<std::uint32_t>(golden_number(facts, "ggml_type", -1));
  const gguf::TensorType* const type = gguf::find_tensor_type(id);
  const weights::DecodeBlock decode = weights::find_block_decoder(name);
  if (type == nullptr || type->name != name || decode == nullptr)
    return mismatch("type " + std::to_string(id) + " is not known under this name");
  if (type->block_values != golden_number(facts, "block_size", 0) ||
      type->block_bytes != golden_number(facts, "type_size", 0))
    return mismatch("blocks of another size");
  COXSWAIN_ASSIGN_OR_RETURN(const auto raw, bytes_of(file, name + ".raw"));
  COXSWAIN_ASSIGN_OR_RETURN(const auto expected, bytes_of(file, name + ".f32"));
  const std::size_t n_blocks = raw.size() / type->block_bytes;
  if (n_blocks == 0 || expected.size() != n_blocks * type->block_values * sizeof(float))
    return mismatch("the number of blocks and values do not fit");
  std::vector<float> values(type->block_values);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    decode(raw.data() + b * type->block_bytes, values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t wanted = 0;
      std::memcpy(
          &wanted, expected.data() + (b * values.size() + i) * sizeof(wanted), sizeof(wanted));
      if (std::bit_cast<std::uint32_t>(values[i]) != wanted)
        return mismatch("block " + std::to_string(b) + ", value " + std::to_string(i) + ": " +
                        std::to_string(values[i]) + ", expected " +
                        std::to_string(std::bit_cast<float>(wanted)));
    }
  }
  return n_blocks;
}

void run_blocks(const std::string& folder, ConformanceReport& report) {
  const auto list = json::parse_file(folder + "blocks.json", kGoldenBytesMax);
  const auto file = weights::open_safetensors(folder + "blocks.safetensors");
  if (!list.ok() || !file.ok() || !list->is_object()) {
    if (std::filesystem::exists(folder + "blocks.json"))
      report.fail("blocks", "blocks.json and blocks.safetensors cannot be read");
    return;
  }
  for (const auto& [type, facts] : list->as_object()) {
    const std::string name = "blocks-" + type;
    if (!report.wants(name)) continue;
    const auto n_blocks = check_blocks(*file, type, facts);
    if (n_blocks.ok()) {
      report.pass(name, std::to_string(*n_blocks) + " blocks, equal bits");
    } else {
      report.fail(name, n_blocks.status().message());
    }
  }
}

}  // namespace

ConformanceCounts run_quant_conformance(const ConformanceOptions& options) {
  ConformanceReport report("quant", options);
  const std::string all = options.data_dir + "/goldens/quant/";
  for (const std::string& name : conformance_cases(options, "goldens/quant")) {
    if (std::filesystem::exists(all + name + "/expected.json") && report.wants(name))
      tell(report, name, check_folder(options, all + name));
  }
  run_layers(all, report);
  const std::string sub = "goldens/quant/gguf";
  const std::string folder = options.data_dir + "/" + sub + "/";
  run_blocks(folder, report);
  for (const std::string& file : conformance_cases(options, sub)) {
    if (!file.ends_with(".gguf")) continue;
    const std::string name = file.substr(0, file.size() - 5);
    if (!report.wants(name)) continue;
    tell(report, name, check_model(options, folder + file, folder + name + ".expected.json"));
  }
  return report.counts();
}

}  // namespace coxswain::conformance
