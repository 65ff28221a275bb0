#pragma once
// Normalizers: text to text, keeping track of where every byte came from.
//
// A normalizer leaves a text that it does not change as it is (a view stays a view), which is the
// usual case and costs one scan. Thread rule: immutable.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "tokenizer/aligned_text.h"

namespace coxswain::json {
class Value;
}

namespace coxswain::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Errors: kResourceExhausted if a regular expression runs into its limits.
  virtual Status apply(AlignedText& text) const = 0;
};

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

std::unique_ptr<Normalizer> make_unicode_normalizer(UnicodeForm form);
std::unique_ptr<Normalizer> make_prepend_normalizer(std::string text);
std::unique_ptr<Normalizer> make_replace_normalizer(std::string from, std::string to);
std::unique_ptr<Normalizer> make_sequence_normalizer(
    std::vector<std::unique_ptr<Normalizer>> parts);

// The "normalizer" section of a tokenizer.json; nullptr for null.
// Errors: kInvalidArgument naming the member at fault below `where`.
Result<std::unique_ptr<Normalizer>> parse_normalizer(const json::Value& section,
                                                     const std::string& where);

}  // namespace coxswain::tokenizer
