#include "router/auth.h"

#include <gtest/gtest.h>

namespace coxswain::router {
namespace {

TEST(Auth, OpenRoutes) {
  for (const char* path : {"/",
                           "/health",
                           "/health/live",
                           "/ping",
                           "/info",
                           "/metrics",
                           "/models",
                           "/v1/models",
                           "/docs",
                           "/api-doc/openapi.json"}) {
    EXPECT_TRUE(is_open_route("GET", path, false)) << path;
    EXPECT_EQ(is_open_route("GET", path, true),
              std::string_view(path).starts_with("/health") || std::string_view(path) == "/ping")
        << path;
    EXPECT_FALSE(is_open_route("POST", path, false)) << path;
  }
  for (const char* path : {"/generate",
                           "/tokenize",
                           "/chat_tokenize",
                           "/v1/chat/completions",
                           "/v1/models/tiny",
                           "/health/"}) {
    EXPECT_FALSE(is_open_route("GET", path, false)) << path;
  }
}

}  // namespace
}  // namespace coxswain::router
