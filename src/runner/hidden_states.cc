#include "runner/hidden_states.h"

#include <cstring>
#include <xxhash.h>

#include "base/raw_bytes.h"

namespace coxswain::runner {

void seal_hidden(std::string& bytes) {
  const std::size_t n = bytes.size() - sizeof(std::uint64_t);
  const std::uint64_t sum = XXH3_64bits(bytes.data(), n);
  std::memcpy(bytes.data() + n, &sum, sizeof sum);
}

Status check_hidden(std::string_view bytes, std::uint64_t hidden_size) {
  const std::uint64_t row_bytes = hidden_size * sizeof(float);
  if (bytes.size() < sizeof(std::uint64_t) ||
      (bytes.size() - sizeof(std::uint64_t)) % row_bytes != 0) {
    return invalid_argument("hidden states of " + std::to_string(bytes.size()) +
                                " bytes are no rows of " + std::to_string(row_bytes) +
                                " and a checksum",
                            "attachment");
  }
  const std::size_t n = bytes.size() - sizeof(std::uint64_t);
  if (XXH3_64bits(bytes.data(), n) == base::raw_at<std::uint64_t>(bytes, n)) return {};
  return {Code::kDataLoss, "hidden states: a wrong checksum"};
}

}  // namespace coxswain::runner
