#include "tokenizer/normalizer.h"

#include <array>
#include <functional>
#include <utf8proc.h>
#include <utility>

#include "json/json.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/precompiled_charsmap.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_reference.h"

namespace coxswain::tokenizer {
namespace {

char32_t lower(char32_t c) {
  // Upper-case letters of Unicode 15 to 17, and their lower-case forms.
  struct Pairs {
    char32_t first;
    char32_t last;
    char32_t lower;
  };
  static constexpr std::array<Pairs, 10> kNewer{{{0x1C89, 0x1C89, 0x1C8A},
                                                 {0xA7CB, 0xA7CB, 0x264},
                                                 {0xA7CC, 0xA7CC, 0xA7CD},
                                                 {0xA7CE, 0xA7CE, 0xA7CF},
                                                 {0xA7D2, 0xA7D2, 0xA7D3},
                                                 {0xA7D4, 0xA7D4, 0xA7D5},
                                                 {0xA7DA, 0xA7DA, 0xA7DB},
                                                 {0xA7DC, 0xA7DC, 0x19B},
                                                 {0x10D50, 0x10D65, 0x10D70},
                                                 {0x16EA0, 0x16EB8, 0x16EBB}}};
  const auto to = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  if (to != c || c < kNewer[0].first) return to;
  for (const Pairs& pairs : kNewer) {
    if (c >= pairs.first && c <= pairs.last) return pairs.lower + (c - pairs.first);
  }
  return c;
}

// A file can ask for replacements of replacements; what they may make of a text is bounded. The
// largest growth that Unicode itself asks for is 18 times (NFKC of U+FDFA).
constexpr std::size_t kGrowthMax = 32;
constexpr std::size_t kGrowthBytes = std::size_t{64} << 10;

Status check_growth(std::size_t n_source, std::size_t n_made) {
  if (n_made <= n_source * kGrowthMax + kGrowthBytes) return {};
  return {Code::kResourceExhausted,
          ErrorKind::kValidation,
          "the tokenizer's normalizer makes a text more than " + std::to_string(kGrowthMax) +
              " times as long"};
}

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  Status apply(AlignedText& text) const override {
    const std::size_t n_source = text.size();
    for (const auto& part : parts_) {
      COXSWAIN_RETURN_IF_ERROR(part->apply(text));
      COXSWAIN_RETURN_IF_ERROR(check_growth(n_source, text.size()));
    }
    return {};
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  Status apply(AlignedText& text) const override {
    if (text.empty() || prefix_.empty()) return {};
    AlignedBuilder out(text);
    out.put(prefix_, 0, 0);
    out.keep(0, text.size());
    text = AlignedText(std::move(out).finish());
    return {};
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(std::string from, std::string to)
      : from_(std::move(from)), to_(std::move(to)) {}
  Status apply(AlignedText& text) const override {
    const std::string_view source = text.text();
    std::size_t found = source.find(from_);
    if (from_.empty() || found == std::string_view::npos) return {};
    AlignedBuilder out(text);
    std::size_t at = 0;
    for (; found != std::string_view::npos; found = source.find(from_, at)) {
      out.keep(at, found);
      out.put(to_, found, found + from_.size());
      COXSWAIN_RETURN_IF_ERROR(check_growth(source.size(), out.size()));
      at = found + from_.size();
    }
    out.keep(at, source.size());
    text = AlignedText(std::move(out).finish());
    return {};
  }

 private:
  std::string from_;
  std::string to_;
};

class RegexReplaceNormalizer final : public Normalizer {
 public:
  RegexReplaceNormalizer(Regex regex, std::string to)
      : regex_(std::move(regex)), to_(std::move(to)) {}
  Status apply(AlignedText& text) const override {
    constexpr std::size_t kMatches = 512;  // looked for at a time
    const std::string_view source = text.text();
    std::size_t at = 0;
    COXSWAIN_ASSIGN_OR_RETURN(std::vector<TextSpan> found, regex_.find_some(source, kMatches, at));
    if (found.empty()) return {};
    AlignedBuilder out(text);
    std::size_t kept_to = 0;
    for (;;) {
      for (const TextSpan& part : found) {
        out.keep(kept_to, part.begin);
        out.put(to_, part.begin, part.end);
        kept_to = part.end;
      }
      COXSWAIN_RETURN_IF_ERROR(check_growth(source.size(), out.size()));
      if (at == source.size()) break;
      COXSWAIN_ASSIGN_OR_RETURN(found, regex_.find_some(source, kMatches, at));
    }
    out.keep(kept_to, source.size());
    text = AlignedText(std::move(out).finish());
    return {};
  }

 private:
  Regex regex_;
  std::string to_;
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  Status apply(AlignedText& text) const override {
    const std::string_view source = text.text();
    std::size_t begin = 0;
    std::size_t end = source.size();
    while (left_ && begin < end && is_space(code_point_at(source, begin).value))
      begin += code_point_at(source, begin).n_bytes;
    while (right_ && end > begin && is_space(code_point_before(source, end).value))
      end -= code_point_before(source, end).n_bytes;
    if (begin != 0 || end != source.size()) text = text.slice(begin, end);
    return {};
  }

 private:
  bool left_;
  bool right_;
};

// Maps every character on its own. `map` appends what becomes of it and returns false where that is
// the character itself (nothing was appended then).
class CharacterNormalizer final : public Normalizer {
 public:
  using Map = bool (*)(std::string& out, char32_t c);
  explicit CharacterNormalizer(Map map) : map_(map) {}

  Status apply(AlignedText& text) const override {
    const std::string_view source = text.text();
    std::string mapped;
    std::size_t at = 0;
    while (at < source.size()) {
      const CodePoint c = code_point_at(source, at);
      mapped.clear();
      if (map_(mapped, c.value)) break;
      at += c.n_bytes;
    }
    if (at == source.size()) return {};
    AlignedBuilder out(text);
    std::size_t kept_to = 0;
    while (at < source.size()) {
      const CodePoint c = code_point_at(source, at);
      mapped.clear();
      if (map_(mapped, c.value)) {
        out.keep(kept_to, at);
        out.put(mapped, at, at + c.n_bytes);
        kept_to = at + c.n_bytes;
      }
      at += c.n_bytes;
    }
    out.keep(kept_to, source.size());
    text = AlignedText(std::move(out).finish());
    return {};
  }

 private:
  Map map_;
};

// The full mapping of SpecialCasing that does not depend on context or language is one character:
// capital I with a dot above.
bool map_lowercase(std::string& out, char32_t c) {
  if (c == 0x130) {
    out.append("i\xCC\x87");
    return true;
  }
  const char32_t to = lower(c);
  if (to == c) return false;
  append_utf8(out, to);
  return true;
}

bool map_strip_marks(std::string&, char32_t c) {
  if (c == 0x1734) return true;  // a nonspacing mark up to Unicode 13
  return c >= 0x300 &&
         utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_MN &&
         !bert_keeps_mark(c);
}
bool map_strip_combining(std::string&, char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // marks up to Unicode 11, letters since
  return (char_class(c) & kClassMark) != 0 && newer_category(c).empty() && !strip_accents_keeps(c);
}

bool map_bert_clean(std::string& out, char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') {
    out.push_back(' ');
    return true;
  }
  constexpr std::uint16_t kKinds = kClassControl | kClassUnassigned;
  if (c == 0 || c == kReplacementCharacter) return true;
  if ((char_class(c) & kKinds) == kClassControl && !bert_keeps_format(c)) return true;
  if (c != ' ' && is_space(c)) {
    out.push_back(' ');
    return true;
  }
  return false;
}

bool map_bert_cjk(std::string& out, char32_t c) {
  if (!is_cjk_ideograph(c)) return false;
  out.push_back(' ');
  append_utf8(out, c);
  out.push_back(' ');
  return true;
}

bool map_byte_level(std::string& out, char32_t c) {
  std::string bytes;
  append_utf8(bytes, c);
  append_byte_characters(out, bytes);
  return out != bytes;
}

std::unique_ptr<Normalizer> per_character(CharacterNormalizer::Map map) {
  return std::make_unique<CharacterNormalizer>(map);
}

Result<std::unique_ptr<Normalizer>> parse_bert(const json::Value& section,
                                               const std::string& where) {
  COXSWAIN_ASSIGN_OR_RETURN(const bool clean, bool_field(section, "clean_text", true, where));
  COXSWAIN_ASSIGN_OR_RETURN(const bool cjk,
                            bool_field(section, "handle_chinese_chars", true, where));
  COXSWAIN_ASSIGN_OR_RETURN(const bool lowercase, bool_field(section, "lowercase", true, where));
  COXSWAIN_ASSIGN_OR_RETURN(const bool strip,
                            bool_field(section, "strip_accents", lowercase, where));
  std::vector<std::unique_ptr<Normalizer>> parts;
  if (clean) parts.push_back(per_character(map_bert_clean));
  if (cjk) parts.push_back(per_character(map_bert_cjk));
  if (strip) {
    parts.push_back(make_unicode_normalizer(UnicodeForm::kNfd));
    parts.push_back(per_character(map_strip_marks));
  }
  if (lowercase) parts.push_back(per_character(map_lowercase));
  return make_sequence_normalizer(std::move(parts));
}

// A sequence in a sequence becomes part of it: growth is counted from the start of the outermost.
Status append_sequence(const json::Value& section,
                       const std::string& where,
                       std::vector<std::unique_ptr<Normalizer>>& parts) {
  const json::Value* list = section.find("normalizers");
  if (list == nullptr || !list->is_array()) return field_error(where, "normalizers", "an array");
  for (std::size_t i = 0; i < list->as_array().size(); ++i) {
    const json::Value& item = list->as_array()[i];
    const std::string item_where = where + ".normalizers[" + std::to_string(i) + "]";
    const json::Value* type = item.find("type");
    if (type != nullptr && type->is_string() && type->as_string() == "Sequence") {
      COXSWAIN_RETURN_IF_ERROR(append_sequence(item, item_where, parts));
      continue;
    }
    COXSWAIN_ASSIGN_OR_RETURN(auto part, parse_normalizer(item, item_where));
    if (part) parts.push_back(std::move(part));
  }
  return {};
}

Result<std::unique_ptr<Normalizer>> parse_sequence(const json::Value& section,
                                                   const std::string& where) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  COXSWAIN_RETURN_IF_ERROR(append_sequence(section, where, parts));
  return make_sequence_normalizer(std::move(parts));
}

Result<std::unique_ptr<Normalizer>> parse_replace(const json::Value& section,
                                                  const std::string& where) {
  COXSWAIN_ASSIGN_OR_RETURN(const Pattern pattern, pattern_field(section, where));
  COXSWAIN_ASSIGN_OR_RETURN(std::string content, string_field(section, "content", where));
  if (!pattern.is_regex && !pattern.text.empty())
    return make_replace_normalizer(pattern.text, std::move(content));
  auto regex = Regex::compile(pattern.text);
  if (!regex.ok()) return regex.status().with_context(where);
  return std::unique_ptr<Normalizer>(
      std::make_unique<RegexReplaceNormalizer>(std::move(regex).value(), std::move(content)));
}

}  // namespace

std::unique_ptr<Normalizer> make_prepend_normalizer(std::string text) {
  return std::make_unique<PrependNormalizer>(std::move(text));
}

std::unique_ptr<Normalizer> make_replace_normalizer(std::string from, std::string to) {
  return std::make_unique<ReplaceNormalizer>(std::move(from), std::move(to));
}

std::unique_ptr<Normalizer> make_sequence_normalizer(
    std::vector<std::unique_ptr<Normalizer>> parts) {
  return std::make_unique<SequenceNormalizer>(std::move(parts));
}

Result<std::unique_ptr<Normalizer>> parse_normalizer(const json::Value& section,
                                                     const std::string& where) {
  if (section.is_null()) return std::unique_ptr<Normalizer>();
  COXSWAIN_ASSIGN_OR_RETURN(const std::string type, string_field(section, "type", where));
  if (type == "NFC") return make_unicode_normalizer(UnicodeForm::kNfc);
  if (type == "NFD") return make_unicode_normalizer(UnicodeForm::kNfd);
  if (type == "NFKC") return make_unicode_normalizer(UnicodeForm::kNfkc);
  if (type == "NFKD") return make_unicode_normalizer(UnicodeForm::kNfkd);
  if (type == "Lowercase") return per_character(map_lowercase);
  if (type == "StripAccents") return per_character(map_strip_combining);
  if (type == "ByteLevel") return per_character(map_byte_level);
  if (type == "BertNormalizer") return parse_bert(section, where);
  if (type == "Sequence") return parse_sequence(section, where);
  if (type == "Replace") return parse_replace(section, where);
  if (type == "Prepend") {
    COXSWAIN_ASSIGN_OR_RETURN(std::string prefix, string_field(section, "prepend", where));
    return make_prepend_normalizer(std::move(prefix));
  }
  if (type == "Strip") {
    COXSWAIN_ASSIGN_OR_RETURN(const bool left, bool_field(section, "strip_left", true, where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool right, bool_field(section, "strip_right", true, where));
    return std::unique_ptr<Normalizer>(std::make_unique<StripNormalizer>(left, right));
  }
  if (type == "Precompiled") {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string encoded,
                              string_field(section, "precompiled_charsmap", where));
    return make_precompiled_normalizer(encoded, where);
  }
  return invalid_argument(where + ": the normalizer \"" + type + "\" is not supported");
}

}  // namespace coxswain::tokenizer
