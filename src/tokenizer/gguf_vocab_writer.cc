#include "tokenizer/gguf_vocab_writer.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/bulk_json.h"
#include "tokenizer/formats.h"
#include "tokenizer/gguf_splits.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/split_scanner.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::string_view kByteBegin = "<0x";

Status refused(const std::string& what) {
  return {Code::kUnimplemented,
          ErrorKind::kValidation,
          "tokenizer.json cannot be written as GGUF: " + what};
}

std::string_view text_of(const json::Value& object, std::string_view name) {
  const json::Value* const value = object.find(name);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string())
                                                : std::string_view();
}

bool flag_of(const json::Value& object, std::string_view name, bool fallback) {
  const json::Value* const value = object.find(name);
  return value != nullptr && value->is_bool() ? value->as_bool() : fallback;
}

// The steps of a section, those of sequences one after the other.
void flatten(const json::Value* section, std::vector<const json::Value*>& out) {
  if (section == nullptr || section->is_null()) return;
  for (const char* const list : {"normalizers", "pretokenizers"}) {
    const json::Value* const steps = section->find(list);
    if (steps == nullptr || !steps->is_array()) continue;
    for (const json::Value& step : steps->as_array()) flatten(&step, out);
    return;
  }
  out.push_back(section);
}

class Writer {
 public:
  Writer(TokenizerParts parts, std::string text, std::uint64_t n_rows, gguf::KeyList& keys)
      : parts_(std::move(parts)), text_(std::move(text)), n_rows_(n_rows), keys_(keys) {}

  Status write(std::span<const TokenId> end_tokens, std::optional<TokenId> padding);

 private:
  Status open();
  Status list_tokens();
  Status write_pieces();
  Status write_byte_level();
  std::vector<float> scores() const;
  Result<GgufSplit> split() const;
  Status write_special(std::span<const TokenId> end_tokens, std::optional<TokenId> padding);
  void add_id(const char* name, std::optional<TokenId> id) {
    if (id)
      keys_.add_u32(std::string("tokenizer.ggml.") + name + "_token_id",
                    static_cast<std::uint32_t>(*id));
  }
  std::optional<TokenId> unknown() const {
    const std::string_view name = text_of(*model_, "unk_token");
    return name.empty() ? std::nullopt : parts_.names->find(name);
  }

  TokenizerParts parts_;
  std::string text_;
  std::uint64_t n_rows_;
  gguf::KeyList& keys_;

  json::Value document_;
  const json::Value* model_ = nullptr;
  std::vector<const json::Value*> normalizers_;
  std::vector<const json::Value*> steps_;  // of the pre-tokenizer
  std::vector<std::pair<std::string, std::string>> merges_;
  std::vector<std::string> tokens_;  // [n_rows_]
  std::vector<std::int32_t> kinds_;
};

Status Writer::open() {
  const BulkSections bulk = cut_bulk_sections(text_);
  COXSWAIN_ASSIGN_OR_RETURN(document_, json::parse(bulk.rest));
  model_ = document_.find("model");
  if (model_ == nullptr || bulk.merges.empty())
    return refused("its model is " +
                   (model_ == nullptr ? "missing" : std::string(text_of(*model_, "type"))) +
                   ", only BPE has lists in such files");
  flatten(document_.find("normalizer"), normalizers_);
  flatten(document_.find("pre_tokenizer"), steps_);
  return read_merge_array(bulk.merges, [&](std::string_view left, std::string_view right) {
    merges_.emplace_back(left, right);
    return Status();
  });
}

Status Writer::list_tokens() {
  std::uint64_t n_tokens = parts_.names->id_end();
  for (const AddedToken& token : parts_.added.tokens())
    n_tokens = std::max(n_tokens, static_cast<std::uint64_t>(token.id) + 1);
  if (n_tokens > n_rows_)
    return refused("it has " + std::to_string(n_tokens) + " tokens, the embedding " +
                   std::to_string(n_rows_) + " rows");
  const auto unk = unknown();
  const bool has_bytes = flag_of(*model_, "byte_fallback", false);
  for (std::uint64_t i = 0; i < n_rows_; ++i) {
    const auto id = static_cast<TokenId>(i);
    PieceKind kind = PieceKind::kNormal;
    std::string token(parts_.names->string(id));
    if (const AddedToken* const added = parts_.added.find(id); added != nullptr) {
      token = added->content;
      kind = added->special ? PieceKind::kControl : PieceKind::kUserDefined;
    } else if (!parts_.names->has(id)) {
      token = "[PAD" + std::to_string(i) + "]";
      kind = PieceKind::kUnused;
    } else if (has_bytes && token.starts_with(kByteBegin) && token.size() == 6 &&
               token.back() == '>') {
      kind = PieceKind::kByte;
    }
    if (id == unk) kind = PieceKind::kUnknown;
    tokens_.push_back(std::move(token));
    kinds_.push_back(static_cast<std::int32_t>(kind));
  }
  return {};
}

// Such lists have no merges: two neighbours become one if that is a token, the one of the best score first. Tokens that
// no merge makes are single characters, bytes, or found whole: their score does not matter.
std::vector<float> Writer::scores() const {
  std::vector<float> out(tokens_.size(), 0.0F);
  float score = 0.0F;
  for (const auto& [left, right] : merges_) {
    const auto id = parts_.names->find(left + right);
    if (!id || out[static_cast<std::size_t>(*id)] != 0.0F) continue;
    score -= 1.0F;
    out[static_cast<std::size_t>(*id)] = score;
  }
  return out;
}

Status Writer::write_pieces() {
  bool adds_blank = false;
  bool marks_blanks = false;
  for (const json::Value* const step : normalizers_) {
    const std::string_view type = text_of(*step, "type");
    if (type == "Prepend" && text_of(*step, "prepend") == kMetaspaceUtf8) {
      adds_blank = true;
    } else if (const json::Value* const pattern = step->find("pattern");
               type == "Replace" && pattern != nullptr && text_of(*pattern, "String") == " " &&
               text_of(*step, "content") == kMetaspaceUtf8) {
      marks_blanks = true;
    } else {
      return refused("normalizer: " + json::write(*step));
    }
  }
  for (const json::Value* const step : steps_) {
    const std::string_view type = text_of(*step, "type");
    const json::Value* const pattern = step->find("pattern");
    if (type == "Metaspace" && text_of(*step, "replacement") == kMetaspaceUtf8) {
      marks_blanks = true;
      const std::string_view scheme = text_of(*step, "prepend_scheme");
      adds_blank = scheme.empty() ? flag_of(*step, "add_prefix_space", true) : scheme != "never";
    } else if (!(type == "Split" && marks_blanks && pattern != nullptr &&
                 text_of(*pattern, "String") == " ")) {
      return refused("pre_tokenizer: " + json::write(*step));
    }
  }
  if (!marks_blanks) return refused("neither normalizer nor pre_tokenizer marks blanks");
  keys_.add_text("tokenizer.ggml.model", "llama");
  keys_.add_text("tokenizer.ggml.pre", "default");
  keys_.add_texts("tokenizer.ggml.tokens", tokens_);
  keys_.add_f32s("tokenizer.ggml.scores", scores());
  keys_.add_i32s("tokenizer.ggml.token_type", kinds_);
  keys_.add_flag("tokenizer.ggml.add_space_prefix", adds_blank);
  return {};
}

Result<GgufSplit> Writer::split() const {
  GgufSplit out;
  out.ignores_merges = flag_of(*model_, "ignore_merges", false);
  for (const json::Value* const step : steps_) {
    const std::string_view type = text_of(*step, "type");
    const json::Value* const pattern = step->find("pattern");
    if (type == "ByteLevel" && !flag_of(*step, "add_prefix_space", true)) {
      if (flag_of(*step, "use_regex", true))
        out.patterns.emplace_back(scanner_pattern(SplitScanner::kGpt2));
    } else if (type == "Digits" && flag_of(*step, "individual_digits", false)) {
      out.patterns.emplace_back(R"(\p{N})");
    } else if (type == "Split" && pattern != nullptr && !text_of(*pattern, "Regex").empty() &&
               text_of(*step, "behavior") == "Isolated" && !flag_of(*step, "invert", false)) {
      const std::string_view regex = text_of(*pattern, "Regex");
      const auto scanner = known_scanner(regex);
      out.patterns.emplace_back(scanner ? scanner_pattern(*scanner) : regex);
    } else {
      return refused("pre_tokenizer: " + json::write(*step));
    }
  }
  return out;
}

Status Writer::write_byte_level() {
  for (const json::Value* const step : normalizers_) {
    if (text_of(*step, "type") != "NFC") return refused("normalizer: " + json::write(*step));
  }
  COXSWAIN_ASSIGN_OR_RETURN(const GgufSplit split, this->split());
  const std::string_view name = gguf_split_name(split);
  if (name.empty())
    return refused("pre_tokenizer: such files have no name for the split " +
                   (split.patterns.empty() ? "of nothing" : split.patterns.front()));
  std::vector<std::string> merges;
  for (const auto& [left, right] : merges_) {
    std::string& merge = merges.emplace_back(left);
    merge.append(" ").append(right);
    if (std::ranges::count(merge, ' ') > 1)
      return refused("model.merges: a token of \"" + merge + "\" holds a blank");
  }
  keys_.add_text("tokenizer.ggml.model", "gpt2");
  keys_.add_text("tokenizer.ggml.pre", name);
  keys_.add_texts("tokenizer.ggml.tokens", tokens_);
  keys_.add_i32s("tokenizer.ggml.token_type", kinds_);
  keys_.add_texts("tokenizer.ggml.merges", merges);
  return {};
}

Status Writer::write_special(std::span<const TokenId> end_tokens, std::optional<TokenId> padding) {
  PostProcessor& around = parts_.post_processor;
  const auto& before = around.prefix();
  const auto& behind = around.suffix();
  if (around.special.size() != 2 || before.size() > 1 || behind.size() > 1)
    return refused("post_processor: it adds more than one token before a text or behind it");
  const std::optional<TokenId> bos = before.empty() ? parts_.bos : before.front();
  std::optional<TokenId> eos = behind.empty() ? parts_.eos : behind.front();
  std::vector<TokenId> ends(end_tokens.begin(), end_tokens.end());
  const auto own = eos ? std::ranges::find(ends, *eos) : ends.end();
  if (own != ends.end()) {
    std::rotate(ends.begin(), own, own + 1);
  } else if (behind.empty() && !ends.empty()) {
    eos = ends.front();  // where the model ends, whatever its tokenizer says
  } else if (eos) {
    ends.insert(ends.begin(), *eos);
  }
  if (ends.size() > 3)
    return refused("the model has " + std::to_string(ends.size()) +
                   " end tokens, such files at most 3");
  add_id("bos", bos);
  add_id("eos", eos);
  if (ends.size() > 1) add_id("eot", ends[1]);
  if (ends.size() > 2) add_id("eom", ends[2]);
  add_id("unknown", unknown());
  add_id("padding", padding);
  keys_.add_flag("tokenizer.ggml.add_bos_token", !before.empty());
  keys_.add_flag("tokenizer.ggml.add_eos_token", !behind.empty());
  keys_.add_text(kGgufWholeTokenizer, text_);
  return {};
}

Status Writer::write(std::span<const TokenId> end_tokens, std::optional<TokenId> padding) {
  COXSWAIN_RETURN_IF_ERROR(open());
  COXSWAIN_RETURN_IF_ERROR(list_tokens());
  if (parts_.model_reads_bytes) {
    COXSWAIN_RETURN_IF_ERROR(write_byte_level());
  } else if (flag_of(*model_, "byte_fallback", false)) {
    COXSWAIN_RETURN_IF_ERROR(write_pieces());
  } else {
    return refused("its BPE has neither a byte-level pre_tokenizer nor byte_fallback");
  }
  return write_special(end_tokens, padding);
}

}  // namespace

Status add_gguf_vocabulary(const std::filesystem::path& folder,
                           std::uint64_t n_rows,
                           std::span<const TokenId> end_tokens,
                           gguf::KeyList& keys) {
  const std::filesystem::path path = folder / "tokenizer.json";
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return Status(Code::kUnimplemented,
                  path.string() + " is needed for a GGUF file, and cannot be opened");
  std::string text(std::istreambuf_iterator<char>(in), {});
  COXSWAIN_ASSIGN_OR_RETURN(TokenizerParts parts, load_parts(folder, {}));
  std::optional<TokenId> padding;
  const auto config = json::parse_file((folder / "tokenizer_config.json").string(), kFileBytesMax);
  if (config.ok()) {
    const auto name = special_token(*config, "pad_token");
    const AddedToken* const token = name ? parts.added.find(*name) : nullptr;
    if (token != nullptr) padding = token->id;
  }
  const Status written =
      Writer(std::move(parts), std::move(text), n_rows, keys).write(end_tokens, padding);
  return written.ok() ? written : written.with_context(folder.string());
}

Result<std::shared_ptr<const Tokenizer>> tokenizer_of_lists(const gguf::Header& header) {
  COXSWAIN_ASSIGN_OR_RETURN(TokenizerParts parts,
                            read_gguf_vocabulary(header, GgufTokens::kListed));
  return finish_parts(std::move(parts), "the GGUF file");
}

}  // namespace coxswain::tokenizer
