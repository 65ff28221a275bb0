#include "conformance/grammar.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/golden_values.h"
#include "grammar/compiler.h"
#include "grammar/token_masks.h"
#include "json/json.h"

namespace coxswain::conformance {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{64} << 20;

// Two engines, and the white space that they let be between the tokens of a schema's text; without, they read the
// regular expression that outlines_core has made of it.
struct EnginePair {
  const char* first;
  const char* second;
  std::optional<grammar::SchemaOptions::Space> space;
};

std::span<const EnginePair> engine_pairs() {
  using Space = grammar::SchemaOptions::Space;
  static constexpr std::array kPairs{
      EnginePair{"xgrammar", "llguidance", Space::kBounded},
      EnginePair{"xgrammar-compact", "llguidance-compact", Space::kNone},
      EnginePair{"outlines-regex", "outlines-regex-xgrammar", std::nullopt},
  };
  return kPairs;
}

// Without a text where the pair has no part in the case.
grammar::Source source_of(const json::Value& one, const EnginePair& pair) {
  using Kind = grammar::Source::Kind;
  if (golden_string(one, "kind") == "regex")
    return {.kind = Kind::kRegex, .text = golden_string(one, "regex")};
  if (!pair.space) return {.kind = Kind::kRegex, .text = golden_string(one, "outlines_core_regex")};
  const json::Value* schema = one.find("schema");
  if (schema == nullptr) return {};
  return {.text = json::write(*schema), .schema = {.space = *pair.space}};
}

std::span<const json::Value> elements_of(const json::Value& object, std::string_view field) {
  const json::Value* list = object.find(field);
  if (list == nullptr || !list->is_array()) return {};
  return list->as_array();
}

using Bits = std::vector<std::uint8_t>;

struct Goldens {
  std::shared_ptr<const grammar::TokenTrie> trie;
  std::vector<Bits> masks;
  TokenId end = 0;

  std::span<const std::uint8_t> mask(TokenId index) const {
    const auto i = static_cast<std::size_t>(index);
    return i < masks.size() ? masks[i] : std::span<const std::uint8_t>();
  }
};

bool is_set(std::span<const std::uint8_t> mask, TokenId id) {
  const auto i = static_cast<std::size_t>(id);
  return i / 8 < mask.size() && (mask[i / 8] >> (i % 8) & 1) != 0;
}

struct Verdict {
  std::size_t n_masks = 0;
  std::size_t n_bits = 0;
  std::string problems;
};

// A case, read for one pair.
class PairCheck {
 public:
  PairCheck(const Goldens& goldens,
            const EnginePair& pair,
            const grammar::Source& source,
            grammar::Program program)
      : goldens_(goldens),
        pair_(pair),
        has_dot_(source.kind == grammar::Source::Kind::kRegex &&
                 source.text.find('.') != std::string::npos),
        masks_(std::move(program), goldens.trie) {}

  void check(const json::Value& string, Verdict& verdict) const {
    const json::Value* engines = string.find("engines");
    const json::Value* first = engines == nullptr ? nullptr : engines->find(pair_.first);
    const json::Value* second = engines == nullptr ? nullptr : engines->find(pair_.second);
    if (first == nullptr || second == nullptr) return;
    const std::vector<TokenId> ids = golden_ids(string, "ids");
    const auto first_masks = golden_ids(*first, "masks");
    const auto second_masks = golden_ids(*second, "masks");
    auto at = masks_.begin();
    for (std::size_t i = 0; i < std::min(first_masks.size(), second_masks.size()); ++i) {
      const std::string problem =
          check_masks(at, goldens_.mask(first_masks[i]), goldens_.mask(second_masks[i]), verdict);
      if (!problem.empty()) {
        verdict.problems += std::string("\n       ") + pair_.first + ", " +
                            golden_string(string, "text") + ", token " + std::to_string(i) + ":" +
                            problem;
      }
      if (i == ids.size() || !masks_.advance(at, ids[i])) return;
    }
  }

 private:
  std::string check_masks(const grammar::TokenMasks::Position& at,
                          std::span<const std::uint8_t> first,
                          std::span<const std::uint8_t> second,
                          Verdict& verdict) const {
    const auto mask = masks_.mask(at);
    if (!mask.ok()) return " " + mask.status().message();
    ++verdict.n_masks;
    std::string out;
    for (TokenId id = 0; id < static_cast<TokenId>(goldens_.trie->n_tokens()); ++id) {
      const bool theirs = is_set(first, id);
      const auto i = static_cast<std::size_t>(id);
      const bool ours =
          id == goldens_.end ? masks_.is_whole(at) : ((**mask)[i / 64] >> (i % 64) & 1) != 0;
      if (theirs != is_set(second, id) || (theirs && !ours && is_free(id))) continue;
      ++verdict.n_bits;
      if (ours != theirs) out += (theirs ? " forbids " : " allows ") + std::to_string(id);
    }
    return out;
  }

  // Engines differ about which ends of lines '.' takes: ours takes none.
  bool is_free(TokenId id) const {
    const std::string_view bytes = goldens_.trie->bytes(id);
    return has_dot_ && (bytes.find_first_of("\r\n") != std::string_view::npos ||
                        bytes.find("\xE2\x80") != std::string_view::npos);
  }

  const Goldens& goldens_;
  const EnginePair& pair_;
  bool has_dot_;
  grammar::TokenMasks masks_;
};

void run_case(const Goldens& goldens, const json::Value& one, ConformanceReport& report) {
  Verdict verdict;
  for (const EnginePair& pair : engine_pairs()) {
    const grammar::Source source = source_of(one, pair);
    if (source.text.empty()) continue;
    auto program = grammar::compile(source);
    if (!program.ok()) {
      verdict.problems += "\n       " + program.status().message();
      continue;
    }
    const PairCheck check(goldens, pair, source, std::move(program).value());
    for (const json::Value& string : elements_of(one, "strings")) check.check(string, verdict);
  }
  if (verdict.n_masks == 0) verdict.problems += "\n       there is nothing to compare";
  const std::string detail =
      std::to_string(verdict.n_masks) + " masks, " + std::to_string(verdict.n_bits) + " bits";
  if (verdict.problems.empty())
    report.pass(golden_string(one, "id"), detail);
  else
    report.fail(golden_string(one, "id"), detail + verdict.problems);
}

Result<Goldens> read_goldens(const std::string& folder, const json::Value& file) {
  COXSWAIN_ASSIGN_OR_RETURN(
      const json::Value vocabulary,
      json::parse_file(folder + "/tokenizer/token_bytes.json", kFileBytesMax));
  Goldens out;
  std::vector<std::string> tokens;
  for (const json::Value& token : elements_of(vocabulary, "bytes")) {
    const auto bytes = decode_base64(token.as_string());
    tokens.emplace_back(bytes.begin(), bytes.end());
  }
  out.trie = std::make_shared<const grammar::TokenTrie>(
      tokens.size(), [&](TokenId id) { return tokens[static_cast<std::size_t>(id)]; });
  for (const json::Value& mask : elements_of(file, "masks"))
    out.masks.push_back(decode_base64(mask.as_string()));
  out.end = static_cast<TokenId>(golden_number(file, "eos_id", -1));
  return out;
}

}  // namespace

ConformanceCounts run_grammar_conformance(const ConformanceOptions& options) {
  ConformanceReport report("grammar", options);
  const std::string folder = options.data_dir + "/goldens/grammar";
  const std::string path = folder + "/cases.json";
  if (!std::filesystem::exists(path)) return report.counts();
  const auto file = json::parse_file(path, kFileBytesMax);
  const auto goldens = file.ok() ? read_goldens(folder, *file) : Result<Goldens>(file.status());
  if (!goldens.ok()) {
    report.fail("cases", goldens.status().message());
    return report.counts();
  }
  for (const json::Value& one : elements_of(*file, "cases")) {
    if (report.wants(golden_string(one, "id"))) run_case(*goldens, one, report);
  }
  return report.counts();
}

}  // namespace coxswain::conformance
