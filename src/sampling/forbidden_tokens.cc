#include "sampling/forbidden_tokens.h"

#include <algorithm>

namespace coxswain::sampling {

bool TokenHistory::ends_with(std::span<const TokenId> ids) const {
  if (ids.size() > size()) return false;
  const std::size_t begin = size() - ids.size();
  for (std::size_t i = ids.size(); i-- > 0;) {
    if ((*this)[begin + i] != ids[i]) return false;
  }
  return true;
}

bool may_forbid(const SamplingParams& sampling, const StoppingParams& stopping) {
  return !sampling.bad_words.empty() || sampling.no_repeat_ngram_size > 0 ||
         stopping.min_new_tokens > 0;
}

void add_bad_words(const TokenHistory& history,
                   std::span<const std::vector<TokenId>> words,
                   std::vector<TokenId>& ids) {
  for (const std::vector<TokenId>& word : words) {
    if (history.ends_with(std::span(word).first(word.size() - 1))) ids.push_back(word.back());
  }
}

void add_repeated_ngrams(const TokenHistory& history, std::size_t n, std::vector<TokenId>& ids) {
  if (history.size() < n) return;
  const std::size_t last = history.size() - (n - 1);  // the begin of what the next token completes
  for (std::size_t begin = 0; begin < last; ++begin) {
    std::size_t same = 0;
    while (same + 1 < n && history[begin + same] == history[last + same]) ++same;
    if (same + 1 == n) ids.push_back(history[begin + same]);
  }
}

void find_forbidden(const TokenHistory& history,
                    const SamplingParams& sampling,
                    const StoppingParams& stopping,
                    std::span<const TokenId> end_ids,
                    std::vector<TokenId>& ids) {
  ids.clear();
  add_bad_words(history, sampling.bad_words, ids);
  if (sampling.no_repeat_ngram_size > 0)
    add_repeated_ngrams(history, sampling.no_repeat_ngram_size, ids);
  if (history.output.size() < stopping.min_new_tokens)
    ids.insert(ids.end(), end_ids.begin(), end_ids.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace coxswain::sampling
