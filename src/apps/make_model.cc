// coxswain-make-model: writes a model of random weights with the shape of a published one, for
// benchmarks and load tests.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "json/json.h"
#include "model/random_checkpoint.h"

namespace coxswain::apps {
namespace {

namespace fs = std::filesystem;

struct NamedShape {
  std::string_view name;
  std::string_view config;
};

// Numbers of the published config.json files.
constexpr std::array kShapes{
    NamedShape{
        "llama-15m",
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":32000,"hidden_size":288,"intermediate_size":768,)"
        R"("num_hidden_layers":6,"num_attention_heads":6,"num_key_value_heads":6,"max_position_embeddings":2048,"rms_norm_eps":1e-5,)"
        R"("rope_theta":10000.0,"hidden_act":"silu","tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":2})"},
    NamedShape{
        "llama-3.1-8b",
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":128256,"hidden_size":4096,"intermediate_size":14336,)"
        R"("num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"max_position_embeddings":131072,)"
        R"("rms_norm_eps":1e-5,"rope_theta":500000.0,"rope_scaling":{"factor":8.0,"high_freq_factor":4.0,"low_freq_factor":1.0,)"
        R"("original_max_position_embeddings":8192,"rope_type":"llama3"},"hidden_act":"silu","tie_word_embeddings":false,)"
        R"("bos_token_id":128000,"eos_token_id":[128001,128008,128009]})"},
    NamedShape{
        "llama-3.2-1b",
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":128256,"hidden_size":2048,"intermediate_size":8192,)"
        R"("num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":64,"max_position_embeddings":131072,)"
        R"("rms_norm_eps":1e-5,"rope_theta":500000.0,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,)"
        R"("original_max_position_embeddings":8192,"rope_type":"llama3"},"hidden_act":"silu","tie_word_embeddings":true,)"
        R"("bos_token_id":128000,"eos_token_id":[128001,128008,128009]})"},
    NamedShape{
        "llama-3.2-3b",
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":128256,"hidden_size":3072,"intermediate_size":8192,)"
        R"("num_hidden_layers":28,"num_attention_heads":24,"num_key_value_heads":8,"head_dim":128,"max_position_embeddings":131072,)"
        R"("rms_norm_eps":1e-5,"rope_theta":500000.0,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,)"
        R"("original_max_position_embeddings":8192,"rope_type":"llama3"},"hidden_act":"silu","tie_word_embeddings":true,)"
        R"("bos_token_id":128000,"eos_token_id":[128001,128008,128009]})"},
    NamedShape{
        "qwen2.5-0.5b",
        R"({"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","vocab_size":151936,"hidden_size":896,"intermediate_size":4864,)"
        R"("num_hidden_layers":24,"num_attention_heads":14,"num_key_value_heads":2,"max_position_embeddings":32768,)"
        R"("rms_norm_eps":1e-6,"rope_theta":1000000.0,"hidden_act":"silu","tie_word_embeddings":true,"use_sliding_window":false,)"
        R"("bos_token_id":151643,"eos_token_id":151645})"},
    NamedShape{
        "qwen2.5-1.5b",
        R"({"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","vocab_size":151936,"hidden_size":1536,"intermediate_size":8960,)"
        R"("num_hidden_layers":28,"num_attention_heads":12,"num_key_value_heads":2,"max_position_embeddings":32768,)"
        R"("rms_norm_eps":1e-6,"rope_theta":1000000.0,"hidden_act":"silu","tie_word_embeddings":true,"use_sliding_window":false,)"
        R"("bos_token_id":151643,"eos_token_id":151645})"},
    NamedShape{
        "qwen3-0.6b",
        R"({"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","vocab_size":151936,"hidden_size":1024,"intermediate_size":3072,)"
        R"("num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":128,"max_position_embeddings":40960,)"
        R"("rms_norm_eps":1e-6,"rope_theta":1000000.0,"hidden_act":"silu","tie_word_embeddings":true,"use_sliding_window":false,)"
        R"("bos_token_id":151643,"eos_token_id":151645})"},
    NamedShape{
        "smollm2-135m",
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":49152,"hidden_size":576,"intermediate_size":1536,)"
        R"("num_hidden_layers":30,"num_attention_heads":9,"num_key_value_heads":3,"max_position_embeddings":8192,"rms_norm_eps":1e-5,)"
        R"("rope_theta":100000.0,"hidden_act":"silu","tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":2})"},
    NamedShape{
        "tinyllama-1.1b",
        R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":32000,"hidden_size":2048,"intermediate_size":5632,)"
        R"("num_hidden_layers":22,"num_attention_heads":32,"num_key_value_heads":4,"max_position_embeddings":2048,"rms_norm_eps":1e-5,)"
        R"("rope_theta":10000.0,"hidden_act":"silu","tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2})"},
    NamedShape{
        "gpt2",
        R"({"architectures":["GPT2LMHeadModel"],"model_type":"gpt2","vocab_size":50257,"n_embd":768,"n_layer":12,"n_head":12,)"
        R"("n_positions":1024,"n_ctx":1024,"layer_norm_epsilon":1e-5,"activation_function":"gelu_new","bos_token_id":50256,)"
        R"("eos_token_id":50256})"},
};

// What belongs to a tokenizer and is copied beside the weights if it is there.
constexpr std::array<std::string_view, 8> kTokenizerFiles{"tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "special_tokens_map.json",
                                                          "tokenizer.model",
                                                          "vocab.json",
                                                          "merges.txt",
                                                          "added_tokens.json",
                                                          "chat_template.jinja"};

constexpr std::size_t kConfigBytesMax = std::size_t{1} << 20;

struct CommandLine {
  std::string shape;
  std::string config_path;
  std::string out_dir;
  std::string tokenizer_dir;
  model::RandomCheckpointOptions options;
};

void print_usage(std::FILE* to) {
  std::fputs(
      "usage: coxswain-make-model (--shape NAME | --config FILE) --out DIR [--tokenizer DIR] "
      "[--dtype bfloat16|float16|float32] [--seed N]\n"
      "shapes:",
      to);
  for (const NamedShape& shape : kShapes) std::fprintf(to, " %s", std::string(shape.name).c_str());
  std::fputs("\n", to);
}

bool asks_for_help(std::span<char*> args) {
  return std::ranges::any_of(args,
                             [](std::string_view arg) { return arg == "--help" || arg == "-h"; });
}

std::optional<tensor::DType> type_of(std::string_view name) {
  for (const auto type : {tensor::DType::kBf16, tensor::DType::kF16, tensor::DType::kF32}) {
    if (name == tensor::name_of(type)) return type;
  }
  return std::nullopt;
}

std::optional<CommandLine> parse_command_line(std::span<char*> args) {
  CommandLine out;
  if (args.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) {
    const std::string_view name = args[i];
    const std::string value = args[i + 1];
    if (name == "--shape") {
      out.shape = value;
    } else if (name == "--config") {
      out.config_path = value;
    } else if (name == "--out") {
      out.out_dir = value;
    } else if (name == "--tokenizer") {
      out.tokenizer_dir = value;
    } else if (name == "--dtype") {
      const auto type = type_of(value);
      if (!type) return std::nullopt;
      out.options.type = *type;
    } else if (name == "--seed") {
      const auto read =
          std::from_chars(value.data(), value.data() + value.size(), out.options.seed);
      if (read.ec != std::errc() || read.ptr != value.data() + value.size()) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (out.shape.empty() == out.config_path.empty() || out.out_dir.empty()) return std::nullopt;
  return out;
}

Result<json::Value> read_config(const CommandLine& command) {
  if (!command.config_path.empty()) return json::parse_file(command.config_path, kConfigBytesMax);
  const auto* shape = std::find_if(
      kShapes.begin(), kShapes.end(), [&](const NamedShape& s) { return s.name == command.shape; });
  if (shape == kShapes.end())
    return invalid_argument("no shape is called \"" + command.shape + "\"");
  COXSWAIN_ASSIGN_OR_RETURN(json::Value config, json::parse(shape->config));
  config.as_object().set("torch_dtype", std::string(tensor::name_of(command.options.type)));
  return config;
}

Status copy_tokenizer(const std::string& from, const std::string& to) {
  if (from.empty()) return {};
  bool found = false;
  for (const std::string_view name : kTokenizerFiles) {
    std::error_code error;
    if (!fs::exists(fs::path(from) / name, error)) continue;
    fs::copy_file(
        fs::path(from) / name, fs::path(to) / name, fs::copy_options::overwrite_existing, error);
    if (error)
      return {Code::kResourceExhausted,
              from + "/" + std::string(name) + ": cannot be copied: " + error.message()};
    found = true;
  }
  return found ? Status() : Status(Code::kNotFound, from + ": no tokenizer is there");
}

Status make_model(CommandLine command) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value config, read_config(command));
  std::error_code error;
  fs::create_directories(command.out_dir, error);
  if (error) return {Code::kNotFound, command.out_dir + ": cannot be made: " + error.message()};
  COXSWAIN_RETURN_IF_ERROR(copy_tokenizer(command.tokenizer_dir, command.out_dir));
  command.options.dir = command.out_dir;
  std::uint64_t written = 0;
  command.options.progress = [&](std::uint64_t done, std::uint64_t) { written = done; };
  COXSWAIN_RETURN_IF_ERROR(model::write_random_checkpoint(config, command.options));
  std::printf(
      "%s: %.1f MB of weights\n", command.out_dir.c_str(), static_cast<double>(written) / 1e6);
  return {};
}

}  // namespace
}  // namespace coxswain::apps

int main(int argc, char** argv) {
  const auto args = std::span(argv, static_cast<std::size_t>(argc)).subspan(1);
  if (coxswain::apps::asks_for_help(args)) {
    coxswain::apps::print_usage(stdout);
    return 0;
  }
  auto command = coxswain::apps::parse_command_line(args);
  if (!command) {
    coxswain::apps::print_usage(stderr);
    return 2;
  }
  const coxswain::Status status = coxswain::apps::make_model(std::move(*command));
  if (status.ok()) return 0;
  std::fprintf(stderr, "coxswain-make-model: %s\n", status.message().c_str());
  return 1;
}
