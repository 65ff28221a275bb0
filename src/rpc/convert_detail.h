#pragma once
// Pieces that the halves of convert.h share: ids, lists of them, caps, and the spec of a sequence.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <google/protobuf/repeated_field.h>

namespace coxswain::engine::v1 {
class SequenceSpec;
}  // namespace coxswain::engine::v1

namespace coxswain::rpc::detail {

using U32List = google::protobuf::RepeatedField<std::uint32_t>;

// Adds `n` to `count`; fails once it is above `max`.
inline Status count_up(std::size_t& count, std::size_t n, std::size_t max, std::string_view field) {
  count += n;
  if (count <= max) return {};
  return invalid_argument("`" + std::string(field) + "` must have at most " + std::to_string(max) +
                              " entries. Given: " + std::to_string(count),
                          std::string(field));
}

inline Status unknown_enum(std::string_view field, int value) {
  return invalid_argument(
      "`" + std::string(field) + "` has the unknown value " + std::to_string(value),
      std::string(field));
}

Result<TokenId> token_from_wire(std::uint32_t id, std::string_view field);
Result<std::vector<TokenId>> tokens_from_wire(const U32List& ids, std::string_view field);
void tokens_to_wire(const std::vector<TokenId>& ids, U32List& to);

void spec_to_proto(const SequenceSpec& from, engine::v1::SequenceSpec& to);
// `n_items` counts stop sequences, bad words, end ids and biases over one plan.
Result<SequenceSpec> spec_from_proto(const engine::v1::SequenceSpec& from, std::size_t& n_items);

}  // namespace coxswain::rpc::detail
