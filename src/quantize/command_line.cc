#include "quantize/command_line.h"

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "quantize/gguf_output.h"

namespace coxswain::quantize {
namespace {

constexpr std::uint64_t kGroupMax = 1U << 20;
constexpr std::uint64_t kSamplesMax = 1U << 16;
constexpr std::uint64_t kSampleTokensMax = 1U << 17;
constexpr std::uint64_t kThreadsMax = 4096;

constexpr std::string_view kUsage =
    "usage: text-generation-server quantize MODEL_ID OUTPUT_DIR [options]\n"
    "       coxswain quantize MODEL_ID OUTPUT_DIR [options]\n"
    "\n"
    "Writes a quantised copy of a model's folder and prints its perplexity before and after. A run "
    "that was interrupted\n"
    "goes on behind its last layer when it is started again with the same words. "
    "docs/quantize.md says more.\n"
    "\n"
    "  --method gptq|awq|rtn      gptq (default): rounds what calibration texts show to matter "
    "least; awq: rescales what\n"
    "                             they show to matter most, and rounds; rtn: rounds to nearest\n"
    "  --format gptq|compressed-tensors|gguf\n"
    "                             of the files; default gptq. gguf: one file, rtn\n"
    "  --type int4|int8|fp8       of a weight; default int4. fp8: compressed-tensors, one scale "
    "for "
    "each output, rtn\n"
    "         Q4_K_M|Q4_0|Q8_0|F16|BF16\n"
    "                             of a GGUF file; default Q4_K_M\n"
    "  --groupsize N              inputs that share a scale, -1: all of an output; default 128\n"
    "  --percdamp X               gptq: share of the mean second moment that is added; default "
    "0.01\n"
    "  --act-order                gptq: inputs of large second moment first\n"
    "  --calibration FILE         text in UTF-8; default: a short one that comes along\n"
    "  --calibration-samples N    at most so many; default 128\n"
    "  --calibration-tokens N     of a sample, at most; default 2048, or what the model takes\n"
    "  --evaluation FILE          text that perplexity is measured on; default: one that comes "
    "along\n"
    "  --threads N                default: as many as there are processors\n"
    "  --revision R               of a model in the hub's cache\n"
    "  --logger-level LEVEL, --json-output\n"
    "                             how progress is printed\n"
    "  --trust-remote-code        accepted; no code of a model is ever run\n"
    "  --help, -h                 prints this\n";

enum class Format : std::uint8_t { kGptq, kCompressedTensors, kGguf };

class Reader {
 public:
  explicit Reader(std::span<const std::string_view> words) : words_(words) {}

  Result<Command> read();

 private:
  // Empty: `word` is none of these.
  std::optional<Status> read_option(std::string_view word);
  Status take(std::string_view& out) {
    if (at_ + 1 >= words_.size())
      return invalid_argument("`" + std::string(words_[at_]) + "` needs a value");
    out = words_[++at_];
    return {};
  }
  Status text(std::string& out) {
    std::string_view value;
    COXSWAIN_RETURN_IF_ERROR(take(value));
    out = value;
    return {};
  }
  Status count(std::uint64_t least, std::uint64_t most, std::uint64_t& out) {
    const std::string name(words_[at_]);
    std::string_view value;
    COXSWAIN_RETURN_IF_ERROR(take(value));
    const auto read = std::from_chars(value.data(), value.data() + value.size(), out);
    if (read.ec == std::errc() && read.ptr == value.data() + value.size() && out >= least &&
        out <= most)
      return {};
    return invalid_argument("`" + name + "` must be a whole number from " + std::to_string(least) +
                            " to " + std::to_string(most) + ", not " + std::string(value));
  }
  template <typename T, std::size_t N>
  Status choice(const std::array<std::pair<std::string_view, T>, N>& choices, T& out) {
    const std::string name(words_[at_]);
    std::string_view value;
    COXSWAIN_RETURN_IF_ERROR(take(value));
    std::string known;
    for (const auto& [text, meant] : choices) {
      if (text == value) {
        out = meant;
        return {};
      }
      known += (known.empty() ? "" : ", ") + std::string(text);
    }
    return invalid_argument("`" + name + "` must be one of " + known + ", not " +
                            std::string(value));
  }
  Status group_size();
  Status percdamp();
  // What --format and --type say together.
  Status resolve_type();
  Status check() const;

  std::span<const std::string_view> words_;
  std::size_t at_ = 0;
  std::vector<std::string> names_;  // words that are no options
  Format format_ = Format::kGptq;
  std::string type_;
  bool has_method_ = false;
  Command out_;
};

Status Reader::group_size() {
  if (at_ + 1 < words_.size() && words_[at_ + 1] == "-1") {
    ++at_;
    out_.options.stored.group_size = 0;
    return {};
  }
  return count(1, kGroupMax, out_.options.stored.group_size);
}

Status Reader::percdamp() {
  std::string_view value;
  COXSWAIN_RETURN_IF_ERROR(take(value));
  double& out = out_.options.stored.percdamp;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), out);
  if (read.ec == std::errc() && read.ptr == value.data() + value.size() && out > 0 && out <= 1)
    return {};
  return invalid_argument("`--percdamp` must be above 0 and at most 1, not " + std::string(value));
}

std::optional<Status> Reader::read_option(std::string_view word) {
  using MethodName = std::pair<std::string_view, Method>;
  using FormatName = std::pair<std::string_view, Format>;
  constexpr std::array kFormats{FormatName{"gptq", Format::kGptq},
                                FormatName{"compressed-tensors", Format::kCompressedTensors},
                                FormatName{"gguf", Format::kGguf}};
  constexpr std::array kMethods{MethodName{"gptq", Method::kGptq},
                                MethodName{"awq", Method::kAwq},
                                MethodName{"rtn", Method::kRoundToNearest}};
  QuantizeOptions& options = out_.options;
  if (word == "--method") {
    has_method_ = true;
    return choice(kMethods, options.method);
  }
  if (word == "--format") return choice(kFormats, format_);
  if (word == "--type") return text(type_);
  if (word == "--groupsize") return group_size();
  if (word == "--percdamp") return percdamp();
  if (word == "--calibration") return text(options.calibration_path);
  if (word == "--evaluation") return text(options.evaluation_path);
  if (word == "--calibration-samples") return count(1, kSamplesMax, options.samples_max);
  if (word == "--calibration-tokens") return count(2, kSampleTokensMax, options.sample_tokens_max);
  if (word == "--threads") return count(1, kThreadsMax, options.n_threads);
  if (word == "--revision") return text(out_.revision);
  if (word == "--logger-level") return text(out_.log_level);
  if (word == "--upload-to-model-id")
    return invalid_argument("`--upload-to-model-id` is refused: nothing is sent to a hub");
  if (word == "--act-order") {
    options.stored.act_order = true;
  } else if (word == "--no-act-order") {
    options.stored.act_order = false;
  } else if (word == "--json-output") {
    out_.log_json = true;
  } else if (word != "--no-json-output" && word != "--trust-remote-code" &&
             word != "--no-trust-remote-code") {
    return std::nullopt;
  }
  return Status();
}

Status Reader::resolve_type() {
  QuantizeOptions& options = out_.options;
  if (format_ == Format::kGguf) {
    if (!has_method_) options.method = Method::kRoundToNearest;
    options.gguf_mix = type_.empty() ? "Q4_K_M" : type_;
    if (is_gguf_mix(options.gguf_mix)) return {};
    return invalid_argument(
        "`--type` of `--format gguf` must be one of Q4_K_M, Q4_0, Q8_0, F16, BF16, not " + type_);
  }
  options.stored.form =
      format_ == Format::kGptq ? StoredForm::kGptq : StoredForm::kCompressedTensors;
  constexpr std::array<std::pair<std::string_view, NumberKind>, 3> kKinds{
      {{"int4", NumberKind::kInt4}, {"int8", NumberKind::kInt8}, {"fp8", NumberKind::kFloat8}}};
  if (type_.empty()) return {};
  for (const auto& [name, kind] : kKinds) {
    if (name != type_) continue;
    options.stored.kind = kind;
    return {};
  }
  return invalid_argument("`--type` must be one of int4, int8, fp8, not " + type_ +
                          "; those of GGUF go with `--format gguf`");
}

Status Reader::check() const {
  const QuantizeOptions& options = out_.options;
  const bool is_float = options.stored.kind == NumberKind::kFloat8;
  const bool is_gptq = options.method == Method::kGptq;
  const bool is_rounded = options.method == Method::kRoundToNearest;
  if (is_float && (options.stored.form != StoredForm::kCompressedTensors || !is_rounded))
    return invalid_argument(
        "`--type fp8` goes with `--format compressed-tensors` and `--method rtn`");
  if (!options.gguf_mix.empty() && !is_rounded)
    return invalid_argument("`--format gguf` goes with `--method rtn`");
  if (options.stored.act_order && !is_gptq)
    return invalid_argument("`--act-order` goes with `--method gptq`");
  return {};
}

Result<Command> Reader::read() {
  for (; at_ < words_.size(); ++at_) {
    const std::string_view word = words_[at_];
    if (word == "--help" || word == "-h") {
      out_.asks_for_help = true;
      return out_;
    }
    if (!word.starts_with('-') && names_.size() < 2) {
      names_.emplace_back(word);
      continue;
    }
    const auto status = read_option(word);
    if (!status) return invalid_argument("unexpected argument `" + std::string(word) + "`");
    COXSWAIN_RETURN_IF_ERROR(*status);
  }
  if (names_.size() < 2) return invalid_argument("it needs MODEL_ID and OUTPUT_DIR");
  out_.options.model_dir = names_[0];
  out_.options.output_dir = names_[1];
  COXSWAIN_RETURN_IF_ERROR(resolve_type());
  COXSWAIN_RETURN_IF_ERROR(check());
  if (out_.options.stored.kind == NumberKind::kFloat8) out_.options.stored.group_size = 0;
  return out_;
}

}  // namespace

std::string_view usage() {
  return kUsage;
}

Result<Command> parse_command(std::span<const std::string_view> words) {
  return Reader(words).read();
}

}  // namespace coxswain::quantize
