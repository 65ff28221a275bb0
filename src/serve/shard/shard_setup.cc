#include "serve/shard/shard_setup.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "serve/replica_roles.h"
#include "serve/text_files.h"
#include "tensor/dtype.h"
#include "tensor/page_arena.h"

namespace coxswain::serve {
namespace {

// For blocks on their way from and to --kv-host-bytes-max and the files of --kv-spill-path.
constexpr std::uint64_t kSpillAttachmentBytes = std::uint64_t{32} << 20;

constexpr const char* kSocketCure =
    "Choose a folder with room that you may write to, with TMPDIR or --shard-uds-path (of this "
    "program: --uds-path).";
constexpr const char* kUcxCure =
    "Correct --kv-ucx-networks, or leave it out: blocks then go over TLS.";
constexpr const char* kAddressCure =
    "Choose a HOST:PORT of this machine that is free for --fleet-listen.";
constexpr const char* kModelCure =
    "Check the folder of the model: it must be complete, and of a family that is served.";
constexpr const char* kMemoryCure =
    "Free memory, or lower --memory-bytes-max, --kv-cache-bytes-max or --max-batch-prefill-tokens.";
constexpr const char* kPathTakenCure =
    "Stop that server, or choose another path with --shard-uds-path (of this program: --uds-path).";
constexpr const char* kPathTooLongCure =
    "Choose a shorter TMPDIR or --shard-uds-path (of this program: --uds-path).";

std::optional<tensor::DType> dtype_of(const std::string& name) {
  if (name == "float32") return tensor::DType::kF32;
  if (name == "bfloat16") return tensor::DType::kBf16;
  if (name == "float16") return tensor::DType::kF16;
  return std::nullopt;  // not given
}

// Empty for "auto".
std::optional<tensor::DType> cache_type_of(const std::string& name) {
  for (const tensor::DType type : tensor::kCacheTypes)
    if (name == tensor::name_of(type)) return type;
  return std::nullopt;
}

int exit_code_of(const Status& status) {
  switch (status.code()) {
    case Code::kNotFound:
    case Code::kInvalidArgument:
    case Code::kDataLoss:
    case Code::kUnimplemented:
      return kExitModel;
    case Code::kOk:
    case Code::kCancelled:
    case Code::kFailedPrecondition:
    case Code::kResourceExhausted:
    case Code::kDeadlineExceeded:
    case Code::kUnavailable:
    case Code::kInternal:
      return kExitFailure;
  }
  return kExitFailure;
}

StartFailure cannot_start(const Status& status, const char* cure, int exit_code) {
  return make_start_failure("ShardCannotStart", status, cure, exit_code);
}

}  // namespace

void LoadProgress::operator()(std::uint64_t done, std::uint64_t total) {
  const TimePoint now = Clock::now();
  if (now < next_ || total == 0) return;
  next_ = now + interval_;
  const double seconds = std::max(std::chrono::duration<double>(now - began_).count(), 1e-3);
  const double rate = std::max(static_cast<double>(done) / seconds, 1.0);
  const auto left = static_cast<std::uint64_t>(static_cast<double>(total - done) / rate);
  log_->info("Loading weights: " + std::to_string(done * 100 / total) + " % (" +
             runner::format_bytes(done) + " of " + runner::format_bytes(total) + "), " +
             runner::format_bytes(static_cast<std::uint64_t>(rate)) + "/s, " +
             std::to_string(left) + " s left");
}

std::string packed_text(const model::WeightCacheUse& use) {
  if (use.path.empty()) return "";
  std::array<char, 32> time;
  std::snprintf(time.data(), time.size(), " in %.2f s", use.seconds);
  if (use.bytes_written != 0)
    return runner::format_bytes(use.bytes_written) + " written to " + use.path + time.data();
  if (use.bytes_read == 0) return std::string("not kept, made") + time.data();
  return runner::format_bytes(use.bytes_read) + " read from " + use.path + time.data();
}

std::string shared_text(const model::SharedWeights& use, std::uint32_t sharers) {
  if (use.bytes == 0) return "";
  std::array<char, 32> time;
  std::snprintf(time.data(), time.size(), " in %.2f s, ", use.seconds);
  return runner::format_bytes(use.bytes) + " of " + std::to_string(sharers) + " replicas, " +
         (use.was_filled ? "mapped" : "filled") + time.data() +
         (use.huge_bytes == 0 ? "none" : runner::format_bytes(use.huge_bytes)) +
         " in pages of 2 MiB";
}

std::vector<std::string> weights_sources(const options::OptionValues& values) {
  std::vector<std::string> out;
  const std::string text = values.get<"weights-from">().value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

namespace {

// One of the two stands for both.
std::optional<model::RopeOverride> rope_override(const options::OptionValues& values) {
  const auto& scaling = values.get<"rope-scaling">();
  const auto factor = values.get<"rope-factor">();
  if (!scaling && !factor) return std::nullopt;
  return model::RopeOverride{
      .scaling = scaling == "dynamic" ? model::RopeScaling::kDynamic : model::RopeScaling::kLinear,
      .factor = factor.value_or(1.0),
      .positions_min = values.get<"max-total-tokens">().value_or(0)};
}

}  // namespace

runner::RunnerOptions runner_options(const options::OptionValues& values) {
  runner::RunnerOptions out;
  out.model_dir = values.get<"model-id">().value_or("");  // parse() asks for it
  out.model_id = out.model_dir;
  out.tokenizer_config_path = tokenizer_config_path(values);
  out.dtype = dtype_of(values.get<"dtype">().value_or(""));
  out.quantize = values.get<"quantize">().value_or("");
  if (const std::string& folder = values.get<"weights-cache-dir">(); folder != "off")
    out.weights_cache_dir = folder;
  out.weights_cache_bytes_max = values.get<"weights-cache-bytes-max">();
  out.kv_dtype = cache_type_of(values.get<"kv-cache-dtype">());
  out.block_tokens = static_cast<std::uint32_t>(values.get<"block-tokens">());
  out.n_threads = values.get<"threads">();
  out.pin_threads = values.get<"pin-threads">();
  out.profile_steps = values.get<"profile-steps">();
  if (const std::string& isa = values.get<"isa">(); isa != "auto") out.isa = isa;
  for (const std::uint64_t window : values.get<"max-attention-window">())
    out.windows.max_attention_window.push_back(static_cast<std::uint32_t>(window));
  out.windows.sink_token_length = static_cast<std::uint32_t>(values.get<"sink-token-length">());
  out.rope = rope_override(values);
  out.kv_bytes = values.get<"kv-cache-bytes-max">();
  if (values.get<"kv-host-bytes-max">() > 0 ||
      (values.get<"kv-spill-path">() && values.get<"kv-spill-bytes-max">() > 0))
    out.attachment_bytes_max = kSpillAttachmentBytes;
  // Whoever may be one of several machines may have to hand blocks over, as replicas below a launcher with roles.
  const std::uint64_t handover = values.is_set<"fleet-listen">() ? kHandoverBytes : 0;
  out.attachment_bytes_max =
      std::max(out.attachment_bytes_max, values.get<"kv-handover-bytes-max">().value_or(handover));
  out.memory_budget_bytes = values.get<"memory-bytes-max">();
  out.others_bytes = values.get<"kv-host-bytes-max">();
  out.max_batch_prefill_tokens = values.get<"max-batch-prefill-tokens">();
  out.max_total_tokens = values.get<"max-total-tokens">().value_or(0);
  out.draft_tokens_max = static_cast<std::uint32_t>(values.get<"speculate">());
  out.speculative_model_dir = values.get<"speculative-model">().value_or("");
  // 0 is refused by the router.
  if (const auto size = values.get<"max-batch-size">(); size && *size > 0)
    out.max_batch_size = *size;
  return out;
}

StartFailure model_failure(const Status& status) {
  const bool is_memory = status.code() == Code::kResourceExhausted;
  return cannot_start(status, is_memory ? kMemoryCure : kModelCure, exit_code_of(status));
}

StartFailure path_failure(const Status& status) {
  const char* cure = status.code() == Code::kInvalidArgument ? kPathTooLongCure
                     : status.code() == Code::kUnavailable   ? kSocketCure
                                                             : kPathTakenCure;
  return cannot_start(status, cure, kExitFailure);
}

StartFailure socket_failure(const Status& status) {
  const char* cure = status.message().starts_with("cannot listen at ") ? kAddressCure
                     : status.message().starts_with("UCX: ")           ? kUcxCure
                                                                       : kSocketCure;
  return cannot_start(status, cure, kExitFailure);
}

json::Object facts_of(const runner::LocalRunner& runner) {
  const RunnerInfo info = runner.info();
  const runner::MemoryPlan& plan = runner.memory_plan();
  json::Object facts;
  facts.set("model_type", json::Value(info.model_type));
  facts.set("dtype", json::Value(info.dtype));
  facts.set("kernel_set", json::Value(info.kernel_set_id));
  facts.set("threads",
            json::Value::unsigned_integer(static_cast<std::uint64_t>(runner.n_threads())));
  facts.set("weight_bytes", json::Value::unsigned_integer(plan.weight_bytes));
  facts.set("shared_weight_bytes", json::Value::unsigned_integer(plan.shared_weight_bytes));
  facts.set("weight_sharers", json::Value::unsigned_integer(plan.sharers));
  json::Array shares;
  for (const model::WeightShare& share : runner.weight_shares()) {
    json::Object each;
    each.set("part", json::Value(share.part));
    each.set("format", json::Value(share.format));
    each.set("bytes", json::Value::unsigned_integer(share.bytes));
    shares.emplace_back(std::move(each));
  }
  facts.set("weights", json::Value(std::move(shares)));
  facts.set("kv_bytes", json::Value::unsigned_integer(plan.kv_bytes));
  facts.set("kv_tokens", json::Value::unsigned_integer(plan.kv_tokens));
  facts.set("workspace_bytes", json::Value::unsigned_integer(plan.workspace_bytes));
  facts.set("draft_bytes", json::Value::unsigned_integer(plan.draft_bytes));
  facts.set("reserve_bytes", json::Value::unsigned_integer(plan.reserve_bytes));
  if (std::string text = packed_text(runner.weight_cache()); !text.empty())
    facts.set("packed", json::Value(std::move(text)));
  facts.set(
      "huge_page_bytes",
      json::Value::unsigned_integer(tensor::huge_page_bytes() + tensor::shared_huge_page_bytes()));
  return facts;
}

}  // namespace coxswain::serve
