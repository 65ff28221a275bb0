#include "conformance/tokenizers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/golden_values.h"
#include "json/json.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::conformance {
namespace {

namespace fs = std::filesystem;

using tokenizer::EncodeOptions;
using tokenizer::LoadOptions;
using tokenizer::Tokenizer;
using Ids = std::vector<TokenId>;

constexpr std::size_t kFileBytesMax = std::size_t{256} << 20;

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
  const Ids prefix = golden_ids(document, "special_prefix");
  const Ids suffix = golden_ids(document, "special_suffix");
  const bool has_special = document.find("special_prefix") != nullptr;
  for (const json::Value& item : document.find("cases")->as_array()) {
    const auto index = static_cast<std::size_t>(item.find("i")->to_int64().value_or(0));
    comparison.next(index);
    const std::string text = golden_string(texts.at(index), "text");
    const Ids ids = golden_ids(item, "ids");
    comparison.ids("ids", encoded(tokenizer, text, false, comparison), ids);
    if (has_special || item.find("ids_with_special") != nullptr) {
      Ids wanted = golden_ids(item, "ids_with_special");
      if (item.find("ids_with_special") == nullptr) {
        wanted = prefix;
        wanted.insert(wanted.end(), ids.begin(), ids.end());
        wanted.insert(wanted.end(), suffix.begin(), suffix.end());
      }
      comparison.ids("ids_with_special", encoded(tokenizer, text, true, comparison), wanted);
    }
    const std::string decoded =
        item.find("decoded") != nullptr ? golden_string(item, "decoded") : text;
    const std::string without = item.find("decoded_skip_special") != nullptr
                                    ? golden_string(item, "decoded_skip_special")
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
      (folder / "expected" / golden_string(*document, "texts")).string(), kFileBytesMax);
  if (!texts.ok()) return report.fail(name, texts.status().message());
  const auto loaded =
      Tokenizer::load(folder / golden_string(*document, "path"), load_options(*document));
  if (!loaded.ok()) return report.fail(name, loaded.status().message());
  Comparison comparison;
  compare_expected(**loaded, *document, texts->as_array(), comparison);
  comparison.report(report, name);
}

// A tokenizer that several vector files speak of; nullptr where it is not among the data.
std::shared_ptr<const Tokenizer> load_named(const fs::path& folder, std::string_view path) {
  if (path.empty() || !fs::exists(folder / path)) return nullptr;
  auto loaded = Tokenizer::load(folder / path);
  return loaded.ok() ? *loaded : nullptr;
}

// Names that published vectors use, and the file here that has the same vocabulary.
struct KnownName {
  std::string_view name;
  std::string_view path;
};
constexpr std::array kKnownNames{
    KnownName{"Xenova/gpt2", "gpt2/tokenizer.json"},
    KnownName{"tiiuae/falcon-7b", "falcon/tokenizer.json"},
    KnownName{"Xenova/gpt-4", "tiktoken/cl100k_base.tiktoken"},
    KnownName{"Xenova/gpt-4o", "tiktoken/o200k_base.tiktoken"},
    KnownName{"Xenova/llama-tokenizer", "llama-2/tokenizer.json"},
    KnownName{"Xenova/llama3-tokenizer-new", "llama-3/tokenizer.json"},
    KnownName{"Xenova/Qwen1.5-0.5B-Chat", "qwen2.5/tokenizer.json"},
    KnownName{"Xenova/t5-small", "t5-small/tokenizer.json"},
    KnownName{"Xenova/bert-base-uncased", "bert-base-uncased/tokenizer.json"},
    KnownName{"Xenova/deepseek-coder-1.3b-instruct", "gguf-vocab/ggml-vocab-deepseek-coder.gguf"},
    KnownName{"bert-base-uncased", "bert-base-uncased/tokenizer.json"},
    KnownName{"google-bert/bert-base-uncased", "bert-base-uncased/tokenizer.json"},
    KnownName{"distilgpt2", "gpt2/tokenizer.json"},
    KnownName{"coreml-projects/Llama-2-7b-chat-coreml", "llama-2/tokenizer.json"},
    KnownName{"t5-base", "t5-small/tokenizer.json"},
    KnownName{"pcuenq/Llama-3.2-1B-Instruct-tokenizer", "llama-3/tokenizer.json"},
    KnownName{"swift_gpt2_encoded_tokens", "gpt2/tokenizer.json"},
    KnownName{"swift_falcon_encoded", "falcon/tokenizer.json"},
    KnownName{"swift_llama_encoded", "llama-2/tokenizer.json"},
    KnownName{"swift_llama_3.2_encoded", "llama-3/tokenizer.json"},
    KnownName{"swift_t5_base_encoded", "t5-small/tokenizer.json"},
    KnownName{"cl100k_base", "tiktoken/cl100k_base.tiktoken"},
    KnownName{"o200k_base", "tiktoken/o200k_base.tiktoken"},
};

std::string_view path_of(std::string_view name) {
  for (const KnownName& known : kKnownNames) {
    if (known.name == name) return known.path;
  }
  return {};
}

// One named list of {text, ids}: the members' names differ from project to project.
void run_published(const fs::path& folder,
                   std::string_view file,
                   std::string_view tokenizer_name,
                   const json::Array& cases,
                   ConformanceReport& report) {
  const std::string name = "vectors/" + std::string(file) + "/" + std::string(tokenizer_name);
  if (!report.wants(name)) return;
  const auto tokenizer = load_named(folder, path_of(tokenizer_name));
  if (tokenizer == nullptr) return;  // its vocabulary is not part of the data
  Comparison comparison;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const bool is_pair =
        cases[i].find("text_pair") != nullptr && cases[i].find("text_pair")->is_string();
    if (is_pair) continue;
    comparison.next(i);
    const json::Value* inputs = cases[i].find("encoded");
    const std::string text =
        inputs != nullptr ? golden_string(cases[i], "input") : golden_string(cases[i], "text");
    const Ids ids =
        inputs != nullptr ? golden_ids(*inputs, "input_ids") : golden_ids(cases[i], "ids");
    comparison.ids("ids", encoded(*tokenizer, text, true, comparison), ids);
  }
  comparison.report(report, name);
}

void run_vector_file(const fs::path& folder, const std::string& file, ConformanceReport& report) {
  const auto document = json::parse_file((folder / "vectors" / file).string(), kFileBytesMax);
  const std::string stem = fs::path(file).stem().string();
  if (!document.ok()) return report.fail("vectors/" + stem, document.status().message());
  if (!document->is_object()) return;
  if (const json::Value* ids = document->find("token_ids")) {
    json::Object item;
    item.set("text", json::Value(golden_string(*document, "text")));
    item.set("ids", *ids);
    return run_published(folder, "swift", stem, json::Array{json::Value(std::move(item))}, report);
  }
  for (const auto& [name, value] : document->as_object()) {
    const json::Value* cases = value.is_array() ? &value : value.find("cases");
    if (cases != nullptr && cases->is_array())
      run_published(folder, stem, name, cases->as_array(), report);
  }
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Ids ids_of_text(std::string_view text) {
  Ids out;
  for (std::size_t at = 0; at < text.size();) {
    TokenId id = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + text.size(), id);
    if (read.ec == std::errc()) out.push_back(id);
    at = read.ec == std::errc() ? static_cast<std::size_t>(read.ptr - text.data()) : at + 1;
  }
  return out;
}

// Blocks of "EncodingName: ..", "Sample: ..", "Encoded: [..]".
void run_test_plans(const fs::path& folder, ConformanceReport& report) {
  const std::string plans = read_text(folder / "vectors" / "tiktoken_TestPlans.txt");
  for (const std::string_view name : {"cl100k_base", "o200k_base"}) {
    const std::string case_name = "vectors/tiktoken_TestPlans/" + std::string(name);
    const auto tokenizer = load_named(folder, path_of(name));
    if (plans.empty() || tokenizer == nullptr || !report.wants(case_name)) continue;
    Comparison comparison;
    std::size_t index = 0;
    const std::string head = "EncodingName: ";
    for (std::size_t at = plans.find(head); at != std::string::npos; ++index) {
      const std::size_t next = plans.find("\n" + head, at);
      const std::string_view block =
          std::string_view(plans).substr(at, next == std::string::npos ? next : next - at);
      at = next == std::string::npos ? next : next + 1;
      const std::size_t sample = block.find("\nSample: ");
      const std::size_t result = block.find("\nEncoded: ");
      if (!block.substr(head.size()).starts_with(name) || sample == std::string_view::npos ||
          result == std::string_view::npos)
        continue;
      comparison.next(index);
      const std::string_view text = block.substr(sample + 9, result - sample - 9);
      comparison.ids(
          "ids", encoded(*tokenizer, text, false, comparison), ids_of_text(block.substr(result)));
    }
    comparison.report(report, case_name);
  }
}

// The text of a whole conversation as SentencePiece's pieces: control pieces as they are, blanks as
// U+2581, line breaks as <0x0A>.
Ids encode_conversation(const Tokenizer& tokenizer, std::string_view text, Comparison& comparison) {
  constexpr std::string_view kBlank = "\xE2\x96\x81";
  Ids out;
  std::string section;
  const auto flush = [&] {
    if (section.starts_with(' ')) section.erase(0, 1);  // the blank that encoding puts there again
    if (section.empty()) return;
    const Ids ids = encoded(tokenizer, section, false, comparison);
    out.insert(out.end(), ids.begin(), ids.end());
    section.clear();
  };
  while (!text.empty()) {
    TokenId control = -1;
    for (TokenId id = 0; id < 1000 && control < 0; ++id) {
      if (tokenizer.is_special(id) && text.starts_with(tokenizer.token(id))) control = id;
    }
    if (control >= 0) {
      flush();
      out.push_back(control);
      text.remove_prefix(tokenizer.token(control).size());
    } else if (text.starts_with("<0x") && text.size() >= 6 && text[5] == '>') {
      unsigned byte = 0;
      std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
      section.push_back(static_cast<char>(byte));
      text.remove_prefix(6);
    } else if (text.starts_with(kBlank)) {
      section.push_back(' ');
      text.remove_prefix(kBlank.size());
    } else {
      section.push_back(text.front());
      text.remove_prefix(1);
    }
  }
  flush();
  return out;
}

void run_conversations(const fs::path& folder, ConformanceReport& report) {
  struct Version {
    std::string_view name;
    std::string_view path;
  };
  constexpr std::array kVersions{
      Version{"v1", "mistral-7b-v0.2/tokenizer.model"},
      Version{"v2", "mistral-common/mistral_instruct_tokenizer_240216.model.v2"},
      Version{"v3", "mistral-common/mistral_instruct_tokenizer_240323.model.v3"}};
  for (const Version& version : kVersions) {
    const std::string name = "vectors/mistral_common/" + std::string(version.name);
    const auto tokenizer = load_named(folder, version.path);
    if (tokenizer == nullptr || !report.wants(name)) continue;
    Comparison comparison;
    std::size_t index = 0;
    std::vector<fs::path> samples;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder / "vectors" / "mistral_common", error))
      samples.push_back(entry.path());
    std::sort(samples.begin(), samples.end());
    for (const fs::path& sample : samples) {
      const std::string suffix = std::string(version.name);
      const std::string text = read_text(sample / ("text_" + suffix + ".txt"));
      const auto tokens =
          json::parse_file((sample / ("tokens_" + suffix + ".json")).string(), kFileBytesMax);
      if (text.empty() || !tokens.ok()) continue;
      comparison.next(index++);
      comparison.ids(
          "ids", encode_conversation(*tokenizer, text, comparison), golden_ids(*tokens, "tokens"));
    }
    if (index > 0) comparison.report(report, name);
  }
}

void run_gguf(const fs::path& folder, const std::string& file, ConformanceReport& report) {
  const std::string name = "gguf-vocab/" + fs::path(file).stem().string();
  const fs::path path = folder / "gguf-vocab" / file;
  if (!report.wants(name)) return;
  const auto loaded = Tokenizer::load(path);
  if (!loaded.ok()) return report.fail(name, loaded.status().message());
  const std::string inputs = read_text(path.string() + ".inp");
  const std::string outputs = read_text(path.string() + ".out");
  const std::string_view separator = "\n__ggml_vocab_test__\n";
  Comparison comparison;
  std::size_t line = 0;
  for (std::size_t at = 0, index = 0; at <= inputs.size() && line < outputs.size(); ++index) {
    const std::size_t end = std::min(inputs.find(separator, at), inputs.size());
    const std::size_t line_end = std::min(outputs.find('\n', line), outputs.size());
    comparison.next(index);
    Ids wanted = ids_of_text(std::string_view(outputs).substr(line, line_end - line));
    comparison.ids(
        "ids",
        encoded(**loaded, std::string_view(inputs).substr(at, end - at), false, comparison),
        wanted);
    at = end + separator.size();
    line = line_end + 1;
  }
  comparison.report(report, name);
}

}  // namespace

ConformanceCounts run_tokenizers_conformance(const ConformanceOptions& options) {
  ConformanceReport report("tokenizers", options);
  const fs::path folder = fs::path(options.data_dir) / "tokenizers";
  for (const std::string& file : conformance_cases(options, "tokenizers/expected")) {
    if (file.ends_with(".json")) run_expected(folder, file, report);
  }
  for (const std::string& file : conformance_cases(options, "tokenizers/vectors")) {
    if (file.ends_with(".json")) run_vector_file(folder, file, report);
  }
  run_test_plans(folder, report);
  run_conversations(folder, report);
  for (const std::string& file : conformance_cases(options, "tokenizers/gguf-vocab")) {
    if (file.ends_with(".gguf")) run_gguf(folder, file, report);
  }
  return report.counts();
}

}  // namespace coxswain::conformance
