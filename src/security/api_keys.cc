#include "security/api_keys.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/keyed_hash.h"
#include "base/utf8.h"

namespace coxswain::security {
namespace {

constexpr std::size_t kKeysMax = 10'000;
constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kKeyBytesMax = 1'024;
constexpr std::size_t kSaltBytesMax = 256;
constexpr std::size_t kShownBytesMax = 64;
constexpr std::uint64_t kLimitMax = 1'000'000;
constexpr std::array<std::string_view, 5> kMembers{
    "name", "key", "requests_per_minute", "concurrent_requests", "cache_salt"};

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}
// What a header can carry as one word.
bool is_key_byte(char c) {
  return c > ' ' && c < '\x7f';
}
bool is_any_byte(char) {
  return true;
}

// The members of one entry, which `where` names.
class Entry {
 public:
  Entry(const json::Value& value, std::string where) : value_(value), where_(std::move(where)) {}

  Result<ApiKey> read() const {
    if (!value_.is_object()) return invalid_argument("`" + where_ + "` must be an object");
    for (const auto& [name, value] : value_.as_object()) {
      if (std::find(kMembers.begin(), kMembers.end(), name) == kMembers.end())
        return invalid_argument("`" + where_ + "." +
                                std::string(base::cut_utf8(name, kShownBytesMax)) +
                                "` is no member of a key");
    }
    ApiKey out;
    COXSWAIN_ASSIGN_OR_RETURN(
        out.name, text("name", kNameBytesMax, is_name_byte, "letters, digits, `.`, `_` and `-`"));
    COXSWAIN_ASSIGN_OR_RETURN(
        out.key, text("key", kKeyBytesMax, is_key_byte, "printable ASCII without blanks"));
    COXSWAIN_ASSIGN_OR_RETURN(out.requests_per_minute, limit("requests_per_minute"));
    COXSWAIN_ASSIGN_OR_RETURN(out.concurrent_requests, limit("concurrent_requests"));
    if (has("cache_salt")) {
      COXSWAIN_ASSIGN_OR_RETURN(out.cache_salt,
                                text("cache_salt", kSaltBytesMax, is_any_byte, "text"));
    }
    return out;
  }

 private:
  bool has(std::string_view name) const {
    const json::Value* value = value_.find(name);
    return value != nullptr && !value->is_null();
  }
  Status wrong(std::string_view name, const std::string& must) const {
    return invalid_argument("`" + where_ + "." + std::string(name) + "` must be " + must);
  }
  Result<std::string> text(std::string_view name,
                           std::size_t bytes_max,
                           bool (*allowed)(char),
                           std::string_view of) const {
    const json::Value* value = value_.find(name);
    if (value == nullptr || !value->is_string() || value->as_string().empty() ||
        value->as_string().size() > bytes_max ||
        !std::all_of(value->as_string().begin(), value->as_string().end(), allowed)) {
      return wrong(name, "1 to " + std::to_string(bytes_max) + " bytes of " + std::string(of));
    }
    return value->as_string();
  }
  Result<std::optional<std::uint64_t>> limit(std::string_view name) const {
    if (!has(name)) return std::optional<std::uint64_t>();
    const auto number = value_.find(name)->to_uint64();
    if (!number || *number == 0 || *number > kLimitMax)
      return wrong(name, "an integer from 1 to " + std::to_string(kLimitMax));
    return number;
  }

  const json::Value& value_;
  const std::string where_;
};

}  // namespace

Result<std::vector<ApiKey>> parse_api_keys(const json::Value& document) {
  if (!document.is_array()) return invalid_argument("the keys must be an array of objects");
  const json::Array& entries = document.as_array();
  if (entries.size() > kKeysMax) {
    return invalid_argument("there may be " + std::to_string(kKeysMax) + " keys, here are " +
                            std::to_string(entries.size()));
  }
  std::vector<ApiKey> out;
  std::unordered_map<std::string, std::string, base::KeyedHash> names;
  std::unordered_map<std::string, std::string, base::KeyedHash> keys;
  for (const json::Value& value : entries) {
    const std::string where = "[" + std::to_string(out.size()) + "]";
    COXSWAIN_ASSIGN_OR_RETURN(ApiKey key, Entry(value, where).read());
    if (const auto [first, is_new] = names.emplace(key.name, where); !is_new) {
      return invalid_argument("`" + where + ".name` is that of `" + first->second +
                              "`: " + key.name);
    }
    if (const auto [first, is_new] = keys.emplace(key.key, where); !is_new)
      return invalid_argument("`" + where + ".key` is that of `" + first->second + "`");
    out.push_back(std::move(key));
  }
  return out;
}

Status check_beside(const std::vector<ApiKey>& keys, const ApiKey& own) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string where = "`[" + std::to_string(i) + "].";
    if (keys[i].name == own.name)
      return invalid_argument(where + "name` is the name of --api-key: " + keys[i].name);
    if (keys[i].key == own.key) return invalid_argument(where + "key` is that of --api-key");
  }
  return {};
}

Result<std::vector<ApiKey>> read_api_keys(const std::string& path, const ApiKey* own) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value document, json::parse_file(path, kApiKeysBytesMax));
  auto keys = parse_api_keys(document);
  if (!keys.ok()) return keys.status().with_context(path);
  if (own != nullptr) {
    if (const Status beside = check_beside(*keys, *own); !beside.ok())
      return beside.with_context(path);
  }
  return keys;
}

}  // namespace coxswain::security
