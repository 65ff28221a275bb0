// Reads rank files: lines of "base64-of-the-token rank".
//
// Two spellings exist: the token's bytes, and the token in the byte alphabet (then what stands
// before the first single byte are control tokens). The file does not say how text is split; its
// size does for the files that are known, LoadOptions::split_patterns for others.

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/base64.h"
#include "json/json.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/formats.h"
#include "tokenizer/rank_bpe.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

struct RankedToken {
  std::string text;
  TokenId id = 0;
};

Result<std::vector<RankedToken>> read_lines(std::string_view text) {
  std::vector<RankedToken> out;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto bad = [&](const std::string& what) {
      return invalid_argument("line " + std::to_string(line_number) + ": " + what);
    };
    if (out.size() > static_cast<std::size_t>(kTokenIdMax))
      return bad("one rank too many: ids end at " + std::to_string(kTokenIdMax));
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return bad("not a token and a rank");
    const auto token = base::decode_base64(line.substr(0, blank));
    if (!token || token->empty()) return bad("the token is no base64 text");
    RankedToken entry{*token, 0};
    const auto read = std::from_chars(line.data() + blank + 1, line.data() + line.size(), entry.id);
    if (read.ec != std::errc() || read.ptr != line.data() + line.size() || entry.id < 0 ||
        entry.id > kTokenIdMax)
      return bad("the rank is no integer in range");
    out.push_back(std::move(entry));
  }
  if (out.empty()) return invalid_argument("a rank file without ranks");
  return out;
}

// No single byte above ASCII, but the alphabet's blank.
bool is_in_byte_alphabet(const std::vector<RankedToken>& tokens) {
  const auto is_high_byte = [](const RankedToken& token) {
    return token.text.size() == 1 && static_cast<unsigned char>(token.text[0]) >= 0x80;
  };
  const auto is_blank = [](const RankedToken& token) { return token.text == "\xC4\xA0"; };
  const auto is_valid = [](const RankedToken& token) {
    return valid_utf8_prefix(token.text) == token.text.size();
  };
  return std::none_of(tokens.begin(), tokens.end(), is_high_byte) &&
         std::any_of(tokens.begin(), tokens.end(), is_blank) &&
         std::all_of(tokens.begin(), tokens.end(), is_valid);
}

std::vector<std::string> patterns_by_size(std::size_t n_tokens) {
  constexpr std::size_t kO200k = 190'000;
  constexpr std::size_t kCl100k = 90'000;
  if (n_tokens >= kO200k) return {std::string(scanner_pattern(SplitScanner::kO200k))};
  if (n_tokens >= kCl100k) return {std::string(scanner_pattern(SplitScanner::kCl100k))};
  return {std::string(scanner_pattern(SplitScanner::kGpt2))};
}

Status add_control(const RankedToken& token, TokenizerParts& parts) {
  AddedToken added;
  added.content = token.text;
  added.id = token.id;
  added.special = true;
  added.is_matched = false;
  if (parts.added.find(added.id) != nullptr || parts.added.find(added.content) != nullptr)
    return invalid_argument("the control token \"" + token.text + "\" or its rank " +
                            std::to_string(token.id) + " is there twice");
  parts.added.add(std::move(added));
  return {};
}

// Fills names (in the byte alphabet) and strings (bytes).
Status add_tokens(const std::vector<RankedToken>& tokens, TokenizerParts& parts) {
  const bool in_alphabet = is_in_byte_alphabet(tokens);
  TokenId first_byte = in_alphabet ? static_cast<TokenId>(kTokenIdMax) : 0;
  std::string bytes;
  for (const RankedToken& token : tokens) {
    bytes.clear();
    if (in_alphabet && append_bytes_of_characters(bytes, token.text) && bytes.size() == 1)
      first_byte = std::min(first_byte, token.id);
  }
  parts.strings = std::make_unique<TokenTable>();
  parts.strings->reserve(tokens.size(), tokens.size() * 8);
  parts.names->reserve(tokens.size(), tokens.size() * 8);
  std::string name;
  for (const RankedToken& token : tokens) {
    if (token.id < first_byte) {
      COXSWAIN_RETURN_IF_ERROR(add_control(token, parts));
      continue;
    }
    bytes.clear();
    name.clear();
    if (!in_alphabet || !append_bytes_of_characters(bytes, token.text)) bytes = token.text;
    append_byte_characters(name, bytes);
    if (!parts.strings->add(bytes, token.id) || !parts.names->add(name, token.id))
      return invalid_argument("the token \"" + name + "\" or its rank " + std::to_string(token.id) +
                              " is there twice");
  }
  return {};
}

}  // namespace

Result<TokenizerParts> read_tiktoken(std::string_view text,
                                     const std::vector<std::string>& split_patterns) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<RankedToken> tokens, read_lines(text));
  TokenizerParts parts;
  COXSWAIN_RETURN_IF_ERROR(add_tokens(tokens, parts));
  COXSWAIN_ASSIGN_OR_RETURN(
      parts.pre_tokenizer,
      split_and_byte_level(split_patterns.empty() ? patterns_by_size(tokens.size())
                                                  : split_patterns));
  RankBpeOptions options;
  options.reads_bytes = true;
  options.ranks.resize(parts.strings->id_end());
  for (std::size_t id = 0; id < options.ranks.size(); ++id)
    options.ranks[id] = static_cast<std::uint32_t>(id);
  options.whole_first = true;  // what a piece is in the file is what it becomes
  parts.model = std::make_unique<RankBpe>(*parts.strings, std::move(options));
  parts.model_reads_bytes = true;
  COXSWAIN_ASSIGN_OR_RETURN(parts.decoder,
                            parse_decoder(section(R"({"type": "ByteLevel"})"), "decoder"));
  return parts;
}

}  // namespace coxswain::tokenizer
