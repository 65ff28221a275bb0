#include "membership/etcd_client.h"

#include <charconv>

namespace coxswain::membership {
namespace {

constexpr std::chrono::milliseconds kPatience{5'000};
constexpr json::ParseLimits kLimits{.depth_max = 16};

constexpr int kUnauthenticated = 401;

bool is_elsewhere_perhaps(int status) {
  return status >= 500;
}

// What etcd says: {"error": "...", "code": 14, "message": "..."}, or {"error": {"message": "..."}} within a stream.
std::string words_of(const json::Value& answer) {
  const json::Value* error = answer.find("error");
  if (error != nullptr && error->is_object()) error = error->find("message");
  if (error != nullptr && error->is_string()) return error->as_string();
  return "no reason given";
}

std::string words_of(const HttpAnswer& answer) {
  const Result<json::Value> read = json::parse(answer.body, kLimits);
  return "etcd answers " + std::to_string(answer.status) +
         (read.ok() ? ": " + words_of(read.value()) : std::string());
}

}  // namespace

std::int64_t int64_of(const json::Value* value) {
  if (value == nullptr) return 0;
  if (!value->is_string()) return value->to_int64().value_or(0);
  const std::string& text = value->as_string();
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? out : 0;
}

EtcdClient::EtcdClient(const EtcdOptions& options) : options_(options), http_(options.tls) {}

HttpRequest EtcdClient::request(std::string_view path, const json::Value& body) const {
  // A member that lost its cluster says so instead of showing what it had.
  HttpRequest out{.url = options_.endpoints[at_] + std::string(path),
                  .body = json::write(body),
                  .headers = {"Grpc-Metadata-hasleader: true"}};
  if (!token_.empty()) out.headers.push_back("Authorization: " + token_);
  return out;
}

Result<HttpAnswer> EtcdClient::ask_in_turn(std::string_view path, const json::Value& body) {
  Status last;
  for (std::size_t i = 0; i < options_.endpoints.size(); ++i) {
    Result<HttpAnswer> answer = http_.ask(request(path, body), kPatience);
    if (answer.ok() && !is_elsewhere_perhaps(answer.value().status)) return answer;
    if (!answer.ok() && answer.status().code() != Code::kUnavailable) return answer;
    last = (answer.ok() ? Status(Code::kUnavailable, words_of(answer.value())) : answer.status())
               .with_context(options_.endpoints[at_]);
    at_ = (at_ + 1) % options_.endpoints.size();
  }
  return last;
}

Status EtcdClient::authenticate() {
  token_.clear();
  json::Object body;
  body.set("name", options_.user);
  body.set("password", options_.password);
  const Result<HttpAnswer> answer = ask_in_turn("/v3/auth/authenticate", body);
  if (!answer.ok()) return answer.status();
  const Result<json::Value> read = json::parse(answer.value().body, kLimits);
  const json::Value* token = read.ok() ? read.value().find("token") : nullptr;
  if (answer.value().status != 200 || token == nullptr || !token->is_string())
    return {Code::kFailedPrecondition, "user " + options_.user + ": " + words_of(answer.value())};
  token_ = token->as_string();
  return {};
}

Result<json::Value> EtcdClient::call(std::string_view path, const json::Value& body) {
  if (!options_.user.empty() && token_.empty()) {
    if (Status status = authenticate(); !status.ok()) return status;
  }
  Result<HttpAnswer> answer = ask_in_turn(path, body);
  if (answer.ok() && answer.value().status == kUnauthenticated && !options_.user.empty()) {
    if (Status status = authenticate(); !status.ok()) return status;
    answer = ask_in_turn(path, body);
  }
  if (!answer.ok()) return answer.status();
  if (answer.value().status != 200)
    return Status(Code::kFailedPrecondition, words_of(answer.value()));
  Result<json::Value> read = json::parse(answer.value().body, kLimits);
  if (!read.ok()) return read.status().with_context(options_.endpoints[at_]);
  return read;
}

Status EtcdClient::follow(std::string_view path,
                          const json::Value& body,
                          const std::function<bool(const json::Value&)>& sink,
                          std::chrono::milliseconds lifetime) {
  Status wrong;
  const auto on_line = [&](std::string_view line) {
    const Result<json::Value> read = json::parse(line, kLimits);
    if (!read.ok()) {
      wrong = read.status();
      return false;
    }
    if (const json::Value* result = read.value().find("result"); result != nullptr)
      return sink(*result);
    wrong = Status(Code::kUnavailable, "etcd ends the watch: " + words_of(read.value()));
    return false;
  };
  const Result<HttpAnswer> answer = http_.follow(request(path, body), on_line, lifetime);
  if (!answer.ok()) {
    wrong = answer.status();
  } else if (answer.value().status != 200) {
    wrong = Status(Code::kUnavailable, words_of(answer.value()));
  }
  if (wrong.ok() || wrong.code() == Code::kCancelled) return wrong;
  wrong = wrong.with_context(options_.endpoints[at_]);
  at_ = (at_ + 1) % options_.endpoints.size();
  return wrong;
}

}  // namespace coxswain::membership
