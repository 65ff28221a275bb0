#pragma once
// Status and Result: how every failure travels, from the first outside byte to the last.
//
// A Status says three things: `code`, what our own code should do next; `kind`, what a client is told (a closed list
// that becomes an HTTP status in one table of `api` and a gRPC status in one of `rpc`); `message`, one sentence for a
// person that names the field, the limit and the value. `field` is the request field at fault, empty if there is none.
//
// Thread rule: values. Nothing here throws; reading value() of a failed Result aborts.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace coxswain {

enum class Code : std::uint8_t {
  kOk,
  kCancelled,
  kInvalidArgument,
  kNotFound,
  kFailedPrecondition,
  kResourceExhausted,  // a limit is reached; trying later can help
  kDeadlineExceeded,
  kUnavailable,  // a peer or runner is lost; its state is unknown
  kUnimplemented,
  kDataLoss,  // bytes of a file or peer are damaged
  kInternal,  // our own bug
};

// What a client is told. The order is part of the engine wire protocol: append only.
enum class ErrorKind : std::uint8_t {
  kNone,
  kInvalidJson,
  kValidation,
  kTemplateError,
  kToolError,
  kUnsupportedMediaType,
  kPayloadTooLarge,
  kHeadersTooLarge,
  kUriTooLong,
  kBadRequest,
  kTimeout,
  kNotFound,
  kMethodNotAllowed,
  kUnauthorized,
  kOverloaded,
  kUnavailable,
  kQueueTimeout,
  kGeneration,
  kIncompleteGeneration,
  kDeadline,
  kHealthcheck,
  kInternal,
  kContextLength,  // validation, below /v1: the prompt, or the prompt and its answer, do not fit into the context
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  Status(Code code, ErrorKind kind, std::string message, std::string field = {})
      : code_(code), kind_(kind), message_(std::move(message)), field_(std::move(field)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& field() const { return field_; }

  // The same failure seen from one level up: `context` + ": " + message.
  Status with_context(std::string_view context) const {
    Status out = *this;
    out.message_ = std::string(context) + ": " + message_;
    return out;
  }

  // The same failure, of which clients are told the message alone: no words of its kind are put in front of it.
  Status as_whole_text() const {
    Status out = *this;
    out.is_whole_text_ = true;
    return out;
  }
  bool is_whole_text() const { return is_whole_text_; }

  friend bool operator==(const Status&, const Status&) = default;

 private:
  Code code_ = Code::kOk;
  ErrorKind kind_ = ErrorKind::kNone;
  bool is_whole_text_ = false;
  std::string message_;
  std::string field_;
};

// Shorthands for the two failures that outside bytes cause most.
inline Status invalid_argument(std::string message, std::string field = {}) {
  return {Code::kInvalidArgument, ErrorKind::kValidation, std::move(message), std::move(field)};
}
inline Status internal_error(std::string message) {
  return {Code::kInternal, ErrorKind::kInternal, std::move(message)};
}

// A value or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : data_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Status status) : data_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (std::get<Status>(data_).ok()) abort_with("Result made from an ok Status without a value");
  }

  bool ok() const { return std::holds_alternative<T>(data_); }
  Status status() const { return ok() ? Status() : std::get<Status>(data_); }

  const T& value() const& {
    require_value();
    return std::get<T>(data_);
  }
  T& value() & {
    require_value();
    return std::get<T>(data_);
  }
  T value() && {
    require_value();
    return std::get<T>(std::move(data_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  [[noreturn]] static void abort_with(const char* what) {
    std::fprintf(stderr, "fatal: %s\n", what);
    std::abort();
  }
  void require_value() const {
    if (!ok()) abort_with(("Result has no value: " + std::get<Status>(data_).message()).c_str());
  }

  std::variant<Status, T> data_;
};

// Leaves the function with the failure of `expression`, a Status.
#define COXSWAIN_RETURN_IF_ERROR(expression)                                    \
  do {                                                                          \
    if (::coxswain::Status status_of_call = (expression); !status_of_call.ok()) \
      return status_of_call;                                                    \
  } while (false)

// COXSWAIN_ASSIGN_OR_RETURN(auto lease, pool.acquire(3));
#define COXSWAIN_ASSIGN_OR_RETURN(target, expression) \
  COXSWAIN_ASSIGN_OR_RETURN_IMPL(COXSWAIN_CONCAT(result_of_call_, __LINE__), target, expression)
#define COXSWAIN_CONCAT_INNER(a, b) a##b
#define COXSWAIN_CONCAT(a, b) COXSWAIN_CONCAT_INNER(a, b)
#define COXSWAIN_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return result.status();                        \
  target = std::move(result).value()

}  // namespace coxswain
