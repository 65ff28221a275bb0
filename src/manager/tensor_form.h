#pragma once
// The forms of a request's tensors: type, shape and number of values, and the words in which one is refused.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string_view>
#include <vector>

#include <coxswain/named_tensor.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain::manager {

enum class Shape : std::uint8_t {
  kScalar,  // one value: [1], or [1, 1] where a front end has put a batch dimension in front
  kRow,     // [1, n]
  kVocab,   // [1, V]
  kWords,   // [1, 2, m]
};

struct TensorForm {
  std::string_view name;
  ElementType type;
  Shape shape;
};

// "`name` must be `legal`. Given: `given`"; the field is the name.
Status refuse(std::string_view name, std::string_view legal, std::string_view given);
// "`name` is not supported: `why`"
Status not_honoured(std::string_view name, std::string_view why);

// Not ok: another type or shape, or not as many values as the shape says. V of kVocab is `vocab_size`.
Status check_form(const TensorForm& form, const NamedTensor& tensor, std::uint32_t vocab_size);

// Of a list of words, [1, 2, m]. Row 0: the ids of all words, one behind the other; row 1: where each word ends, filled
// up with -1.
Result<std::vector<std::vector<TokenId>>> unpack_words(const NamedTensor& tensor);

}  // namespace coxswain::manager
