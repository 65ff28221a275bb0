#include "fleet/import/cluster_command.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "json/json.h"

namespace coxswain::fleet {
namespace {

enum class Trigger : std::uint8_t {
  kMutation,
  kPrefillUp,
  kDecodeUp,
  kNormalUp,
  kScaleDown,
  kNormalDown,
};

struct TriggerName {
  std::string_view name;
  Trigger trigger;
};
// The misspelt name is the one of the wire format.
constexpr std::array kTriggers{TriggerName{"TriggerMutation", Trigger::kMutation},
                               TriggerName{"TriggerPrefillUp", Trigger::kPrefillUp},
                               TriggerName{"TriggerDecodeUp", Trigger::kDecodeUp},
                               TriggerName{"TriggerNormalUp", Trigger::kNormalUp},
                               TriggerName{"TriggerScaleDown", Trigger::kScaleDown},
                               TriggerName{"TriggerNoramalDown", Trigger::kNormalDown},
                               TriggerName{"TriggerNormalDown", Trigger::kNormalDown}};

bool grows(Trigger trigger) {
  return trigger == Trigger::kPrefillUp || trigger == Trigger::kDecodeUp ||
         trigger == Trigger::kNormalUp;
}

Status only_members(const json::Value& value,
                    std::string_view what,
                    std::initializer_list<std::string_view> names) {
  if (!value.is_object()) return invalid_argument(std::string(what) + " must be an object");
  for (const auto& [name, member] : value.as_object()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return invalid_argument(std::string(what) + " has no member `" + name + "`", name);
    }
  }
  for (const std::string_view name : names) {
    if (value.find(name) == nullptr) {
      return invalid_argument(std::string(name) + " is missing in " + std::string(what),
                              std::string(name));
    }
  }
  return {};
}

Result<Trigger> read_trigger(const json::Value& type) {
  std::string known;
  for (const TriggerName& each : kTriggers) {
    if (type.is_string() && type.as_string() == each.name) return each.trigger;
    known.append(known.empty() ? "" : ", ").append(each.name);
  }
  return invalid_argument("type must be one of " + known + ", given " + json::write(type), "type");
}

// Ranks as replicas, each once, in order.
Result<std::vector<ReplicaId>> read_replicas(const json::Value& data,
                                             std::string_view name,
                                             const ClusterLayout& layout) {
  const json::Value& list = *data.find(name);
  if (!list.is_array())
    return invalid_argument(std::string(name) + " must be an array", std::string(name));
  std::vector<ReplicaId> out;
  for (const json::Value& index : list.as_array()) {
    const auto rank = index.to_uint64();
    const std::uint64_t n_ranks = std::uint64_t{layout.n_replicas} * layout.tensor_parallel;
    if (!rank || *rank >= n_ranks) {
      return invalid_argument(std::string(name) + " must hold numbers below " +
                                  std::to_string(n_ranks) + ", given " + json::write(index),
                              std::string(name));
    }
    const ReplicaId replica{static_cast<std::uint32_t>(*rank / layout.tensor_parallel)};
    if (std::find(out.begin(), out.end(), replica) == out.end()) out.push_back(replica);
  }
  if (out.empty())
    return invalid_argument(std::string(name) + " must not be empty", std::string(name));
  return out;
}

LoadSource from_peer(ReplicaId replica) {
  return {SourceTier::kPeer, {replica, 0}};
}

Event growth_of(Trigger trigger, ReplicaId old) {
  if (trigger == Trigger::kNormalUp) return Load{.role = Role::kMixed, .source = from_peer(old)};
  const auto verb =
      trigger == Trigger::kPrefillUp ? ManualVerb::kTransToNewPrefill : ManualVerb::kTransToDecode;
  return Manual{.verb = verb, .source = from_peer(old)};
}

Result<std::vector<ClusterCommand>> grow(Trigger trigger,
                                         const json::Value& data,
                                         const ClusterLayout& layout) {
  if (Status members = only_members(data, "data", {"old_stub_indices", "new_stub_indices"});
      !members.ok()) {
    return members;
  }
  auto olds = read_replicas(data, "old_stub_indices", layout);
  if (!olds.ok()) return olds.status();
  auto news = read_replicas(data, "new_stub_indices", layout);
  if (!news.ok()) return news.status();
  const std::vector<ReplicaId>& old = olds.value();
  if (trigger == Trigger::kPrefillUp && old.size() > news.value().size()) {
    return invalid_argument("old_stub_indices must not be more than new_stub_indices, given " +
                                std::to_string(old.size()) + " and " +
                                std::to_string(news.value().size()),
                            "old_stub_indices");
  }
  std::vector<ClusterCommand> out;
  for (std::size_t i = 0; i < news.value().size(); ++i) {
    const ReplicaId replica = news.value()[i];
    if (std::find(old.begin(), old.end(), replica) != old.end()) {
      return invalid_argument("a replica must not be both old and new", "new_stub_indices");
    }
    out.push_back({replica, growth_of(trigger, old[i % old.size()])});
  }
  for (std::size_t i = 0; trigger == Trigger::kPrefillUp && i < old.size(); ++i) {
    out.push_back(
        {old[i], Manual{.verb = ManualVerb::kTransToOldPrefill, .target = {news.value()[i], 0}}});
  }
  return out;
}

}  // namespace

Result<std::vector<ClusterCommand>> parse_cluster_command(std::string_view body,
                                                          const ClusterLayout& layout) {
  auto document = json::parse(body);
  if (!document.ok()) return document.status();
  if (Status members = only_members(document.value(), "the body", {"type", "data"});
      !members.ok()) {
    return members;
  }
  auto trigger = read_trigger(*document.value().find("type"));
  if (!trigger.ok()) return trigger.status();
  const json::Value& data = *document.value().find("data");
  if (grows(trigger.value())) return grow(trigger.value(), data, layout);
  if (Status members = only_members(data, "data", {"stub_indices"}); !members.ok()) return members;
  auto replicas = read_replicas(data, "stub_indices", layout);
  if (!replicas.ok()) return replicas.status();
  std::vector<ClusterCommand> out;
  for (const ReplicaId replica : replicas.value()) {
    if (trigger.value() == Trigger::kNormalDown) {
      out.push_back({replica, BeginDrain{layout.drain_deadline}});
      continue;
    }
    const bool mutates = trigger.value() == Trigger::kMutation;
    out.push_back({replica,
                   Manual{.verb = mutates ? ManualVerb::kTransToDecode : ManualVerb::kDeactivate,
                          .deadline = layout.drain_deadline}});
  }
  return out;
}

}  // namespace coxswain::fleet
