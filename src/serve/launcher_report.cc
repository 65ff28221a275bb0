#include "serve/launcher_report.h"

#include <array>
#include <cstdio>
#include <utility>

namespace coxswain::serve {
namespace {

std::string text_of(const json::Value& facts, std::string_view key) {
  const json::Value* value = facts.find(key);
  if (value == nullptr) return "?";
  if (value->is_string()) return value->as_string();
  if (value->is_number()) return value->number_text();
  return "?";
}

std::uint64_t count_of(const json::Value& facts, std::string_view key) {
  const json::Value* value = facts.find(key);
  return value == nullptr ? 0 : value->to_uint64().value_or(0);
}

bool flag_of(const json::Value& facts, std::string_view key) {
  const json::Value* value = facts.find(key);
  return value != nullptr && value->is_bool() && value->as_bool();
}

std::string with_separators(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 48> out;
  std::snprintf(out.data(),
                out.size(),
                unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s",
                value,
                kUnits[unit]);
  return out.data();
}

// "embedding bfloat16 501 MiB; layers int8 927 MiB, float32 260 KiB; head int8 251 MiB". Empty if `shard` has none.
std::string weights_text(const json::Value& shard) {
  std::string out;
  std::string last;
  const json::Value* shares = shard.find("weights");
  if (shares == nullptr || !shares->is_array()) return out;
  for (const json::Value& share : shares->as_array()) {
    const std::string part = text_of(share, "part");
    out += out.empty() ? part : part == last ? "," : "; " + part;
    out += " " + text_of(share, "format") + " " + bytes_text(count_of(share, "bytes"));
    last = part;
  }
  return out;
}

telemetry::Level level_of(const json::Value& record) {
  const json::Value* level = record.find("level");
  if (level == nullptr || !level->is_string()) return telemetry::Level::kInfo;
  std::string lower;
  for (const char c : level->as_string())
    lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return telemetry::parse_level(lower);
}

// "message key=value key=value" of a record of our own JSON log.
std::string message_of(const json::Value& record) {
  std::string out;
  if (const json::Value* message = record.find("message");
      message != nullptr && message->is_string()) {
    out = message->as_string();
  }
  for (const auto& [key, value] : record.as_object()) {
    if (key == "timestamp" || key == "level" || key == "target" || key == "message") continue;
    out += " " + key + "=" + (value.is_string() ? value.as_string() : json::write(value));
  }
  return out;
}

}  // namespace

void LogForwarder::on_line(const std::string& service,
                           supervise::Stream stream,
                           std::string_view line) {
  if (line.empty()) return;
  if (stream == supervise::Stream::kStderr) {
    if (auto failure = read_failure_line(line)) {
      last_failure_ = std::move(failure);
      awaits_cure_from_ = service;
    } else if (service == awaits_cure_from_) {
      last_failure_->cure = line;
      awaits_cure_from_.clear();
    } else {
      log_.warn(line, {{"from", std::string_view(service)}});
    }
    return;
  }
  if (service == "router") {
    log_.copy_line(line);
    return;
  }
  const auto record = json::parse(line);
  if (record.ok() && record->is_object()) {
    log_.log(level_of(*record), message_of(*record), {{"from", std::string_view(service)}});
  } else {
    log_.info(line, {{"from", std::string_view(service)}});
  }
}

std::string startup_block(const std::string& model_id,
                          std::size_t n_replicas,
                          const json::Value& shard,
                          const json::Value& router) {
  const std::string url = text_of(router, "url");
  std::string out = "\n";
  const auto row = [&](std::string_view name, const std::string& text) {
    out += "  ";
    out += name;
    out.append(10 - std::min<std::size_t>(10, name.size()), ' ');
    out += text + "\n";
  };
  row("model", model_id + " (" + text_of(shard, "model_type") + ")");
  if (n_replicas > 1) row("replicas", std::to_string(n_replicas) + ", each with what follows");
  row("compute",
      text_of(shard, "dtype") + " on " + text_of(shard, "kernel_set") + ", " +
          text_of(shard, "threads") + " threads");
  if (const std::string weights = weights_text(shard); !weights.empty()) row("weights", weights);
  if (shard.find("packed") != nullptr) row("packed", text_of(shard, "packed"));
  const std::uint64_t draft = count_of(shard, "draft_bytes");
  const std::uint64_t shared = count_of(shard, "shared_weight_bytes");
  row("memory",
      bytes_text(count_of(shard, "weight_bytes")) + " weights" +
          (shared == 0 ? ""
                       : " (a part of " + bytes_text(shared) + " shared by " +
                             text_of(shard, "weight_sharers") + " replicas)") +
          " + " + bytes_text(count_of(shard, "kv_bytes")) + " KV cache (" +
          with_separators(count_of(shard, "kv_tokens")) + " tokens) + " +
          bytes_text(count_of(shard, "workspace_bytes")) + " buffers" +
          (draft == 0 ? "" : " + " + bytes_text(draft) + " for drafts") + ", " +
          bytes_text(count_of(shard, "reserve_bytes")) + " kept free");
  const std::uint64_t huge = count_of(shard, "huge_page_bytes");
  row("pages",
      huge != 0 ? bytes_text(huge) + " in pages of 2 MiB so far; the KV cache follows with its use"
                : "none of 2 MiB: /sys/kernel/mm/transparent_hugepage/enabled should say madvise "
                  "or always");
  row("limits",
      with_separators(count_of(router, "max_input_tokens")) + " prompt tokens, " +
          with_separators(count_of(router, "max_total_tokens")) + " tokens in all, " +
          with_separators(count_of(router, "max_concurrent_requests")) + " requests at a time, " +
          with_separators(count_of(router, "connections_max")) + " connections in " +
          with_separators(count_of(router, "open_files_max")) + " open files");
  const bool key = flag_of(router, "api_key");
  row("url",
      url + (key ? " (API key required)" : " (no API key: whoever reaches this port can use it)"));
  const std::string authorization = key ? " -H \"Authorization: Bearer $API_KEY\"" : "";
  if (flag_of(router, "chat")) {
    row("try",
        "curl " + url + "/v1/chat/completions" + authorization +
            " -H 'Content-Type: application/json' \\\n            -d '{\"model\": \"tgi\", "
            "\"messages\": [{\"role\": \"user\", \"content\": "
            "\"Tell me a story about a fox and a boat.\"}], \"temperature\": 0}'");
  } else {
    row("try",
        "curl " + url + "/generate" + authorization +
            " -H 'Content-Type: application/json' \\\n            -d '{\"inputs\": \"Once upon a "
            "time\", \"parameters\": "
            "{\"max_new_tokens\": 40}}'");
  }
  return out;
}

std::string given_options(const options::OptionValues& values) {
  std::string out;
  for (const options::OptionSpec& spec : options::option_table()) {
    if (!spec.is_in(values.binary()) || values.source(spec.key()) < options::Source::kFile)
      continue;
    for (const std::string& text : values.texts(spec.key())) {
      out += out.empty() ? "" : " ";
      if (!spec.name.empty()) out += "--";
      out.append(spec.key()).append("=").append(spec.secret ? "..." : text);
    }
  }
  return out;
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::array<char, 32> out;
  std::snprintf(out.data(), out.size(), "%.3fs", static_cast<double>(time.count()) / 1000);
  return out.data();
}

StartFailure failure_of(const supervise::RunResult& result,
                        const std::optional<StartFailure>& said) {
  const bool shard = result.service != "router";
  StartFailure failure;
  failure.cause = result.status.ok() ? result.service + " ended with " + result.exit.describe()
                                     : result.status.message();
  if (result.outcome == supervise::Outcome::kGaveUp) {
    failure.variant = shard ? "ShardFailed" : "WebserverFailed";
    failure.cure =
        result.service + " died five times within a minute; its log lines above say why.";
    failure.exit_code = kExitGaveUp;
    return failure;
  }
  failure.variant = shard                ? "ShardCannotStart"
                    : result.status.ok() ? "WebserverFailed"
                                         : "WebserverCannotStart";
  failure.cure = result.status.ok() ? "Look at the log lines above."
                 : result.status.code() == Code::kNotFound
                     ? "Install all binaries into one folder."
                     : "Raise the limits of this user (ulimit -a), or end other programs.";
  if (said) {
    failure.cause = said->cause;
    if (!said->cure.empty()) failure.cure = said->cure;
    if (said->variant == "ArgumentValidation") failure.variant = said->variant;
  }
  if (result.exit.code == kExitModel || result.exit.code == kExitUsage)
    failure.exit_code = result.exit.code;
  return failure;
}

}  // namespace coxswain::serve
