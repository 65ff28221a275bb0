// text-generation-server: one shard. `serve MODEL_ID` loads a model and serves it on a Unix socket
// until it is told to stop.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>

#include "apps/crash_report.h"
#include "apps/early_signals.h"
#include "apps/parent_watch.h"
#include "apps/standard_streams.h"
#include "apps/start_failure.h"
#include "apps/status_file.h"
#include "apps/stop_signals.h"
#include "apps/text_files.h"
#include "json/json.h"
#include "options/options.h"
#include "rpc/shard_service.h"
#include "rpc/socket_listener.h"
#include "runner/local_runner.h"
#include "telemetry/log.h"
#include "tensor/dtype.h"

namespace coxswain::apps {
namespace {

constexpr std::chrono::milliseconds kStopGrace{400};
constexpr const char* kSocketCure =
    "Choose a folder with room that you may write to, with TMPDIR or --shard-uds-path (of this "
    "program: --uds-path).";
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
  return std::nullopt;  // "auto" and not given
}

runner::RunnerOptions runner_options(const options::OptionValues& values) {
  runner::RunnerOptions out;
  out.model_dir = values.get_string("model-id");
  out.model_id = out.model_dir;
  out.tokenizer_config_path = tokenizer_config_path(values);
  out.dtype = dtype_of(values.find_string("dtype").value_or(""));
  out.quantize_int8 = values.find_string("quantize") == "int8";
  out.kv_dtype = dtype_of(values.get_string("kv-cache-dtype"));
  out.block_tokens = values.get_u32("block-tokens");
  out.n_threads = values.get_size("threads");
  if (const std::string& isa = values.get_string("isa"); isa != "auto") out.isa = isa;
  out.kv_bytes = values.get_u64("kv-cache-bytes-max");
  out.memory_budget_bytes = values.get_u64("memory-bytes-max");
  out.max_batch_prefill_tokens = values.get_u32("max-batch-prefill-tokens");
  out.max_total_tokens =
      static_cast<std::uint32_t>(values.find_u64("max-total-tokens").value_or(0));
  // 0 is refused by the router.
  if (const auto size = values.find_u64("max-batch-size"); size && *size > 0)
    out.max_batch_size = static_cast<std::uint32_t>(*size);
  return out;
}

int fail(telemetry::Logger& log, const Status& status, const char* cure, int code) {
  log.error("the shard cannot start", {{"error", status.message()}});
  std::fputs(to_lines(make_start_failure("ShardCannotStart", status, cure, code)).c_str(), stderr);
  return code;
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
      return EXIT_FAILURE;
  }
  return EXIT_FAILURE;
}

const char* cure_of_path(const Status& status) {
  if (status.code() == Code::kInvalidArgument) return kPathTooLongCure;
  return status.code() == Code::kUnavailable ? kSocketCure : kPathTakenCure;
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
  facts.set("kv_bytes", json::Value::unsigned_integer(plan.kv_bytes));
  facts.set("kv_tokens", json::Value::unsigned_integer(plan.kv_tokens()));
  facts.set("workspace_bytes", json::Value::unsigned_integer(plan.workspace_bytes));
  facts.set("reserve_bytes", json::Value::unsigned_integer(plan.reserve_bytes));
  return facts;
}

void dump_state(const runner::LocalRunner& runner, telemetry::Logger& log) {
  const runner::RunnerState state = runner.state();
  log.info("state",
           {{"steps", state.steps},
            {"sequences", std::uint64_t{state.sequences}},
            {"plans_in_flight", std::uint64_t{state.plans_in_flight}},
            {"kv_tokens", runner.memory_plan().kv_tokens()}});
}

int serve(const options::OptionValues& values, telemetry::Logger& log) {
  StopSignals signals(kStopGrace, log);
  const ParentWatch parent([&] { signals.stop("the launcher is gone"); });
  // Before the weights are read: a second server would find out too late.
  const std::string path = values.get_string("uds-path") + "-0";
  if (Status free = rpc::SocketListener::check_free(path); !free.ok()) {
    return fail(log, free, cure_of_path(free), EXIT_FAILURE);
  }
  auto runner = runner::LocalRunner::create(runner_options(values));
  if (!runner.ok())
    return fail(log,
                runner.status(),
                runner.status().code() == Code::kResourceExhausted ? kMemoryCure : kModelCure,
                exit_code_of(runner.status()));
  for (const std::string& warning : runner.value()->warnings()) log.warn(warning);
  for (const std::string& line : runner.value()->memory_plan().to_lines()) log.info(line);

  signals.serve();
  const std::shared_ptr<const TextCodec> codec = runner.value()->codec();
  rpc::ShardServiceOptions service_options;
  service_options.socket_path = path;
  service_options.step_time_max = values.get_ms("step-timeout-ms");
  auto service = rpc::ShardService::start(*runner.value(), *codec, service_options, log);
  if (!service.ok()) return fail(log, service.status(), kSocketCure, EXIT_FAILURE);
  log.info("Server started at unix://" + path);
  if (Status status = write_status_file(facts_of(*runner.value())); !status.ok()) {
    return fail(log, status, kSocketCure, EXIT_FAILURE);
  }
  signals.set_dump([&] { dump_state(*runner.value(), log); });
  signals.wait();
  service.value()->stop();
  return EXIT_SUCCESS;
}

int run(int argc, const char* const* argv) {
  const options::ParseResult parsed =
      options::parse(options::Binary::kServer, argc, argv, options::environment_of(environ));
  if (parsed.exit_code) {
    std::fputs(parsed.output.c_str(), *parsed.exit_code == 0 ? stdout : stderr);
    return *parsed.exit_code;
  }
  telemetry::Logger log({.level = telemetry::parse_level(parsed.values.get_string("logger-level")),
                         .json = parsed.values.get_bool("json-output"),
                         .target = "text_generation_server"});
  for (const std::string& warning : parsed.warnings) log.warn(warning);
  return serve(parsed.values, log);
}

}  // namespace
}  // namespace coxswain::apps

int main(int argc, char** argv) {
  coxswain::apps::hold_standard_streams();
  coxswain::apps::report_crashes();
  coxswain::apps::hold_signals();
  return coxswain::apps::run(argc, argv);
}
