#pragma once
// EtcdClient: calls of etcd's JSON gateway, at whichever endpoint answers, with a token where there is a user.
//
// Thread rule: as HttpClient.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "json/json.h"
#include "membership/etcd.h"

namespace coxswain::membership {

class EtcdClient {
 public:
  explicit EtcdClient(const EtcdOptions& options);

  // `path` begins with /v3/. Asks each endpoint once, beginning with the one that answered last; a token that is no
  // longer known is replaced. Errors: kUnavailable if none answers; kFailedPrecondition if etcd refuses.
  Result<json::Value> call(std::string_view path, const json::Value& body);

  // The "result" objects of a stream, from the endpoint that answered last; false ends it. Ok if the stream came to its
  // end. After a failure the next call begins with another endpoint.
  Status follow(std::string_view path,
                const json::Value& body,
                const std::function<bool(const json::Value&)>& sink,
                std::chrono::milliseconds lifetime);

  HttpClient& http() { return http_; }

 private:
  HttpRequest request(std::string_view path, const json::Value& body) const;
  Result<HttpAnswer> ask_in_turn(std::string_view path, const json::Value& body);
  Status authenticate();

  const EtcdOptions options_;
  HttpClient http_;
  std::size_t at_ = 0;  // of the endpoints
  std::string token_;
};

// Whole numbers, which the gateway writes as text; 0 where there is none.
std::int64_t int64_of(const json::Value* value);

}  // namespace coxswain::membership
