#pragma once
// Added tokens: strings that are found in the text before the model sees it.
//
// Two passes, as in the reference: tokens that are not `normalized` are found in the text as it is,
// the others in the normalized text between them (their own content normalized too). Of the tokens
// that start at one place the longest wins, the leftmost place first.
// Thread rule: immutable once prepared.

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/function_ref.h"
#include "tokenizer/aligned_text.h"
#include "tokenizer/byte_trie.h"
#include "tokenizer/normalizer.h"

namespace coxswain::tokenizer {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;
  bool special = false;
  bool is_matched = true;  // false: known by id only, never found in a text
  // What the normalizer makes of a normalized token's content; set by prepare().
  std::string normal_form;
};

// A part of the text: an added token, or what the model has to encode.
struct TextSection {
  std::optional<TokenId> token;
  TextSpan origin;   // of the token, white space that it took included
  AlignedText text;  // if there is no token
};

class AddedTokens {
 public:
  // A token whose content is there already replaces it.
  void add(AddedToken token);
  // Builds what split() needs. REQUIRES: called once, after the last add().
  Status prepare(const Normalizer* normalizer);

  using Visit = base::FunctionRef<Status(TextSection section)>;

  // Cuts `input` and normalizes what is left; `visit` gets the sections from left to right. A
  // special token that touches one of the `untrusted` spans (sorted, disjoint, bytes of the input)
  // is not seen. Errors: those of `visit`, which end it, and of the normalizer.
  Status split(AlignedText input,
               const Normalizer* normalizer,
               std::span<const TextSpan> untrusted,
               Visit visit) const;

  // Whether split() asks where normalized text came from to keep special tokens out of `untrusted`.
  bool needs_origins() const { return has_special_normal_forms_; }

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(TokenId id) const;
  const AddedToken* find(std::string_view content) const;

 private:
  Status cut(const ByteTrie& trie,
             AlignedText text,
             std::span<const TextSpan> untrusted,
             Visit visit) const;
  std::optional<std::pair<std::size_t, std::size_t>> longest_at(
      const ByteTrie& trie,
      const AlignedText& text,
      std::size_t at,
      std::span<const TextSpan> untrusted) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, std::size_t> by_id_;
  TokenId id_min_ = std::numeric_limits<TokenId>::max();  // no id is below, none above id_max_:
  TokenId id_max_ = -1;                                   // most ids need no look-up
  std::unordered_map<std::string, std::size_t> by_content_;
  ByteTrie raw_;
  ByteTrie normalized_;
  bool has_special_normal_forms_ = false;
};

}  // namespace coxswain::tokenizer
