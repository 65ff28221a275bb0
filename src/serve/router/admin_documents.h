#pragma once
// What the routes below /admin of --admin-listen tell, and what they read. docs/api.md has the members.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "batch/engine_stats.h"
#include "fleet/fleet.h"
#include "json/json.h"
#include "router/call.h"

namespace coxswain::serve {

// Requests that are queued or run, by the ids that cancel them. One that no engine owns any more is being answered.
json::Value requests_document(const std::vector<router::OpenRequest>& requests,
                              const std::vector<fleet::RequestPlace>& places,
                              TimePoint now);

// Of one replica.
struct ReplicaMemory {
  json::Value status;  // of its shard, as that wrote it (status_file.h); null: not to be had
  RunnerInfo info = {};
  batch::EngineStats stats = {};
  // What the tiers behind its KV cache may hold.
  std::uint64_t host_bytes_max = 0;
  std::uint64_t file_bytes_max = 0;
};
json::Value memory_document(const std::vector<ReplicaMemory>& replicas);

// The directives of a document {"log_level": TEXT}. Errors: those of json::parse(); kInvalidArgument with the field:
// another member, no text, a text that is too long, a directive that says nothing.
Result<std::string> read_log_level(std::string_view body);
// `directives` as they hold for this process, and where they do not hold.
json::Value log_level_document(const std::string& directives);

}  // namespace coxswain::serve
