#include "serve/router/admin_documents.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "api/errors.h"
#include "serve/log_level.h"
#include "serve/router/router_setup.h"

namespace coxswain::serve {
namespace {

constexpr std::string_view kLogLevel = "log_level";
constexpr std::size_t kLogLevelBytesMax = 1024;
// Members of a shard's status that tell of memory.
constexpr std::array<std::string_view, 8> kPlanMembers{"weight_bytes",
                                                       "weights",
                                                       "kv_bytes",
                                                       "kv_tokens",
                                                       "workspace_bytes",
                                                       "draft_bytes",
                                                       "reserve_bytes",
                                                       "huge_page_bytes"};

json::Value count(std::uint64_t n) {
  return json::Value::unsigned_integer(n);
}

json::Value text_or_null(const std::string& text) {
  return text.empty() ? json::Value() : json::Value(text);
}

// In the order of KvGroup::Kind.
constexpr std::array<std::string_view, 4> kKindNames{"full", "window", "latent", "state"};

json::Value groups_of(const RunnerInfo& info) {
  json::Array out;
  for (const KvGroup& group : info.kv_groups) {
    json::Object one;
    one.append_new("kind", std::string(kKindNames[static_cast<std::size_t>(group.kind)]));
    one.append_new("dtype", group.dtype);
    one.append_new("layers", count(group.layers.size()));
    one.append_new("blocks", count(group.n_blocks));
    one.append_new("bytes_per_block", count(group.bytes_per_block));
    out.emplace_back(std::move(one));
  }
  return json::Value(std::move(out));
}

json::Value tier_of(std::uint64_t blocks, std::uint64_t bytes, std::uint64_t bytes_max) {
  json::Object out;
  out.append_new("blocks", count(blocks));
  out.append_new("bytes", count(bytes));
  out.append_new("bytes_max", count(bytes_max));
  return json::Value(std::move(out));
}

json::Value plan_of(const json::Value& status) {
  if (!status.is_object()) return {};
  json::Object out;
  for (const std::string_view name : kPlanMembers)
    if (const json::Value* member = status.find(name)) out.append_new(std::string(name), *member);
  return json::Value(std::move(out));
}

}  // namespace

json::Value requests_document(const std::vector<router::OpenRequest>& requests,
                              const std::vector<fleet::RequestPlace>& places,
                              TimePoint now) {
  std::unordered_map<std::uint64_t, const fleet::RequestPlace*> by_id;
  for (const fleet::RequestPlace& place : places)
    by_id.emplace(static_cast<std::uint64_t>(place.id), &place);
  json::Array all;
  for (const router::OpenRequest& request : requests) {
    std::string state = "ending";
    std::vector<std::size_t> replicas;
    for (const RequestId id : request.requests) {
      const auto found = by_id.find(static_cast<std::uint64_t>(id));
      if (found == by_id.end()) continue;
      if (state != "running") state = found->second->running ? "running" : "queued";
      replicas.insert(
          replicas.end(), found->second->replicas.begin(), found->second->replicas.end());
    }
    std::ranges::sort(replicas);
    const auto [first, last] = std::ranges::unique(replicas);
    replicas.erase(first, last);
    json::Array numbers;
    for (const std::size_t replica : replicas) numbers.push_back(count(replica));
    const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - request.received);
    json::Object one;
    one.append_new("id", request.request_id);
    one.append_new("answer_id", text_or_null(request.answer_id));
    one.append_new("route", request.path);
    one.append_new("key", text_or_null(request.key_name));
    one.append_new("age_ms",
                   count(static_cast<std::uint64_t>(std::max<std::int64_t>(age.count(), 0))));
    one.append_new("state", state);
    one.append_new("replicas", json::Value(std::move(numbers)));
    one.append_new("prompt_tokens", count(request.prompt_tokens));
    one.append_new("generated_tokens", count(request.generated_tokens));
    all.emplace_back(std::move(one));
  }
  json::Object out;
  out.append_new("requests", json::Value(std::move(all)));
  return json::Value(std::move(out));
}

json::Value memory_document(const std::vector<ReplicaMemory>& replicas) {
  json::Array all;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const ReplicaMemory& replica = replicas[i];
    const batch::EngineStats& stats = replica.stats;
    json::Object blocks;
    blocks.append_new("total", count(stats.blocks_total));
    blocks.append_new("free", count(stats.blocks_free));
    blocks.append_new("cached", count(stats.blocks_cached));
    blocks.append_new("leased", count(stats.blocks_leased));
    blocks.append_new("retiring", count(stats.blocks_retiring));
    json::Object kv;
    kv.append_new("block_tokens", count(replica.info.block_tokens));
    kv.append_new("groups", groups_of(replica.info));
    kv.append_new("blocks", json::Value(std::move(blocks)));
    json::Object tiers;
    tiers.append_new(
        "memory",
        tier_of(
            stats.tier.memory_blocks_held, stats.tier.memory_bytes_held, replica.host_bytes_max));
    tiers.append_new(
        "files", tier_of(stats.tier.blocks_held, stats.tier.bytes_held, replica.file_bytes_max));
    json::Object one;
    one.append_new("replica", count(i));
    one.append_new("dtype", replica.info.dtype);
    one.append_new("plan", plan_of(replica.status));
    one.append_new("kv", json::Value(std::move(kv)));
    one.append_new("tiers", json::Value(std::move(tiers)));
    all.emplace_back(std::move(one));
  }
  json::Object out;
  out.append_new("replicas", json::Value(std::move(all)));
  return json::Value(std::move(out));
}

Result<std::string> read_log_level(std::string_view body) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value document, json::parse(body));
  if (!document.is_object())
    return invalid_argument("the document must be an object with `log_level`");
  for (const auto& [name, value] : document.as_object()) {
    if (name != kLogLevel)
      return invalid_argument("`" + api::echo(name) + "` is no member: only `log_level` is", name);
  }
  const json::Value* given = document.find(kLogLevel);
  const std::string field(kLogLevel);
  if (given == nullptr) return invalid_argument("`log_level` is missing", field);
  if (!given->is_string()) {
    return invalid_argument("`log_level` must be a text. Given: " + api::echo(json::write(*given)),
                            field);
  }
  const std::string& directives = given->as_string();
  if (directives.size() > kLogLevelBytesMax) {
    return invalid_argument("`log_level` must have at most " + std::to_string(kLogLevelBytesMax) +
                                " bytes. Given: " + std::to_string(directives.size()),
                            field);
  }
  if (const LogLevel level = log_level_of(directives, kRouterLogTarget); !level.warning.empty())
    return invalid_argument("`log_level`: " + level.warning, field);
  return directives;
}

json::Value log_level_document(const std::string& directives) {
  json::Object out;
  out.append_new(std::string(kLogLevel), directives);
  out.append_new("target", std::string(kRouterLogTarget));
  out.append_new("level", std::string(name_of(log_level_of(directives, kRouterLogTarget).level)));
  out.append_new("not_reached",
                 json::Value(json::Array{"text_generation_launcher", "text-generation-server"}));
  return json::Value(std::move(out));
}

}  // namespace coxswain::serve
