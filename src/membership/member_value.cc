#include "membership/member_value.h"

#include "json/json.h"

namespace coxswain::membership {
namespace {

constexpr json::ParseLimits kLimits{.depth_max = 8};

// Empty if it is not there. Errors: kInvalidArgument if it is no text.
Result<std::string> text_of(const json::Value& object, const char* field) {
  const json::Value* value = object.find(field);
  if (value == nullptr) return std::string();
  if (value->is_string()) return value->as_string();
  return invalid_argument("`" + std::string(field) + "` must be a text", field);
}

}  // namespace

std::string write_member(const Member& member) {
  json::Object out;
  out.set("address", member.address);
  out.set("role", name_of(member.role));
  out.set("incarnation", member.incarnation);
  return json::write(out);
}

Result<Member> read_member(std::string name, std::string_view value) {
  if (name.empty()) return invalid_argument("`name` of a member must not be empty", "name");
  const Result<json::Value> read = json::parse(value, kLimits);
  if (!read.ok()) return read.status();
  if (!read.value().is_object()) return invalid_argument("a member must be a JSON object");
  Result<std::string> address = text_of(read.value(), "address");
  Result<std::string> role = text_of(read.value(), "role");
  Result<std::string> incarnation = text_of(read.value(), "incarnation");
  for (const auto* text : {&address, &role, &incarnation}) {
    if (!text->ok()) return text->status();
  }
  Member out{.name = std::move(name),
             .address = std::move(address).value(),
             .incarnation = std::move(incarnation).value()};
  if (Status status = check_address(out.address); !status.ok()) return status;
  if (role.value().empty()) return out;
  const Result<Role> known = parse_role(role.value());
  if (!known.ok()) return known.status();
  out.role = known.value();
  return out;
}

}  // namespace coxswain::membership
