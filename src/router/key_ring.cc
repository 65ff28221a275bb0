#include "router/key_ring.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/keyed_hash.h"
#include "http/syntax.h"

namespace coxswain::router {
namespace {

using std::chrono::nanoseconds;

constexpr std::string_view kScheme = "bearer";
// Of clients of Anthropic and of Azure.
constexpr std::array<std::string_view, 2> kKeyHeaders{"x-api-key", "api-key"};
constexpr nanoseconds kMinute = std::chrono::minutes(1);

// Looks at every byte of `given` whatever the first difference is. REQUIRES: a key.
bool equal_in_constant_time(std::string_view given, std::string_view key) {
  volatile unsigned difference = given.size() == key.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto expected = static_cast<unsigned char>(key[i % key.size()]);
    difference = difference | (static_cast<unsigned char>(given[i]) ^ expected);
  }
  return difference == 0U;
}

// The scheme is compared without case, one blank follows. Empty: no key.
std::string_view bearer_of(std::string_view authorization) {
  if (authorization.size() <= kScheme.size() || authorization[kScheme.size()] != ' ') return {};
  if (!http::equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return authorization.substr(kScheme.size() + 1);
}

nanoseconds interval_of(std::uint64_t per_minute) {
  return kMinute / static_cast<nanoseconds::rep>(per_minute);
}

Status limited(std::string text) {
  return Status(Code::kResourceExhausted, ErrorKind::kOverloaded, std::move(text)).as_whole_text();
}

HeldKeyPtr hold(ApiKey spec, std::shared_ptr<KeyMeter> meter = std::make_shared<KeyMeter>()) {
  return std::make_shared<const HeldKey>(HeldKey{std::move(spec), std::move(meter)});
}

json::Value number_or_null(std::optional<std::uint64_t> number) {
  return number ? json::Value::unsigned_integer(*number) : json::Value();
}

}  // namespace

Status KeyMeter::enter(const ApiKey& limits, TimePoint now, nanoseconds& retry_in) {
  base::MutexLock lock(mu_);
  retry_in = std::chrono::seconds(1);
  if (limits.concurrent_requests && counts_.running >= *limits.concurrent_requests) {
    ++counts_.refused;
    return limited("this key may have " + std::to_string(*limits.concurrent_requests) +
                   " requests at a time");
  }
  if (limits.requests_per_minute) {
    const nanoseconds interval = interval_of(*limits.requests_per_minute);
    const TimePoint full_at = std::max(full_at_, now) + interval;
    const nanoseconds all = interval * static_cast<nanoseconds::rep>(*limits.requests_per_minute);
    if (full_at - now > all) {
      ++counts_.refused;
      retry_in = full_at - now - all;
      return limited("this key may send " + std::to_string(*limits.requests_per_minute) +
                     " requests in a minute");
    }
    full_at_ = full_at;
  }
  ++counts_.accepted;
  ++counts_.running;
  return {};
}

void KeyMeter::leave() {
  base::MutexLock lock(mu_);
  --counts_.running;
}

std::optional<KeyRoom> KeyMeter::room(const ApiKey& limits, TimePoint now) const {
  base::MutexLock lock(mu_);
  if (limits.requests_per_minute) {
    const std::uint64_t limit = *limits.requests_per_minute;
    const nanoseconds used = std::max(full_at_ - now, nanoseconds(0));
    const nanoseconds interval = interval_of(limit);
    const auto n_used = static_cast<std::uint64_t>((used + interval - nanoseconds(1)) / interval);
    return KeyRoom{limit, limit - std::min(limit, n_used), used};
  }
  if (!limits.concurrent_requests) return std::nullopt;
  const std::uint64_t limit = *limits.concurrent_requests;
  return KeyRoom{limit, limit - std::min(limit, counts_.running), std::nullopt};
}

KeyCounts KeyMeter::counts() const {
  base::MutexLock lock(mu_);
  return counts_;
}

KeyRing::KeyRing(std::string api_key)
    : own_(api_key.empty() ? nullptr
                           : hold({.name = security::kOwnKeyName, .key = std::move(api_key)})) {
  if (own_) by_hash_.emplace(base::keyed_hash(own_->spec.key), own_);
}

Status KeyRing::replace(std::vector<ApiKey> keys) {
  if (own_) COXSWAIN_RETURN_IF_ERROR(security::check_beside(keys, own_->spec));
  base::MutexLock lock(mu_);
  std::unordered_map<std::string, std::shared_ptr<KeyMeter>, base::KeyedHash> meters;
  for (const HeldKeyPtr& old : keys_) meters.emplace(old->spec.name, old->meter);
  keys_.clear();
  by_hash_.clear();
  if (own_) by_hash_.emplace(base::keyed_hash(own_->spec.key), own_);
  for (ApiKey& key : keys) {
    const auto known = meters.find(key.name);
    auto meter = known == meters.end() ? std::make_shared<KeyMeter>() : known->second;
    keys_.push_back(hold(std::move(key), std::move(meter)));
    by_hash_.emplace(base::keyed_hash(keys_.back()->spec.key), keys_.back());
  }
  return {};
}

Status KeyRing::read(const std::string& path) {
  COXSWAIN_ASSIGN_OR_RETURN(std::vector<ApiKey> keys,
                            security::read_api_keys(path, own_ ? &own_->spec : nullptr));
  return replace(std::move(keys));
}

HeldKeyPtr KeyRing::find_key(std::string_view given) const {
  if (given.empty()) return nullptr;
  const std::size_t hash = base::keyed_hash(given);
  base::MutexLock lock(mu_);
  const auto [begin, end] = by_hash_.equal_range(hash);
  const auto found = std::find_if(begin, end, [&](const auto& entry) {
    return equal_in_constant_time(given, entry.second->spec.key);
  });
  return found == end ? nullptr : found->second;
}

HeldKeyPtr KeyRing::find(const http::Request& request) const {
  if (auto key = find_key(bearer_of(request.header("authorization")))) return key;
  for (const std::string_view header : kKeyHeaders)
    if (auto key = find_key(request.header(header))) return key;
  return nullptr;
}

std::vector<HeldKeyPtr> KeyRing::all() const {
  base::MutexLock lock(mu_);
  std::vector<HeldKeyPtr> out;
  if (own_) out.push_back(own_);
  out.insert(out.end(), keys_.begin(), keys_.end());
  return out;
}

std::string salt_of(const ApiKey& key, const std::string& asked) {
  if (key.cache_salt.empty() && asked.empty()) return {};
  return std::to_string(key.cache_salt.size()) + ":" + key.cache_salt + asked;
}

json::Value key_document(const KeyRing& ring) {
  json::Array keys;
  for (const HeldKeyPtr& key : ring.all()) {
    const KeyCounts counts = key->meter->counts();
    json::Object entry;
    entry.append_new("name", key->spec.name);
    entry.append_new("requests_per_minute", number_or_null(key->spec.requests_per_minute));
    entry.append_new("concurrent_requests", number_or_null(key->spec.concurrent_requests));
    entry.append_new("running", json::Value::unsigned_integer(counts.running));
    entry.append_new("accepted", json::Value::unsigned_integer(counts.accepted));
    entry.append_new("refused", json::Value::unsigned_integer(counts.refused));
    keys.emplace_back(std::move(entry));
  }
  json::Object out;
  out.append_new("keys", std::move(keys));
  return out;
}

}  // namespace coxswain::router
