#include <algorithm>
#include <map>

#include "base/base64.h"
#include "membership/etcd_client.h"
#include "membership/member_value.h"
#include "membership/watched_list.h"

namespace coxswain::membership {
namespace {

// A watch is made anew after so long, in case its end was lost on the way.
constexpr std::chrono::minutes kLifetime{10};

class EtcdList final : public ListWatch {
 public:
  explicit EtcdList(EtcdOptions options) : options_(std::move(options)), client_(options_) {}

  Status check() override { return {}; }
  bool pause(std::chrono::milliseconds time) override { return client_.http().pause(time); }
  void stop() override { client_.http().stop(); }

  // Always from a list: etcd may have come back with another past.
  Status follow(Finder& finder) override {
    const Result<json::Value> listed = client_.call("/v3/kv/range", range());
    if (!listed.ok()) return listed.status();
    const json::Value* header = listed.value().find("header");
    const std::int64_t revision = header == nullptr ? 0 : int64_of(header->find("revision"));
    if (revision == 0) return {Code::kUnavailable, "etcd's list has no revision"};
    values_.clear();
    if (const json::Value* kvs = listed.value().find("kvs"); kvs != nullptr && kvs->is_array()) {
      for (const json::Value& kv : kvs->as_array()) put(kv);
    }
    tell(finder);

    json::Object create = range();
    create.set("start_revision", std::to_string(revision + 1));
    json::Object body;
    body.set("create_request", std::move(create));
    Status end;
    const Status status = client_.follow(
        "/v3/watch",
        body,
        [&](const json::Value& result) {
          end = on_result(result, finder);
          return end.ok();
        },
        kLifetime);
    return end.ok() ? status : end;
  }

 private:
  json::Object range() const {
    json::Object out;
    out.set("key", base::encode_base64(options_.prefix + "/"));
    out.set("range_end", base::encode_base64(options_.prefix + "0"));  // '0' is what follows '/'
    return out;
  }

  Status on_result(const json::Value& result, Finder& finder) {
    if (const json::Value* canceled = result.find("canceled");
        canceled != nullptr && canceled->is_bool() && canceled->as_bool()) {
      const std::int64_t compacted = int64_of(result.find("compact_revision"));
      const json::Value* reason = result.find("cancel_reason");
      return {Code::kUnavailable,
              compacted > 0 ? "etcd has compacted what was to be watched, up to revision " +
                                  std::to_string(compacted)
                            : "etcd ends the watch: " + (reason != nullptr && reason->is_string()
                                                             ? reason->as_string()
                                                             : std::string("no reason given"))};
    }
    finder.on_standing();
    const json::Value* events = result.find("events");
    if (events == nullptr || !events->is_array()) return {};
    for (const json::Value& event : events->as_array()) {
      const json::Value* kv = event.find("kv");
      if (kv == nullptr) continue;
      const json::Value* type = event.find("type");  // PUT is the default, which is left out
      if (type != nullptr && type->is_string() && type->as_string() == "DELETE") {
        values_.erase(key_of(*kv));
      } else {
        put(*kv);
      }
    }
    tell(finder);
    return {};
  }

  static std::string bytes_of(const json::Value* text) {
    if (text == nullptr || !text->is_string()) return {};
    return base::decode_base64(text->as_string()).value_or("");
  }
  static std::string key_of(const json::Value& kv) { return bytes_of(kv.find("key")); }
  void put(const json::Value& kv) { values_[key_of(kv)] = bytes_of(kv.find("value")); }

  void tell(Finder& finder) const {
    Members members;
    std::uint64_t n_refused = 0;
    Status why;
    for (const auto& [key, value] : values_) {
      const std::size_t begin = std::min(options_.prefix.size() + 1, key.size());
      Result<Member> member = read_member(key.substr(begin), value);
      if (member.ok()) {
        members.push_back(std::move(member).value());
      } else {
        ++n_refused;
        why = member.status().with_context("key " + key);
      }
    }
    finder.on_list(std::move(members), n_refused, why);
  }

  const EtcdOptions options_;
  EtcdClient client_;
  std::map<std::string, std::string> values_;  // by key, so by name
};

}  // namespace

std::unique_ptr<Membership> make_etcd_membership(EtcdOptions options) {
  return make_watched_list(std::make_unique<EtcdList>(std::move(options)));
}

}  // namespace coxswain::membership
