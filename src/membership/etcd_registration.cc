#include <algorithm>
#include <thread>
#include <utility>

#include "base/base64.h"
#include "base/mutex.h"
#include "base/thread_name.h"
#include "membership/backoff.h"
#include "membership/etcd_client.h"
#include "membership/member_value.h"

namespace coxswain::membership {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFarewell{2'000};

class EtcdRegistration final : public Registration {
 public:
  EtcdRegistration(EtcdOptions options,
                   const Member& member,
                   std::chrono::seconds ttl,
                   OnSource on_state)
      : options_(std::move(options)),
        key_(base::encode_base64(options_.prefix + "/" + member.name)),
        value_(base::encode_base64(write_member(member))),
        ttl_(ttl),
        on_state_(std::move(on_state)),
        client_(options_),
        thread_([this] {
          base::name_thread("lease");
          run();
        }) {}
  ~EtcdRegistration() override {
    client_.http().stop();
    thread_.join();
  }
  EtcdRegistration(const EtcdRegistration&) = delete;
  EtcdRegistration& operator=(const EtcdRegistration&) = delete;

  RegistrationStatus status() const override EXCLUDES(mu_) {
    const base::MutexLock lock(mu_);
    return status_;
  }

 private:
  void run() EXCLUDES(mu_) {
    Backoff backoff;
    milliseconds pause{0};
    while (client_.http().pause(pause)) {
      const Status status = lease_ == 0 ? enter() : renew();
      if (status.ok()) {
        backoff.reset();
        pause = lease_ == 0 ? milliseconds(0) : milliseconds(ttl_) / 3;
        continue;
      }
      pause = std::min(backoff.next(), milliseconds(ttl_) / 3);
      if (status.code() == Code::kCancelled) continue;
      {
        const base::MutexLock lock(mu_);
        ++status_.n_failures;
        status_.last_failure = status.message();
      }
      if (!std::exchange(is_told_ill_, true) && on_state_) on_state_(status);
    }
    leave();
  }

  // A lease, and the key under it.
  Status enter() EXCLUDES(mu_) {
    json::Object grant;
    grant.set("TTL", std::to_string(ttl_.count()));
    const Result<json::Value> granted = client_.call("/v3/lease/grant", grant);
    if (!granted.ok()) return granted.status();
    const std::int64_t lease = int64_of(granted.value().find("ID"));
    if (lease == 0) return {Code::kUnavailable, "etcd's lease has no ID"};
    json::Object put;
    put.set("key", key_);
    put.set("value", value_);
    put.set("lease", std::to_string(lease));
    if (const Result<json::Value> done = client_.call("/v3/kv/put", put); !done.ok())
      return done.status();  // the lease ends by itself
    lease_ = lease;
    {
      const base::MutexLock lock(mu_);
      status_.is_registered = true;
      ++status_.n_registered;
    }
    is_told_ill_ = false;
    if (on_state_) on_state_({});
    return {};
  }

  Status renew() EXCLUDES(mu_) {
    const Result<json::Value> renewed = client_.call("/v3/lease/keepalive", lease_body());
    if (!renewed.ok()) return renewed.status();
    const json::Value* result = renewed.value().find("result");
    if (result == nullptr) return {Code::kUnavailable, "etcd's answer to a renewal has no result"};
    if (int64_of(result->find("TTL")) > 0) return {};
    lease_ = 0;  // it has ended: the next turn enters anew
    const base::MutexLock lock(mu_);
    status_.is_registered = false;
    return {};
  }

  // The client has been stopped: another one says good-bye.
  void leave() {
    if (lease_ == 0) return;
    EtcdClient farewell(options_);
    std::thread limit([&] {
      farewell.http().pause(kFarewell);
      farewell.http().stop();
    });
    (void)farewell.call("/v3/lease/revoke", lease_body());
    farewell.http().stop();
    limit.join();
  }

  json::Object lease_body() const {
    json::Object out;
    out.set("ID", std::to_string(lease_));
    return out;
  }

  const EtcdOptions options_;
  const std::string key_;
  const std::string value_;
  const std::chrono::seconds ttl_;
  const OnSource on_state_;
  EtcdClient client_;
  // The thread's own.
  std::int64_t lease_ = 0;  // 0: none
  bool is_told_ill_ = false;

  mutable base::Mutex mu_;
  RegistrationStatus status_ GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Registration>> register_in_etcd(EtcdOptions options,
                                                       const Member& member,
                                                       std::chrono::seconds ttl,
                                                       OnSource on_state) {
  if (member.name.empty() || member.name.find('/') != std::string::npos)
    return invalid_argument(
        "`name` of a member must not be empty or have a slash. Given: " + member.name, "name");
  if (Status status = check_address(member.address); !status.ok()) return status;
  return std::unique_ptr<Registration>(
      std::make_unique<EtcdRegistration>(std::move(options), member, ttl, std::move(on_state)));
}

}  // namespace coxswain::membership
