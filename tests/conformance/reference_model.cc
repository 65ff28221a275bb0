#include "conformance/reference_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/kernel_table.h"

namespace coxswain::conformance {

Status mismatch(const std::string& what) {
  return {Code::kDataLoss, what};
}

Status compare(std::span<const float> got,
               std::span<const float> expected,
               double tolerance,
               double& worst,
               const std::string& what) {
  if (got.size() != expected.size() || got.empty()) return mismatch(what + ": sizes differ");
  double here = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference =
        std::fabs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
    here = std::isnan(difference) ? INFINITY : std::max(here, difference);
  }
  worst = std::max(worst, here);
  if (here <= tolerance) return {};
  return mismatch(what + ": off by " + std::to_string(here) + ", allowed " +
                  std::to_string(tolerance));
}

double log_sum_exp(std::span<const float> logits) {
  const double maximum = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float value : logits) sum += std::exp(value - maximum);
  return maximum + std::log(sum);
}

TokenId argmax(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Result<ReferenceModel> load_reference_model(const ConformanceOptions& options,
                                            const std::string& path,
                                            std::uint32_t tokens_max,
                                            bool as_stored) {
  COXSWAIN_ASSIGN_OR_RETURN(const kernels::KernelTable* table,
                            kernels::select_kernels(options.isa));
  model::LoadOptions load_options;
  load_options.model_dir = path;
  if (!as_stored) load_options.dtype = tensor::DType::kF32;
  load_options.kernels = table;
  load_options.cache = {.folder = options.weights_cache_dir, .maker = std::string(table->id)};
  ReferenceModel out;
  COXSWAIN_ASSIGN_OR_RETURN(out.model, model::Model::load(load_options));
  if (!options.weights_cache_dir.empty()) {
    // What has just been packed, or was there, as it comes out of its file.
    COXSWAIN_ASSIGN_OR_RETURN(out.model, model::Model::load(load_options));
    if (out.model->info().weight_cache.bytes_read == 0)
      return Status(Code::kDataLoss, path + ": no packed weights were read");
  }
  out.exec = std::make_unique<kernels::ExecContext>(options.n_threads);
  model::SingleSequenceOptions sequence;
  sequence.tokens_max = tokens_max;
  sequence.chunk_tokens_max = tokens_max;
  sequence.logit_rows_max = tokens_max;
  out.tokens_max = tokens_max;
  COXSWAIN_ASSIGN_OR_RETURN(model::SingleSequence made,
                            model::SingleSequence::create(*out.model, *out.exec, sequence));
  out.sequence.emplace(std::move(made));
  return out;
}

}  // namespace coxswain::conformance
