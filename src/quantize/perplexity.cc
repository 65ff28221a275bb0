#include "quantize/perplexity.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "model/model.h"
#include "model/single_sequence.h"

namespace coxswain::quantize {
namespace {

// Rows whose logits are held at once.
constexpr std::size_t kChunkTokens = 128;

double negative_logarithm(std::span<const float> logits, TokenId token) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::log(sum) - (static_cast<double>(logits[static_cast<std::size_t>(token)]) - largest);
}

}  // namespace

Result<Samples> samples_of(const tokenizer::Tokenizer& tokenizer,
                           std::string_view text,
                           std::string_view what,
                           std::size_t tokens_max,
                           std::size_t samples_max) {
  tokenizer::EncodeOptions options;
  options.wants_offsets = false;
  options.tokens_max = tokens_max * samples_max;
  COXSWAIN_ASSIGN_OR_RETURN(const tokenizer::Encoding encoding, tokenizer.encode(text, options));
  const std::size_t n = std::min(encoding.ids.size(), options.tokens_max);
  if (n < 2)
    return invalid_argument(std::string(what) + " has " + std::to_string(n) +
                            " tokens, at least 2 are needed");
  Samples out;
  for (std::size_t first = 0; first + 1 < n; first += tokens_max) {
    const auto begin = encoding.ids.begin() + static_cast<std::ptrdiff_t>(first);
    out.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(std::min(tokens_max, n - first)));
  }
  return out;
}

Result<double> perplexity(const std::string& path,
                          const Samples& samples,
                          const kernels::KernelTable& table,
                          kernels::ExecContext& exec) {
  model::LoadOptions load;
  load.model_dir = path;
  load.kernels = &table;
  load.exec = &exec;
  COXSWAIN_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> model, model::Model::load(load));
  model::SingleSequenceOptions options;
  for (const auto& sample : samples)
    options.tokens_max = std::max(options.tokens_max, static_cast<std::uint32_t>(sample.size()));
  options.chunk_tokens_max = kChunkTokens;
  options.logit_rows_max = kChunkTokens;
  COXSWAIN_ASSIGN_OR_RETURN(model::SingleSequence sequence,
                            model::SingleSequence::create(*model, exec, options));
  const std::size_t width = model->info().vocab_size;
  double sum = 0;
  std::uint64_t n_tokens = 0;
  for (const auto& sample : samples) {
    sequence.restart(static_cast<std::uint32_t>(sample.size()));
    for (std::size_t first = 0; first + 1 < sample.size(); first += kChunkTokens) {
      const std::size_t n = std::min(kChunkTokens, sample.size() - 1 - first);
      COXSWAIN_RETURN_IF_ERROR(sequence.feed(std::span(sample).subspan(first, n)));
      COXSWAIN_ASSIGN_OR_RETURN(const std::vector<float> logits, sequence.logits(n));
      for (std::size_t i = 0; i < n; ++i)
        sum +=
            negative_logarithm(std::span(logits).subspan(i * width, width), sample[first + i + 1]);
      n_tokens += n;
    }
  }
  return std::exp(sum / static_cast<double>(n_tokens));
}

}  // namespace coxswain::quantize
