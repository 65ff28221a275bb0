#include "membership/endpoint_table.h"

#include <optional>

namespace coxswain::membership {
namespace {

std::string_view text_at(const json::Value* object, const char* field) {
  const json::Value* value = object == nullptr ? nullptr : object->find(field);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string())
                                                : std::string_view();
}

bool truth_at(const json::Value* object, const char* field, bool otherwise) {
  const json::Value* value = object == nullptr ? nullptr : object->find(field);
  return value != nullptr && value->is_bool() ? value->as_bool() : otherwise;
}

const json::Array& array_at(const json::Value& object, const char* field) {
  static const json::Array k_none;
  const json::Value* value = object.find(field);
  return value != nullptr && value->is_array() ? value->as_array() : k_none;
}

std::string name_of_slice(const json::Value& slice) {
  return std::string(text_at(slice.find("metadata"), "name"));
}

// Unknown counts as ready, as the API has it. A pod that ends is told as ready where its Service publishes all
// addresses; it gets no new work either.
bool is_ready(const json::Value& endpoint) {
  const json::Value* conditions = endpoint.find("conditions");
  return truth_at(conditions, "ready", true) && !truth_at(conditions, "terminating", false);
}

// Empty if there is none of this name; of an empty name, if there is not exactly one.
std::optional<std::int64_t> port_of(const json::Value& slice, std::string_view name) {
  const json::Array& ports = array_at(slice, "ports");
  if (name.empty() && ports.size() != 1) return std::nullopt;
  for (const json::Value& port : ports) {
    const json::Value* number = port.find("port");
    if ((name.empty() || text_at(&port, "name") == name) && number != nullptr)
      return number->to_int64();
  }
  return std::nullopt;
}

Member member_of(const json::Value& endpoint, const std::string& address) {
  const json::Value* target = endpoint.find("targetRef");
  Member out{.name = address, .address = address, .incarnation = address};
  if (text_at(target, "kind") != "Pod" || text_at(target, "name").empty()) return out;
  out.name = text_at(target, "name");
  out.incarnation = text_at(target, "uid");
  return out;
}

}  // namespace

EndpointTable::Slice EndpointTable::read(const json::Value& slice) const {
  Slice out;
  const json::Value* metadata = slice.find("metadata");
  const json::Value* labels = metadata == nullptr ? nullptr : metadata->find("labels");
  const auto service = services_.find(text_at(labels, "kubernetes.io/service-name"));
  if (service == services_.end()) return out;
  const std::optional<std::int64_t> port = port_of(slice, port_);
  const bool is_v6 = text_at(&slice, "addressType") == "IPv6";
  for (const json::Value& endpoint : array_at(slice, "endpoints")) {
    const json::Array& addresses = array_at(endpoint, "addresses");
    if (!is_ready(endpoint) || addresses.empty() || !addresses.front().is_string()) continue;
    const std::string& host = addresses.front().as_string();
    Status wrong;
    if (!port) {
      wrong = invalid_argument(port_.empty() ? "the Service must have one port, or its port a name"
                                             : "the Service has no port of the name " + port_,
                               "port");
    } else {
      const std::string address = (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(*port);
      wrong = check_address(address);
      if (wrong.ok()) {
        Entry entry{.member = member_of(endpoint, address), .is_v6 = is_v6};
        entry.member.role = service->second;
        out.entries.push_back(std::move(entry));
        continue;
      }
    }
    ++out.n_refused;
    out.why = wrong.with_context("EndpointSlice " + name_of_slice(slice));
  }
  return out;
}

void EndpointTable::put(const json::Value& slice) {
  slices_[name_of_slice(slice)] = read(slice);
}

void EndpointTable::erase(const json::Value& slice) {
  slices_.erase(name_of_slice(slice));
}

EndpointTable::View EndpointTable::view() const {
  View out;
  std::map<std::string, const Entry*> by_name;
  for (const auto& [name, slice] : slices_) {
    out.n_refused += slice.n_refused;
    if (slice.n_refused > 0) out.why = slice.why;
    for (const Entry& entry : slice.entries) {
      const Entry*& kept = by_name[entry.member.name];
      if (kept == nullptr || (kept->is_v6 && !entry.is_v6)) kept = &entry;
    }
  }
  for (const auto& [name, entry] : by_name) out.members.push_back(entry->member);
  return out;
}

}  // namespace coxswain::membership
