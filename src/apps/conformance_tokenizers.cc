#include "apps/conformance_tokenizers.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "json/json.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::apps {
namespace {

namespace fs = std::filesystem;

using tokenizer::EncodeOptions;
using tokenizer::LoadOptions;
using tokenizer::Tokenizer;
using Ids = std::vector<TokenId>;

constexpr std::size_t kFileBytesMax = std::size_t{256} << 20;

Ids ids_of(const json::Value* list) {
  Ids out;
  if (list == nullptr || !list->is_array()) return out;
  for (const json::Value& id : list->as_array())
    out.push_back(static_cast<TokenId>(id.to_int64().value_or(-1)));
  return out;
}

std::string string_of(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

// Counts what was compared in one file and keeps the first difference.
class Comparison {
 public:
  void ids(std::string_view what, const Ids& got, const Ids& wanted) {
    if (got == wanted) return;
    const auto [left, right] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
    const auto text = [](auto at, auto end) {
      return at == end ? std::string("the end") : std::to_string(*at);
    };
    differ(what,
           "token " + std::to_string(left - got.begin()) + " is " + text(left, got.end()) +
               ", not " + text(right, wanted.end()));
  }
  void text(std::string_view what, std::string_view got, std::string_view wanted) {
    if (got == wanted) return;
    const auto [left, right] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
    differ(what, "byte " + std::to_string(left - got.begin()) + " differs");
  }
  void differ(std::string_view what, const std::string& how) {
    is_different_ = true;
    if (first_.empty())
      first_ = "text " + std::to_string(index_) + " " + std::string(what) + ": " + how;
  }
  void next(std::size_t index) {
    close();
    index_ = index;
    ++n_texts_;
  }
  void report(ConformanceReport& report, std::string_view name) {
    close();
    if (n_different_ == 0) {
      report.pass(name, std::to_string(n_texts_) + " texts");
    } else {
      report.fail(name,
                  std::to_string(n_different_) + " of " + std::to_string(n_texts_) +
                      " texts differ; " + first_);
    }
  }

 private:
  void close() {
    if (std::exchange(is_different_, false)) ++n_different_;
  }

  std::size_t n_texts_ = 0;
  std::size_t n_different_ = 0;
  std::size_t index_ = 0;
  bool is_different_ = false;
  std::string first_;
};

Ids encoded(const Tokenizer& tokenizer,
            std::string_view text,
            bool add_special,
            Comparison& comparison) {
  EncodeOptions options;
  options.add_special_tokens = add_special;
  const auto encoding = tokenizer.encode(text, options);
  if (!encoding.ok()) comparison.differ("encode", encoding.status().message());
  return encoding.ok() ? encoding->ids : Ids();
}

// A stream must give the text of decoding at once.
std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  const auto stream = tokenizer.incremental({}, skip_special);
  std::string out;
  for (const TokenId id : ids) out += stream->push(id);
  return out + stream->finish();
}

void compare_expected(const Tokenizer& tokenizer,
                      const json::Value& document,
                      const json::Array& texts,
                      Comparison& comparison) {
  const Ids prefix = ids_of(document.find("special_prefix"));
  const Ids suffix = ids_of(document.find("special_suffix"));
  const bool has_special = document.find("special_prefix") != nullptr;
  for (const json::Value& item : document.find("cases")->as_array()) {
    const auto index = static_cast<std::size_t>(item.find("i")->to_int64().value_or(0));
    comparison.next(index);
    const std::string text = string_of(texts.at(index), "text");
    const Ids ids = ids_of(item.find("ids"));
    comparison.ids("ids", encoded(tokenizer, text, false, comparison), ids);
    if (has_special || item.find("ids_with_special") != nullptr) {
      Ids wanted = ids_of(item.find("ids_with_special"));
      if (item.find("ids_with_special") == nullptr) {
        wanted = prefix;
        wanted.insert(wanted.end(), ids.begin(), ids.end());
        wanted.insert(wanted.end(), suffix.begin(), suffix.end());
      }
      comparison.ids("ids_with_special", encoded(tokenizer, text, true, comparison), wanted);
    }
    const std::string decoded = item.find("decoded") != nullptr ? string_of(item, "decoded") : text;
    const std::string without = item.find("decoded_skip_special") != nullptr
                                    ? string_of(item, "decoded_skip_special")
                                    : decoded;
    comparison.text("decoded", tokenizer.decode(ids, false), decoded);
    comparison.text("decoded_skip_special", tokenizer.decode(ids, true), without);
    comparison.text("streamed", streamed(tokenizer, ids, false), decoded);
  }
}

LoadOptions load_options(const json::Value& document) {
  LoadOptions options;
  options.decodes_normalized_names = true;
  const json::Value* pattern = document.find("pattern");
  if (pattern != nullptr && pattern->is_string()) options.split_patterns = {pattern->as_string()};
  if (pattern != nullptr && pattern->is_array()) {
    for (const json::Value& part : pattern->as_array())
      options.split_patterns.push_back(part.as_string());
  }
  return options;
}

void run_expected(const fs::path& folder, const std::string& file, ConformanceReport& report) {
  const std::string name = "expected/" + fs::path(file).stem().string();
  if (!report.wants(name)) return;
  const auto document = json::parse_file((folder / "expected" / file).string(), kFileBytesMax);
  if (!document.ok()) return report.fail(name, document.status().message());
  if (document->find("cases") == nullptr) return;  // a file of inputs
  const auto texts = json::parse_file(
      (folder / "expected" / string_of(*document, "texts")).string(), kFileBytesMax);
  if (!texts.ok()) return report.fail(name, texts.status().message());
  const auto loaded =
      Tokenizer::load(folder / string_of(*document, "path"), load_options(*document));
  if (!loaded.ok()) return report.fail(name, loaded.status().message());
  Comparison comparison;
  compare_expected(**loaded, *document, texts->as_array(), comparison);
  comparison.report(report, name);
}

}  // namespace

ConformanceCounts run_tokenizers_conformance(const ConformanceOptions& options) {
  ConformanceReport report("tokenizers", options);
  const fs::path folder = fs::path(options.data_dir) / "tokenizers";
  for (const std::string& file : conformance_cases(options, "tokenizers/expected")) {
    if (file.ends_with(".json")) run_expected(folder, file, report);
  }
  return report.counts();
}

}  // namespace coxswain::apps
