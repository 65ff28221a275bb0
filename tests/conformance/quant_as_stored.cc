#include "conformance/quant_as_stored.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "conformance/golden_values.h"
#include "conformance/reference_model.h"

namespace coxswain::conformance {
namespace {

// A row is rounded to multiples of its largest magnitude / 127. The errors are spread evenly over a multiple, so their
// root mean square is largest / (127 * sqrt(12)) = largest / 440, and that of a product's result, relative to the
// result, is (largest / rms of the row) / 440: at most sqrt(inputs) / 440. Errors of products that follow each other,
// seven for each layer and the head, add up as squares. kGain is left to what is not linear between them: softmax turns
// differences into factors, a gate multiplies two results. (Codes read wrongly are off by the size of the logits.)
constexpr double kStep = 440.0;
constexpr double kProductsOfLayer = 7.0;
constexpr double kGain = 2.0;

double bound_of(const model::ModelInfo& info) {
  return kGain * std::sqrt((kProductsOfLayer * info.n_layers + 1.0) * info.hidden_size) / kStep;
}

double error_of(const std::vector<float>& got, const std::vector<float>& expected) {
  double squares = 0.0;
  double all = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    squares += difference * difference;
    all += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(squares / all);
}

// Prompts at once and token by token give the last row's bits.
Status check_one_by_one(ReferenceModel& loaded,
                        const std::vector<TokenId>& ids,
                        const std::vector<float>& logits) {
  loaded.sequence->restart(static_cast<std::uint32_t>(loaded.tokens_max));
  for (const TokenId& id : ids) COXSWAIN_RETURN_IF_ERROR(loaded.sequence->feed({&id, 1}));
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<float> last, loaded.sequence->logits(1));
  const float* const row = logits.data() + (logits.size() - last.size());
  if (std::memcmp(row, last.data(), last.size() * sizeof(float)) != 0)
    return mismatch("as stored: a prompt at once and token by token give different bits");
  return {};
}

}  // namespace

Result<AsStored> check_as_stored(const ConformanceOptions& options,
                                 const std::string& path,
                                 const json::Value& expected,
                                 std::uint32_t tokens_max) {
  COXSWAIN_ASSIGN_OR_RETURN(const ReferenceModel decoded,
                            load_reference_model(options, path, tokens_max));
  COXSWAIN_ASSIGN_OR_RETURN(ReferenceModel loaded,
                            load_reference_model(options, path, tokens_max, true));
  const model::ModelInfo& info = loaded.model->info();
  AsStored out;
  out.format = info.dtype;
  out.bytes_share = static_cast<double>(info.weight_bytes) /
                    static_cast<double>(decoded.model->info().weight_bytes);
  const double bound = bound_of(info);
  for (const json::Value& prompt : expected.find("prompts")->as_array()) {
    const auto ids = golden_ids(prompt, "ids");
    loaded.sequence->restart(tokens_max);
    COXSWAIN_RETURN_IF_ERROR(loaded.sequence->feed(ids));
    const bool has_all = prompt.find("logits_all_positions") != nullptr;
    COXSWAIN_ASSIGN_OR_RETURN(const auto logits, loaded.sequence->logits(has_all ? ids.size() : 1));
    const auto wanted = golden_floats(prompt, has_all ? "logits_all_positions" : "logits_last");
    if (wanted.size() != logits.size()) return mismatch("as stored: sizes differ");
    const double error = error_of(logits, wanted);
    out.worst_error = std::isnan(error) ? INFINITY : std::max(out.worst_error, error);
    if (!(error <= bound))
      return mismatch("as stored: logits are off by " + std::to_string(error) +
                      " of their size, allowed " + std::to_string(bound));
    COXSWAIN_RETURN_IF_ERROR(check_one_by_one(loaded, ids, logits));
  }
  return out;
}

}  // namespace coxswain::conformance
