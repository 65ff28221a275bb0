#include "tokenizer/precompiled_charsmap.h"

#include <cstring>
#include <utf8proc.h>
#include <utility>

#include "base/base64.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kMapBytesMax = std::size_t{64} << 20;
constexpr std::size_t kKeyBytesMax = 4096;    // the walk ends here, whatever the trie says
constexpr std::size_t kGraphemeBytesMax = 6;  // longer clusters are mapped character by character

// The unit of a Darts double-array.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) == 1;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FF;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return unit >> 10 << ((unit & 0x200) >> 6);
}

class PrecompiledNormalizer final : public Normalizer {
 public:
  explicit PrecompiledNormalizer(PrecompiledCharsmap map) : map_(std::move(map)) {}

  // As the reference does: a grapheme cluster of less than six bytes is replaced whole by what its
  // shortest mapped prefix becomes; in other clusters every character is mapped on its own.
  Status apply(AlignedText& text) const override {
    const std::string_view source = text.text();
    AlignedBuilder out(text);
    std::size_t kept_to = 0;
    bool is_changed = false;
    // What comes first takes the place of all that was removed before it, as in the reference.
    const auto keep = [&](std::size_t begin, std::size_t end) {
      if (begin < end && begin > 0 && out.size() == 0) {
        const std::size_t first_end = begin + code_point_at(source, begin).n_bytes;
        out.put(source.substr(begin, first_end - begin), 0, first_end);
        begin = first_end;
      }
      out.keep(begin, end);
    };
    const auto replace = [&](std::size_t begin, std::size_t end) {
      const auto match = map_.shortest_match(source.substr(begin, end - begin));
      if (!match) return false;
      keep(kept_to, begin);
      out.put(match->replacement, out.size() == 0 ? 0 : begin, end);
      kept_to = end;
      return is_changed = true;
    };
    for (std::size_t at = 0; at < source.size();) {
      const std::size_t end = grapheme_end(source, at);
      if (end - at >= kGraphemeBytesMax || !replace(at, end)) {
        while (at < end) {
          const std::size_t next = at + code_point_at(source, at).n_bytes;
          replace(at, next);
          at = next;
        }
      }
      at = end;
    }
    if (!is_changed) return {};
    keep(kept_to, source.size());
    text = AlignedText(std::move(out).finish());
    return {};
  }

 private:
  static std::size_t grapheme_end(std::string_view text, std::size_t at) {
    CodePoint c = code_point_at(text, at);
    utf8proc_int32_t state = 0;
    at += c.n_bytes;
    while (at < text.size()) {
      const CodePoint next = code_point_at(text, at);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.value),
                                           static_cast<utf8proc_int32_t>(next.value),
                                           &state))
        break;
      at += next.n_bytes;
      c = next;
    }
    return at;
  }

  PrecompiledCharsmap map_;
};

}  // namespace

Result<PrecompiledCharsmap> PrecompiledCharsmap::from_bytes(std::string_view bytes) {
  PrecompiledCharsmap out;
  if (bytes.empty()) return out;
  std::uint32_t trie_bytes = 0;
  if (bytes.size() > kMapBytesMax)
    return invalid_argument("the character map is larger than 64 MiB");
  if (bytes.size() < sizeof(trie_bytes)) return invalid_argument("the character map is cut short");
  std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  if (trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4)
    return invalid_argument("the character map's trie does not fit into it");
  out.units_.resize(trie_bytes / 4);
  // An empty trie has no storage: its address may be null, which memcpy does not take even for no bytes.
  if (trie_bytes > 0) std::memcpy(out.units_.data(), bytes.data() + 4, trie_bytes);
  out.strings_ = bytes.substr(4 + trie_bytes);
  return out;
}

template <typename Visit>
void PrecompiledCharsmap::visit_prefixes(std::string_view text, Visit visit) const {
  if (units_.empty()) return;
  std::uint32_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size() && i < kKeyBytesMax; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) return;
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) return;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size() || !visit(i + 1, value_of(units_[node]))) return;
  }
}

std::string_view PrecompiledCharsmap::replacement(std::uint32_t value) const {
  if (value >= strings_.size()) return {};
  const std::string_view rest = std::string_view(strings_).substr(value);
  return rest.substr(0, rest.find('\0'));
}

std::optional<PrecompiledCharsmap::Match> PrecompiledCharsmap::longest_match(
    std::string_view text) const {
  std::optional<Match> out;
  visit_prefixes(text, [&](std::size_t n_bytes, std::uint32_t value) {
    out = Match{n_bytes, replacement(value)};
    return true;
  });
  return out;
}

std::optional<PrecompiledCharsmap::Match> PrecompiledCharsmap::shortest_match(
    std::string_view text) const {
  std::optional<Match> out;
  visit_prefixes(text, [&](std::size_t n_bytes, std::uint32_t value) {
    out = Match{n_bytes, replacement(value)};
    return false;
  });
  return out;
}

Result<std::unique_ptr<Normalizer>> make_precompiled_normalizer(std::string_view base64,
                                                                const std::string& where) {
  const std::optional<std::string> bytes = base::decode_base64(base64);
  if (!bytes) return invalid_argument(where + ": precompiled_charsmap is no base64 text");
  auto map = PrecompiledCharsmap::from_bytes(*bytes);
  if (!map.ok()) return map.status().with_context(where);
  return std::unique_ptr<Normalizer>(
      std::make_unique<PrecompiledNormalizer>(std::move(map).value()));
}

}  // namespace coxswain::tokenizer
