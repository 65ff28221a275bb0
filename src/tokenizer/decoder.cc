#include "tokenizer/decoder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "json/json.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

// Decoding has no way to fail, so a file whose decoders could blow a token up is refused.
constexpr std::size_t kGrowthMax = 4096;

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); !from.empty() && found != std::string_view::npos;
       found = text.find(from, at)) {
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
  }
  return out.append(text.substr(at));
}

// What WordPiece calls cleaning up: English punctuation without the blank before it.
std::string clean_up(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules{
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  std::string out(text);
  for (const auto& [from, to] : kRules) {
    if (out.find(from) != std::string::npos) out = replace_all(out, from, to);
  }
  return out;
}

// The end of the chain: text.
class TextEnd final : public DecoderStage {
 public:
  explicit TextEnd(std::string& out) : DecoderStage(nullptr), out_(out) {}
  void push(std::string_view token) override { out_.append(token); }
  void finish() override {}

 private:
  std::string& out_;
};

// Makes stages of one type from an options value. A Stage may have kTakesPieces and later_token(), and later_bytes()
// where that is not the same.
template <typename Stage, typename Options>
class Step final : public DecoderStep {
 public:
  Step(Options options, bool fuses, bool is_byte_level = false)
      : options_(std::move(options)), fuses_(fuses), is_byte_level_(is_byte_level) {}
  bool takes_pieces() const override {
    if constexpr (requires { Stage::kTakesPieces; }) return Stage::kTakesPieces;
    return false;
  }
  std::size_t growth() const override {
    if constexpr (requires { Stage::growth(options_); }) return Stage::growth(options_);
    return 1;
  }
  std::optional<std::string> later_token(std::string_view token) const override {
    if constexpr (requires { Stage::later_token(token, options_); })
      return Stage::later_token(token, options_);
    return std::nullopt;
  }
  std::string later_bytes(std::string_view token, bool is_fused) const override {
    if constexpr (requires { Stage::later_bytes(token, options_, is_fused); })
      return Stage::later_bytes(token, options_, is_fused);
    else if constexpr (requires { Stage::later_token(token, options_); })
      return Stage::later_token(token, options_);
    else
      return std::string(token);
  }
  std::unique_ptr<DecoderStage> make_stage(DecoderStage* next, bool is_fused) const override {
    return std::make_unique<Stage>(next, options_, is_fused);
  }
  bool fuses() const override { return fuses_; }
  bool is_byte_level() const override { return is_byte_level_; }

 private:
  Options options_;
  bool fuses_;
  bool is_byte_level_;
};

struct NoOptions {};

// Tokens with a blank between them: no decoder at all.
class JoinStage final : public DecoderStage {
 public:
  JoinStage(DecoderStage* next, NoOptions, bool) : DecoderStage(next) {}
  void push(std::string_view token) override {
    if (!is_first_) next().push(" ");
    is_first_ = false;
    next().push(token);
  }
  static std::string later_bytes(std::string_view token, NoOptions, bool) {
    return std::string(" ").append(token);
  }

 private:
  bool is_first_ = true;
};

// Collects the pieces of a fused string for a stage that wants it whole.
class WholeStage final : public DecoderStage {
 public:
  explicit WholeStage(DecoderStage* next) : DecoderStage(next) {}
  void push(std::string_view token) override {
    has_token_ = true;
    held_.append(token);
  }
  void finish() override {
    if (has_token_) next().push(held_);
    next().finish();
  }

 private:
  std::string held_;
  bool has_token_ = false;
};

class FuseStage final : public DecoderStage {
 public:
  static constexpr bool kTakesPieces = true;
  FuseStage(DecoderStage* next, NoOptions, bool) : DecoderStage(next) {}
  void push(std::string_view token) override { next().push(token); }
};

class ByteLevelStage final : public DecoderStage {
 public:
  ByteLevelStage(DecoderStage* next, NoOptions, bool)
      : DecoderStage(next), assembler_(Utf8Assembler::Broken::kPerSubpart) {}
  void push(std::string_view token) override {
    bytes_.clear();
    text_.clear();
    if (!append_bytes_of_characters(bytes_, token)) bytes_ = token;
    assembler_.push(bytes_, text_);
    if (!text_.empty()) next().push(text_);
  }
  static std::string later_bytes(std::string_view token, NoOptions, bool) {
    std::string bytes;
    return append_bytes_of_characters(bytes, token) ? bytes : std::string(token);
  }
  void finish() override {
    text_.clear();
    assembler_.finish(text_);
    if (!text_.empty()) next().push(text_);
    next().finish();
  }

 private:
  Utf8Assembler assembler_;
  std::string bytes_;
  std::string text_;
};

// <0x..> tokens become their bytes.
class ByteFallbackStage final : public DecoderStage {
 public:
  ByteFallbackStage(DecoderStage* next, NoOptions, bool)
      : DecoderStage(next), assembler_(Utf8Assembler::Broken::kPerByte) {}
  void push(std::string_view token) override {
    const std::optional<char> byte = byte_of_token_name(token);
    text_.clear();
    if (byte) {
      assembler_.push(std::string_view(&*byte, 1), text_);
    } else if (!assembler_.empty()) {
      assembler_.finish(text_);
    }
    if (!text_.empty()) next().push(text_);
    if (!byte) next().push(token);
  }
  static std::string later_bytes(std::string_view token, NoOptions, bool) {
    const std::optional<char> byte = byte_of_token_name(token);
    return byte ? std::string(1, *byte) : std::string(token);
  }
  void finish() override {
    text_.clear();
    assembler_.finish(text_);
    if (!text_.empty()) next().push(text_);
    next().finish();
  }

 private:
  Utf8Assembler assembler_;
  std::string text_;
};

struct WordPieceOptions {
  std::string prefix;
  bool cleanup = true;
};

class WordPieceStage final : public DecoderStage {
 public:
  WordPieceStage(DecoderStage* next, const WordPieceOptions& options, bool)
      : DecoderStage(next), options_(options) {}
  void push(std::string_view token) override {
    if (!is_first_) return next().push(later_token(token, options_));
    is_first_ = false;
    next().push(options_.cleanup ? clean_up(token) : std::string(token));
  }
  static std::string later_token(std::string_view token, const WordPieceOptions& options) {
    std::string text;
    if (token.starts_with(options.prefix)) {
      text = token.substr(options.prefix.size());
    } else {
      text.append(" ").append(token);
    }
    return options.cleanup ? clean_up(text) : text;
  }

 private:
  const WordPieceOptions& options_;
  bool is_first_ = true;
};

struct MetaspaceOptions {
  std::string replacement;
  bool drops_first = true;  // blanks of the first token were prepended
};

class MetaspaceStage final : public DecoderStage {
 public:
  MetaspaceStage(DecoderStage* next, const MetaspaceOptions& options, bool)
      : DecoderStage(next), options_(options) {}
  void push(std::string_view token) override {
    const bool drops = is_first_ && options_.drops_first;
    is_first_ = false;
    next().push(drops ? replace_all(token, options_.replacement, "")
                      : later_token(token, options_));
  }
  static std::string later_token(std::string_view token, const MetaspaceOptions& options) {
    return replace_all(token, options.replacement, " ");
  }

 private:
  const MetaspaceOptions& options_;
  bool is_first_ = true;
};

struct StripOptions {
  std::string content;  // one character
  std::size_t start = 0;
  std::size_t stop = 0;
};

class StripStage final : public DecoderStage {
 public:
  static constexpr bool kTakesPieces = true;
  StripStage(DecoderStage* next, const StripOptions& options, bool is_fused)
      : DecoderStage(next), options_(options), is_fused_(is_fused), left_(options.start) {}

  void push(std::string_view token) override {
    if (!is_fused_) left_ = options_.start;
    while (left_ > 0 && !token.empty()) {
      if (!token.starts_with(options_.content)) {
        left_ = 0;
        break;
      }
      token.remove_prefix(options_.content.size());
      --left_;
    }
    if (is_fused_) return push_fused(token);
    next().push(without_end(token, options_));
  }
  // Of one string only its two ends are stripped.
  static std::string later_bytes(std::string_view token,
                                 const StripOptions& options,
                                 bool is_fused) {
    if (is_fused) return std::string(token);
    for (std::size_t n = 0; n < options.start && token.starts_with(options.content); ++n)
      token.remove_prefix(options.content.size());
    return std::string(without_end(token, options));
  }

  void finish() override {
    const std::size_t dropped = std::min(options_.stop, n_held_);
    emit_held(n_held_ - dropped);
    next().finish();
  }

 private:
  static std::string_view without_end(std::string_view token, const StripOptions& options) {
    for (std::size_t n = 0; n < options.stop && token.ends_with(options.content); ++n)
      token.remove_suffix(options.content.size());
    return token;
  }
  // The characters at the end that may be stripped wait until something else follows.
  void push_fused(std::string_view piece) {
    std::string_view rest = piece;
    std::size_t n_trailing = 0;
    while (options_.stop > 0 && !rest.empty() && rest.ends_with(options_.content)) {
      rest.remove_suffix(options_.content.size());
      ++n_trailing;
    }
    if (!rest.empty()) {
      emit_held(n_held_);
      next().push(rest);
    }
    n_held_ += n_trailing;
  }
  void emit_held(std::size_t n) {
    for (; n > 0; --n) next().push(options_.content);
    n_held_ = 0;
  }

  const StripOptions& options_;
  bool is_fused_;
  std::size_t left_;
  std::size_t n_held_ = 0;
};

struct ReplaceOptions {
  std::string from;
  std::string to;
  std::optional<Regex> regex;
};

class ReplaceStage final : public DecoderStage {
 public:
  static constexpr bool kTakesPieces = true;
  // A match of an expression may be empty: before every byte then stands the new text.
  static std::size_t growth(const ReplaceOptions& options) {
    return options.regex ? options.to.size() + 1
                         : std::max<std::size_t>(1, options.to.size() / options.from.size());
  }
  ReplaceStage(DecoderStage* next, const ReplaceOptions& options, bool is_fused)
      : DecoderStage(next), options_(options), is_fused_(is_fused) {}

  void push(std::string_view token) override {
    if (!is_fused_) return next().push(replaced(token, options_));
    held_.append(token);
    if (options_.regex) return;  // a match may still grow: wait for the end
    const std::size_t settled = settled_bytes();
    if (settled == 0) return;
    next().push(
        replace_all(std::string_view(held_).substr(0, settled), options_.from, options_.to));
    held_.erase(0, settled);
  }
  void finish() override {
    if (!held_.empty()) next().push(replaced(held_, options_));
    held_.clear();
    next().finish();
  }
  static std::string later_bytes(std::string_view token, const ReplaceOptions& options, bool) {
    return replaced(token, options);
  }

 private:
  // Up to where no later text can make or change a match.
  std::size_t settled_bytes() const {
    const std::string_view text = held_;
    std::size_t at = 0;
    for (std::size_t found = text.find(options_.from); found != std::string_view::npos;
         found = text.find(options_.from, at))
      at = found + options_.from.size();
    for (std::size_t begin =
             std::max(at, text.size() - std::min(text.size(), options_.from.size() - 1));
         begin < text.size();
         ++begin) {
      if (options_.from.starts_with(text.substr(begin))) return begin;
    }
    return text.size();
  }

  static std::string replaced(std::string_view text, const ReplaceOptions& options) {
    if (!options.regex) return replace_all(text, options.from, options.to);
    const auto found = options.regex->find_all(text);
    if (!found.ok()) return std::string(text);
    std::string out;
    std::size_t at = 0;
    for (const TextSpan& span : found.value()) {
      out.append(text.substr(at, span.begin - at)).append(options.to);
      at = span.end;
    }
    return out.append(text.substr(at));
  }

  const ReplaceOptions& options_;
  bool is_fused_;
  std::string held_;
};

template <typename Stage, typename Options = NoOptions>
std::unique_ptr<DecoderStep> step(Options options = {},
                                  bool fuses = false,
                                  bool is_byte_level = false) {
  return std::make_unique<Step<Stage, Options>>(std::move(options), fuses, is_byte_level);
}

Result<std::unique_ptr<DecoderStep>> parse_metaspace(const json::Value& section,
                                                     const std::string& where) {
  MetaspaceOptions options;
  COXSWAIN_ASSIGN_OR_RETURN(options.replacement, character_field(section, "replacement", where));
  COXSWAIN_ASSIGN_OR_RETURN(const bool prefix,
                            bool_field(section, "add_prefix_space", true, where));
  COXSWAIN_ASSIGN_OR_RETURN(
      const std::string scheme,
      string_field_or(section, "prepend_scheme", prefix ? "always" : "never", where));
  options.drops_first = scheme != "never";
  return step<MetaspaceStage>(std::move(options));
}

Result<std::unique_ptr<DecoderStep>> parse_strip(const json::Value& section,
                                                 const std::string& where) {
  StripOptions options;
  COXSWAIN_ASSIGN_OR_RETURN(options.content, character_field(section, "content", where));
  COXSWAIN_ASSIGN_OR_RETURN(const std::int64_t start, integer_field(section, "start", 0, where));
  COXSWAIN_ASSIGN_OR_RETURN(const std::int64_t stop, integer_field(section, "stop", 0, where));
  if (start < 0 || stop < 0) return field_error(where, "start", "not negative, nor \"stop\"");
  options.start = static_cast<std::size_t>(start);
  options.stop = static_cast<std::size_t>(stop);
  return step<StripStage>(std::move(options));
}

Result<std::unique_ptr<DecoderStep>> parse_replace(const json::Value& section,
                                                   const std::string& where) {
  ReplaceOptions options;
  COXSWAIN_ASSIGN_OR_RETURN(Pattern pattern, pattern_field(section, where));
  COXSWAIN_ASSIGN_OR_RETURN(options.to, string_field(section, "content", where));
  options.from = std::move(pattern.text);
  if (pattern.is_regex || options.from.empty()) {
    auto regex = Regex::compile(options.from);
    if (!regex.ok()) return regex.status().with_context(where);
    options.regex = std::move(regex).value();
  }
  return step<ReplaceStage>(std::move(options));
}

Result<std::unique_ptr<DecoderStep>> parse_step(const std::string& type,
                                                const json::Value& section,
                                                const std::string& where) {
  if (type == "ByteLevel") return step<ByteLevelStage>(NoOptions(), true, true);
  if (type == "ByteFallback") return step<ByteFallbackStage>();
  if (type == "Fuse") return step<FuseStage>(NoOptions(), true);
  if (type == "Metaspace") return parse_metaspace(section, where);
  if (type == "Strip") return parse_strip(section, where);
  if (type == "Replace") return parse_replace(section, where);
  if (type == "WordPiece") {
    WordPieceOptions options;
    COXSWAIN_ASSIGN_OR_RETURN(options.prefix, string_field_or(section, "prefix", "##", where));
    COXSWAIN_ASSIGN_OR_RETURN(options.cleanup, bool_field(section, "cleanup", true, where));
    return step<WordPieceStage>(std::move(options));
  }
  return invalid_argument(where + ": the decoder \"" + type + "\" is not supported");
}

Status read_steps(const json::Value& section, const std::string& where, DecoderPlan& out) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::string type, string_field(section, "type", where));
  if (type != "Sequence") {
    COXSWAIN_ASSIGN_OR_RETURN(auto made, parse_step(type, section, where));
    out.push_back(std::move(made));
    return {};
  }
  const json::Value* list = section.find("decoders");
  if (list == nullptr || !list->is_array()) return field_error(where, "decoders", "an array");
  for (std::size_t i = 0; i < list->as_array().size(); ++i)
    COXSWAIN_RETURN_IF_ERROR(
        read_steps(list->as_array()[i], where + ".decoders[" + std::to_string(i) + "]", out));
  return {};
}

}  // namespace

DecoderChain::DecoderChain(const DecoderPlan& plan) {
  stages_.push_back(std::make_unique<TextEnd>(text_));
  std::vector<bool> is_fused(plan.size(), false);
  for (std::size_t i = 1; i < plan.size(); ++i)
    is_fused[i] = is_fused[i - 1] || plan[i - 1]->fuses();
  for (std::size_t i = plan.size(); i-- > 0;) {
    stages_.push_back(plan[i]->make_stage(stages_.back().get(), is_fused[i]));
    if (is_fused[i] && !plan[i]->takes_pieces())
      stages_.push_back(std::make_unique<WholeStage>(stages_.back().get()));
  }
  first_ = stages_.back().get();
}

std::string later_bytes(const DecoderPlan& plan, std::string_view token) {
  std::string out(token);
  bool is_fused = false;
  for (const auto& step : plan) {
    out = step->later_bytes(out, is_fused);
    is_fused = is_fused || step->fuses();
  }
  return out;
}

void Utf8Assembler::push(std::string_view bytes, std::string& out) {
  if (held_.empty()) return take_valid(bytes, out);
  const std::string all = held_ + std::string(bytes);
  held_.clear();
  take_valid(all, out);
}

void Utf8Assembler::take_valid(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    const BrokenUtf8 broken = broken_utf8_at(bytes);
    if (broken.is_incomplete) {
      held_ = bytes;
      return;
    }
    put_broken(broken.n_bytes, out);
    bytes.remove_prefix(broken.n_bytes);
  }
}

void Utf8Assembler::finish(std::string& out) {
  if (!held_.empty()) put_broken(held_.size(), out);
  held_.clear();
}

void Utf8Assembler::put_broken(std::size_t n_bytes, std::string& out) const {
  const std::size_t n = broken_ == Broken::kPerByte ? n_bytes : 1;
  for (std::size_t i = 0; i < n; ++i) out.append(kReplacementUtf8);
}

Result<DecoderPlan> parse_decoder(const json::Value& section, const std::string& where) {
  DecoderPlan out;
  if (section.is_null()) {
    out.push_back(step<JoinStage>());
    return out;
  }
  COXSWAIN_RETURN_IF_ERROR(read_steps(section, where, out));
  std::size_t growth = 1;
  for (const auto& decoder_step : out) {
    growth *= std::min(decoder_step->growth(), kGrowthMax + 1);
    if (growth > kGrowthMax)
      return invalid_argument(where + ": its Replace steps can make a token more than " +
                              std::to_string(kGrowthMax) + " times as long");
  }
  return out;
}

}  // namespace coxswain::tokenizer
