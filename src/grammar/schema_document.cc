#include "grammar/schema_document.h"

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace coxswain::grammar {
namespace {

using json::Value;

std::pair<std::string_view, std::optional<std::string_view>> split_fragment(std::string_view uri) {
  const std::size_t hash = uri.find('#');
  if (hash == std::string_view::npos) return {uri, std::nullopt};
  return {uri.substr(0, hash), uri.substr(hash + 1)};
}

bool has_scheme(std::string_view uri) {
  const std::size_t end = uri.find_first_of(":/?#");
  return end != std::string_view::npos && end > 0 && uri[end] == ':';
}

// RFC 3986, section 5.2.4.
std::string remove_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  std::size_t at = 1;  // behind the first '/'
  for (;;) {
    const std::size_t end = path.find('/', at);
    const std::string_view part = path.substr(at, end == std::string_view::npos ? end : end - at);
    const bool is_last = end == std::string_view::npos;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
    if (is_last) {
      if (part == "." || part == "..") parts.push_back("");
      break;
    }
    at = end + 1;
  }
  std::string out;
  for (const std::string_view part : parts) out.append("/").append(part);
  return out;
}

// RFC 3986, section 5.2, of hierarchical bases. Neither has a fragment.
std::string resolve_uri(std::string_view base, std::string_view reference) {
  if (reference.empty()) return std::string(base);
  if (has_scheme(reference) || base.empty()) return std::string(reference);
  const std::size_t colon = has_scheme(base) ? base.find(':') : std::string_view::npos;
  std::size_t path = colon == std::string_view::npos ? 0 : colon + 1;
  if (reference.starts_with("//")) return std::string(base.substr(0, path)).append(reference);
  if (base.substr(path).starts_with("//")) path = std::min(base.find('/', path + 2), base.size());
  const std::string_view root = base.substr(0, path);
  if (reference.starts_with('/')) return std::string(root) + remove_dots(reference);
  const std::string_view base_path = base.substr(path, base.find('?', path) - path);
  const std::size_t slash = base_path.rfind('/');
  if (slash == std::string_view::npos) {
    return path == 0 ? std::string(reference)
                     : std::string(root) + remove_dots('/' + std::string(reference));
  }
  const std::string merged = std::string(base_path.substr(0, slash + 1)).append(reference);
  if (!merged.starts_with('/')) return std::string(root) + merged;
  return std::string(root) + remove_dots(merged);
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view hex = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    if (error != std::errc{} || end != hex.data() + 2) return std::nullopt;
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

std::string unescaped_part(std::string_view part) {
  std::string out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size()) {
      out += part[++i] == '1' ? '/' : '~';
    } else {
      out += part[i];
    }
  }
  return out;
}

const Value* part_of(const Value& value, std::string_view name) {
  if (value.is_object()) return value.find(name);
  if (!value.is_array()) return nullptr;
  std::size_t i = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), i);
  if (error != std::errc{} || end != name.data() + name.size()) return nullptr;
  return i < value.as_array().size() ? &value.as_array()[i] : nullptr;
}

// How often a value or what lies in it has a member of this key and text, in schemas or not.
std::size_t count_members(const Value& value, std::string_view key, std::string_view text) {
  std::size_t n = 0;
  if (value.is_array()) {
    for (const Value& element : value.as_array()) n += count_members(element, key, text);
  }
  if (!value.is_object()) return n;
  for (const auto& [name, member] : value.as_object()) {
    n += name == key && member.is_string() && member.as_string() == text ? 1 : 0;
    n += count_members(member, key, text);
  }
  return n;
}

// Keywords whose value is a schema or a list of them; and those whose members are.
constexpr std::string_view kSchemas[] = {"additionalItems",
                                         "additionalProperties",
                                         "allOf",
                                         "anyOf",
                                         "contains",
                                         "contentSchema",
                                         "else",
                                         "if",
                                         "items",
                                         "not",
                                         "oneOf",
                                         "prefixItems",
                                         "propertyNames",
                                         "then",
                                         "unevaluatedItems",
                                         "unevaluatedProperties"};
constexpr std::string_view kMaps[] = {
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"};

}  // namespace

std::string pointer_part(std::string_view name) {
  std::string out = "/";
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

SchemaDocument::SchemaDocument(const Value& root) {
  if (const Value* draft = root.find("$schema"); draft != nullptr && draft->is_string()) {
    const std::string& uri = draft->as_string();
    names_draft_ = true;
    is_draft4_ = uri.find("draft-04") != std::string::npos;
    is_draft7_ = is_draft4_ || uri.find("draft-06") != std::string::npos ||
                 uri.find("draft-07") != std::string::npos;
  }
  root_ = {.value = &root};
  const std::string id(split_fragment(id_of(root)).first);
  root_.base = id;
  resources_.emplace("", root_);
  index({.value = &root});
}

std::string_view SchemaDocument::id_of(const Value& schema) const {
  const Value* id = schema.find(is_draft4_ ? "id" : "$id");
  if (is_draft7_ && schema.find("$ref") != nullptr) return {};
  return id != nullptr && id->is_string() ? std::string_view(id->as_string()) : std::string_view();
}

SchemaPlace SchemaDocument::enter(SchemaPlace place) const {
  const std::string_view id = split_fragment(id_of(*place.value)).first;
  if (!id.empty()) place.base = resolve_uri(place.base, id);
  return place;
}

SchemaPlace SchemaDocument::child(const SchemaPlace& parent, std::string_view key) const {
  return enter({.value = part_of(*parent.value, key),
                .base = parent.base,
                .pointer = parent.pointer + pointer_part(key)});
}

SchemaPlace SchemaDocument::child(const SchemaPlace& parent,
                                  std::string_view key,
                                  std::string_view name) const {
  const SchemaPlace list{.value = part_of(*parent.value, key),
                         .base = parent.base,
                         .pointer = parent.pointer + pointer_part(key)};
  return enter({.value = part_of(*list.value, name),
                .base = list.base,
                .pointer = list.pointer + pointer_part(name)});
}

void SchemaDocument::index(const SchemaPlace& unentered) {
  if (!unentered.value->is_object()) return;
  const SchemaPlace place = enter(unentered);
  const std::string_view id = id_of(*place.value);
  const auto [uri, fragment] = split_fragment(id);
  if (!uri.empty()) resources_.emplace(place.base, place);
  if (fragment && !fragment->empty())
    anchors_.emplace(place.base + '#' + std::string(*fragment), place);
  for (const std::string_view key : {"$anchor", "$dynamicAnchor"}) {
    const Value* anchor = place.value->find(key);
    if (anchor != nullptr && anchor->is_string())
      anchors_.emplace(place.base + '#' + anchor->as_string(), place);
  }
  const auto unentered_child = [&](std::string_view key, std::string_view name) {
    const Value* list = place.value->find(key);
    return SchemaPlace{.value = name.empty() ? list : part_of(*list, name),
                       .base = place.base,
                       .pointer = place.pointer + pointer_part(key) +
                                  (name.empty() ? std::string() : pointer_part(name))};
  };
  for (const std::string_view key : kSchemas) {
    const Value* part = place.value->find(key);
    if (part == nullptr) continue;
    if (part->is_object()) index(unentered_child(key, {}));
    if (!part->is_array()) continue;
    for (std::size_t i = 0; i < part->as_array().size(); ++i)
      index(unentered_child(key, std::to_string(i)));
  }
  for (const std::string_view key : kMaps) {
    const Value* part = place.value->find(key);
    if (part == nullptr || !part->is_object()) continue;
    for (const auto& [name, schema] : part->as_object()) {
      index({.value = &schema,
             .base = place.base,
             .pointer = place.pointer + pointer_part(key) + pointer_part(name)});
    }
  }
}

Result<SchemaPlace> SchemaDocument::resolve(const SchemaPlace& from,
                                            std::string_view reference) const {
  const auto [path, fragment] = split_fragment(reference);
  const std::string uri = resolve_uri(from.base, path);
  const auto resource = resources_.find(uri);
  if (resource == resources_.end()) {
    return invalid_argument("'" + std::string(reference) +
                            "' leads out of the schema; only references within it are followed");
  }
  SchemaPlace place = resource->second;
  if (!fragment || fragment->empty()) return place;
  const auto decoded = percent_decoded(*fragment);
  const Status nothing = invalid_argument("'" + std::string(reference) + "' leads to nothing");
  if (!decoded) return nothing;
  if (!decoded->starts_with('/')) {
    const auto anchor = anchors_.find(place.base + '#' + *decoded);
    if (anchor == anchors_.end()) return nothing;
    return anchor->second;
  }
  for (std::size_t at = 1; at <= decoded->size();) {
    const std::size_t end = std::min(decoded->find('/', at), decoded->size());
    const std::string name = unescaped_part(std::string_view(*decoded).substr(at, end - at));
    const Value* part = part_of(*place.value, name);
    if (part == nullptr) return nothing;
    place.value = part;
    place.pointer += pointer_part(name);
    // A name that looks like $id but lies in no schema changes the base of what lies below it alone.
    place = enter(std::move(place));
    at = end + 1;
  }
  return place;
}

Result<std::optional<SchemaPlace>> SchemaDocument::resolve_dynamic(
    const SchemaPlace& from, std::string_view reference) const {
  constexpr std::string_view kAnchor = "$dynamicAnchor";
  COXSWAIN_ASSIGN_OR_RETURN(SchemaPlace place, resolve(from, reference));
  const auto fragment = split_fragment(reference).second;
  const Value* anchor = place.value->find(kAnchor);
  const bool is_dynamic = fragment && !fragment->empty() && !fragment->starts_with('/') &&
                          anchor != nullptr && anchor->is_string();
  // Others of the name might stand for it; any is counted, since each part may be referred to by a pointer.
  if (is_dynamic && count_members(*root_.value, kAnchor, anchor->as_string()) > 1)
    return std::optional<SchemaPlace>();
  return std::optional<SchemaPlace>(std::move(place));
}

}  // namespace coxswain::grammar
