#include "migrate/migrate.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/shell_words.h"
#include "migrate/rows/common.h"
#include "migrate/rows/llama_server.h"
#include "migrate/rows/lmdeploy.h"
#include "migrate/rows/ollama.h"
#include "migrate/rows/triton.h"
#include "migrate/rows/vllm.h"
#include "options/options.h"

namespace coxswain::migrate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// What is printed, after the real parser has taken the command.
std::string accepted(const Result<Migrated>& made) {
  if (!made.ok()) return made.status().message();
  std::vector<const char*> argv;
  for (const std::string& word : made->command) argv.push_back(word.c_str());
  options::Environment environment;
  for (const auto& [name, value] : made->environment) environment[name] = value;
  const options::ParseResult parsed = options::parse(
      options::Binary::kLauncher, static_cast<int>(argv.size()), argv.data(), environment);
  EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.output;
  EXPECT_TRUE(parsed.warnings.empty()) << parsed.warnings.front();
  return text_of(*made);
}

std::string from_command(std::string_view text, std::optional<Program> from = {}) {
  return accepted(migrate_command(base::shell_words(text), from));
}

std::string from_text(std::string_view text, std::optional<Program> from = {}) {
  return accepted(migrate_text(text, from));
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find('|'));
    out.emplace_back(word);
    list.remove_prefix(std::min(list.size(), word.size() + 1));
  }
  return out;
}

const std::pair<Program, std::span<const Rule>> kTables[] = {
    {Program::kTgi, kTgiRows},
    {Program::kVllm, kVllmRows},
    {Program::kLlamaServer, kLlamaServerRows},
    {Program::kOllama, kOllamaRows},
    {Program::kLmdeploy, kLmdeployRows},
    {Program::kTriton, kTritonRows}};

TEST(Tables, NameOurOptionsAndReasons) {
  for (const auto& [program, rules] : kTables) {
    std::set<std::string> names;
    for (const Rule& rule : rules) {
      for (const std::string& name : split(rule.theirs))
        EXPECT_TRUE(names.insert(name).second) << name_of(program) << " " << name;
      const std::string ours(rule.ours.substr(0, rule.ours.find('=')));
      if (!ours.empty()) {
        const options::OptionSpec* spec = options::find_option(options::Binary::kLauncher, ours);
        ASSERT_NE(spec, nullptr) << rule.theirs << " " << ours;
        EXPECT_NE(spec->status, options::OptionStatus::kRefused) << ours;
      }
      const bool says = !ours.empty() || !rule.why.empty() || rule.neutral == kAlways ||
                        rule.turn == Turn::kAddress;
      EXPECT_TRUE(says) << rule.theirs;
      if (rule.turn == Turn::kFirst) {
        EXPECT_FALSE(rule.why.empty()) << rule.theirs;
      }
    }
  }
}

// Each value that a table gives is one that our option takes.
TEST(Tables, WordsAreTaken) {
  for (const auto& [program, rules] : kTables) {
    for (const Rule& rule : rules) {
      if (rule.turn != Turn::kWords) continue;
      for (const std::string& word : split(rule.words)) {
        const std::size_t equals = word.find('=');
        ASSERT_NE(equals, std::string::npos) << rule.theirs;
        const std::string name = split(rule.theirs).front();
        const std::string theirs = word.substr(0, equals);
        const std::string out = from_command(
            std::string(name).append(name[0] == '-' ? " " : "=").append(theirs), program);
        const std::string ours = word.substr(equals + 1);
        EXPECT_THAT(out, Not(HasSubstr(theirs + ": "))) << out;
        EXPECT_THAT(out,
                    HasSubstr(ours.empty() ? "so here anyway:"
                                           : std::string(rule.ours) +
                                                 (rule.ours[0] < 'a' ? "=" : " ") + ours));
      }
    }
  }
}

TEST(Vllm, IsTaken) {
  EXPECT_EQ(
      from_command("vllm serve Qwen/Qwen2.5-0.5B-Instruct --max-model-len 32k --dtype half "
                   "--max_num_seqs=64 --gpu-memory-utilization 0.9 -tp 1 --enable-prefix-caching "
                   "--allowed-origins '[\"http://a\",\"http://b\"]' --api-key k"),
      "text-generation-launcher --model-id Qwen/Qwen2.5-0.5B-Instruct --max-total-tokens 32000 "
      "--dtype float16 --max-batch-size 64 --cors-allow-origin http://a --cors-allow-origin "
      "http://b "
      "--api-key k --port 8000\n"
      "\n"
      "without equivalent:\n"
      "  --gpu-memory-utilization 0.9: a share of a GPU's memory; here --memory-bytes-max is for "
      "all and "
      "--kv-cache-bytes-max for the cache\n"
      "\n"
      "so here anyway:\n"
      "  -tp 1\n"
      "  --enable-prefix-caching\n");
  EXPECT_THAT(
      from_command(
          "python3 -m vllm.entrypoints.openai.api_server --model m --port 80 --max-model-len 4K"),
      StartsWith("text-generation-launcher --model-id m --port 80 --max-total-tokens 4096\n"));
  EXPECT_THAT(from_command("vllm serve m --no-enable-prefix-caching --kv-offloading-size 1.5"),
              StartsWith("PREFIX_CACHING=false text-generation-launcher --model-id m "
                         "--kv-host-bytes-max 1610612736 "));
  EXPECT_THAT(from_command("vllm serve m --speculative-config "
                           "'{\"method\":\"ngram\",\"num_speculative_tokens\":3}'"),
              HasSubstr(" --speculate 3 "));
  EXPECT_THAT(
      from_command(
          "vllm serve m --speculative-config '{\"model\":\"s\",\"num_speculative_tokens\":3}'"),
      HasSubstr(" --speculate 3 --speculative-model s "));
  EXPECT_THAT(
      from_command("vllm serve m --speculative-config '{\"method\":\"eagle\",\"model\":\"s\"}'"),
      HasSubstr("\"s\"}: --speculate N guesses"));
  EXPECT_THAT(
      from_command("vllm serve m --served-model-name a b --api-key k l"),
      HasSubstr("  --api-key: all but the first: --api-keys-path names a file of several\n"));
}

TEST(Vllm, WhatIsNotTakenIsSaid) {
  const std::string out = from_command(
      "vllm serve m --block-size 24 --port 99999 -dp 2 --brand-new 3 --brand-new-flag --seed 0 "
      "word --quantization fp8 "
      "--port 7 --port 8");
  EXPECT_THAT(out, StartsWith("text-generation-launcher --model-id m --replicas 2 --port 7\n"));
  EXPECT_THAT(out, HasSubstr("  --block-size 24: `--block-tokens` must be one of `1`, `2`"));
  EXPECT_THAT(out, HasSubstr("  --port 99999: `--port` must be a whole number from 0 to 65535"));
  EXPECT_THAT(out, HasSubstr("  --brand-new 3: not known here\n"));
  EXPECT_THAT(out, HasSubstr("  --brand-new-flag: not known here\n"));
  EXPECT_THAT(out, HasSubstr("  --seed 0: a field of requests"));
  EXPECT_THAT(out, HasSubstr("  word: there is another value before it\n"));
  EXPECT_THAT(out, HasSubstr("  --quantization fp8: weights are read as they are stored"));
  EXPECT_THAT(out, HasSubstr("  --port 8: there is another value before it\n"));
}

TEST(Tgi, KeepsItsNames) {
  EXPECT_EQ(
      from_command("HF_TOKEN=t MAX_BEST_OF=3 JSON_OUTPUT=true /usr/bin/text-generation-launcher "
                   "--model-id m -p 80 "
                   "--num-shard 1 --max-input-tokens 7 --cuda-graphs 1,2 --trust-remote-code "
                   "--quantize eetq"),
      "HF_TOKEN=t text-generation-launcher --model-id m --port 80 --num-shard 1 --max-input-tokens "
      "7 "
      "--max-best-of 3 --json-output\n"
      "\n"
      "without equivalent:\n"
      "  --cuda-graphs 1,2: `--cuda-graphs` has no effect: it tunes CUDA devices only\n"
      "  --trust-remote-code: `--trust-remote-code` has no effect: no code of a model is ever run\n"
      "  --quantize eetq: it would quantise while it loads; here --quantize int8 or int4 does\n");
  EXPECT_THAT(from_command("text-generation-launcher --model-id m --num-shard 2"),
              HasSubstr("  --num-shard 2: `--num-shard` is not supported yet: one shard holds the "
                        "whole model\n"));
}

TEST(Containers, AreLookedThrough) {
  EXPECT_EQ(from_command(
                "docker run --gpus all --shm-size 1g -p 8080:80 -v $volume:/data -e MAX_BEST_OF=3 "
                "ghcr.io/huggingface/text-generation-inference:3.3.5 --model-id m"),
            "text-generation-launcher --model-id m --max-best-of 3\n"
            "\n"
            "without equivalent:\n"
            "  what stands before the image: it is about the container; ports, folders and limits "
            "stay yours\n");
  EXPECT_THAT(from_command("sudo docker run vllm/vllm-openai:latest --model m"),
              StartsWith("text-generation-launcher --model-id m --port 8000\n"));
}

TEST(LlamaServer, IsTaken) {
  EXPECT_EQ(from_command("LLAMA_ARG_THREADS=3 ./llama-server -m q.gguf -c 8192 -np 4 -ngl 99 -fa "
                         "-ctk q8_0 -ctv q8_0 "
                         "--cache-ram 512 --host 0.0.0.0 -t 2 -fa on -v"),
            "LOG_LEVEL=debug text-generation-launcher --model-id q.gguf --max-total-tokens 8192 "
            "--max-batch-size 4 "
            "--kv-cache-dtype int8 --kv-host-bytes-max 536870912 --hostname 0.0.0.0 --threads 2 "
            "--port 8080\n"
            "\n"
            "without equivalent:\n"
            "  -ngl 99: it is about GPUs; the processor computes here\n"
            "  LLAMA_ARG_THREADS=3: there is another value before it\n"
            "\n"
            "so here anyway:\n"
            "  -fa\n"
            "  -fa on\n");
  EXPECT_THAT(from_command("llama serve -hf org/repo:Q4_K_M"),
              StartsWith("text-generation-launcher --model-id org/repo:Q4_K_M --port 8080 "
                         "--hostname 127.0.0.1\n"));
  EXPECT_THAT(from_command("llama-server -m a -ctk f16 -ctv q8_0"),
              HasSubstr("-ctv q8_0: there is another value"));
}

TEST(Ollama, IsTaken) {
  EXPECT_EQ(
      from_text(
          "# mine\nfrom hf.co/org/repo:Q4_K_M\nPARAMETER num_ctx 4096\nPARAMETER stop \"<x>\"\n"
          "TEMPLATE \"\"\"{{ .Prompt }}\nFROM nothing\n\"\"\"\nSYSTEM be short\nPARAMETER "
          "num_thread 2\n"),
      "text-generation-launcher --model-id org/repo:Q4_K_M --max-total-tokens 4096 --threads 2 "
      "--port 11434 "
      "--hostname 127.0.0.1\n"
      "\n"
      "without equivalent:\n"
      "  stop <x>: a field of requests (docs/api.md)\n"
      "  TEMPLATE: the model's own is used, or --tokenizer-config-path FILE with a template in "
      "Jinja\n"
      "  SYSTEM: messages of requests\n");
  const std::string out = from_command(
      "OLLAMA_HOST=http://0.0.0.0:8000 OLLAMA_NUM_PARALLEL=4 OLLAMA_ORIGINS=http://a,http://b "
      "OLLAMA_DEBUG=1 ollama run llama3.2");
  EXPECT_THAT(
      out,
      StartsWith("LOG_LEVEL=debug text-generation-launcher --hostname 0.0.0.0 --port 8000 "
                 "--max-batch-size 4 "
                 "--cors-allow-origin http://a --cors-allow-origin http://b --model-id MODEL\n"));
  EXPECT_THAT(out, HasSubstr("  llama3.2: not a name of the hub"));
  EXPECT_THAT(from_command("OLLAMA_HOST=[::1]:3 ollama serve"),
              HasSubstr("--hostname '[::1]' --port 3 "));
}

TEST(Lmdeploy, IsTaken) {
  EXPECT_THAT(
      from_command(
          "lmdeploy serve api_server m --server-port 80 --session-len 8192 --quant-policy 8 --tp 2 "
          "--allow-origins '*' --log-level WARNING"),
      StartsWith(
          "LOG_LEVEL=warn text-generation-launcher --model-id m --port 80 --max-total-tokens 8192 "
          "--kv-cache-dtype int8\n\nwithout equivalent:\n  --tp 2: one shard"));
}

TEST(Triton, IsTaken) {
  EXPECT_EQ(from_text(R"(name: "tensorrt_llm"
backend: "tensorrtllm"
max_batch_size: 64
model_transaction_policy { decoupled: true }
dynamic_batching { max_queue_delay_microseconds: 100 }
input [ { name: "input_ids" data_type: TYPE_INT32 dims: [ -1 ] } ]
parameters: { key: "batch_scheduler_policy" value: { string_value: "guaranteed_no_evict" } }
parameters { key: "gpt_model_path" value { string_value: "/engines/1" } }
parameters: { key: "max_tokens_in_paged_kv_cache" value: { string_value: "${max}" } }
parameters: { key: "enable_kv_cache_reuse" value: { string_value: "false" } }
parameters: { key: "something_new" value: { string_value: "1" } }
)"),
            "PREFIX_CACHING=false text-generation-launcher --max-batch-size 64 --capacity-policy "
            "guaranteed-no-evict "
            "--port 8000 --model-id MODEL\n"
            "\n"
            "without equivalent:\n"
            "  max_queue_delay_microseconds: 100: a request joins the next step\n"
            "  gpt_model_path: /engines/1: built engines are not read; --model-id is the model in "
            "safetensors or GGUF\n"
            "  max_tokens_in_paged_kv_cache: ${max}: `--max-batch-total-tokens` must be a whole "
            "number from 1 to "
            "4294967295 (tokens), not `${max}`\n"
            "  something_new: 1: not known here\n"
            "  MODEL: put the model here: a folder, a GGUF file or org/name of a hub\n"
            "\n"
            "so here anyway:\n"
            "  backend: tensorrtllm\n"
            "  decoupled: true\n");
  EXPECT_THAT(from_command("trtllm-serve m --max_batch_size 8 --max_num_tokens 2048 --tp_size 2"),
              StartsWith("text-generation-launcher --model-id m --max-batch-size 8 "
                         "--max-batch-prefill-tokens 2048 --port 8000\n"));
  EXPECT_THAT(
      from_command("max_beam_width=4 sink_token_length=4", Program::kTriton),
      StartsWith("text-generation-launcher --sink-token-length 4 --port 8000 --model-id MODEL\n"));
}

TEST(Files, AreCommandsOverLinesToo) {
  EXPECT_THAT(
      from_text("#!/bin/sh\nexport HF_HOME=/hub\nexec vllm serve m \\\n  --port 7  # seven\n"),
      StartsWith("HF_HOME=/hub text-generation-launcher --model-id m --port 7\n"));
  EXPECT_THAT(from_text("--port 7", Program::kVllm), HasSubstr("--port 7 --model-id MODEL"));
  EXPECT_THAT(from_text("nginx -c x"),
              HasSubstr("--from says which it is: tgi, vllm, llama-server"));
  EXPECT_THAT(from_text(""), HasSubstr("--from"));
  EXPECT_EQ(program_of("lmdeploy"), Program::kLmdeploy);
  EXPECT_EQ(program_of("sglang"), std::nullopt);
}

}  // namespace
}  // namespace coxswain::migrate
