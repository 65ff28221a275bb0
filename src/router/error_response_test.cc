#include "router/error_response.h"

#include <gtest/gtest.h>

namespace coxswain::router {
namespace {

TEST(ErrorResponse, WaitingHelpsOnlyWhereSaid) {
  auto retry = [](ErrorKind kind) {
    const http::Response response =
        error_response(api::ApiStyle::kNative, Status(Code::kInternal, kind, "x"));
    for (const auto& [name, value] : response.headers) {
      if (name == "retry-after") return value;
    }
    return std::string();
  };
  EXPECT_EQ(retry(ErrorKind::kOverloaded), "1");
  EXPECT_EQ(retry(ErrorKind::kUnavailable), "1");
  EXPECT_EQ(retry(ErrorKind::kQueueTimeout), "1");
  EXPECT_EQ(retry(ErrorKind::kValidation), "");
}

}  // namespace
}  // namespace coxswain::router
