#include "openapi/description.h"

#include <algorithm>
#include <utility>

#include "openapi/families.h"

namespace coxswain::openapi {

const Member* Object::find(std::string_view member) const {
  const auto found = std::ranges::find(members, member, &Member::name);
  return found == members.end() ? nullptr : &*found;
}

void Description::begin_family(std::string_view name, std::string_view about) {
  families_.push_back({name, about});
}

void Description::add(Object object, Groups groups) {
  for (const std::span<const Member> group : groups)
    object.members.insert(object.members.end(), group.begin(), group.end());
  objects_.push_back(std::move(object));
}

void Description::request(std::string_view name,
                          Groups groups,
                          std::string_view about,
                          std::string_view smallest) {
  add({.name = name, .side = Object::Side::kRequest, .about = about, .smallest = smallest}, groups);
}

void Description::answer(std::string_view name, Groups groups, std::string_view about) {
  add({.name = name, .side = Object::Side::kAnswer, .about = about}, groups);
}

void Description::alias(std::string_view name,
                        Object::Side side,
                        std::string type,
                        std::string_view about) {
  objects_.push_back({.name = name, .side = side, .about = about, .type = std::move(type)});
}

void Description::operation(Operation operation) {
  operation.family = families_.back().name;
  operations_.push_back(std::move(operation));
}

const Object* Description::find(std::string_view object) const {
  const auto found = std::ranges::find(objects_, object, &Object::name);
  return found == objects_.end() ? nullptr : &*found;
}

Description describe(api::ApiStyle v1) {
  Description out;
  describe_parts(out, v1);
  describe_native(out);
  describe_openai(out, v1);
  describe_responses(out);
  describe_messages(out);
  describe_ollama(out);
  describe_kserve(out);
  describe_server(out);
  return out;
}

}  // namespace coxswain::openapi
