#include "serve/log_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using telemetry::Level;
using ::testing::HasSubstr;

Level of_router(std::string_view directives) {
  const LogLevel out = log_level_of(directives, "text_generation_router");
  EXPECT_EQ(out.warning, "") << directives;
  return out.level;
}

TEST(LogLevel, ALevelAloneHoldsForAll) {
  EXPECT_EQ(of_router("debug"), Level::kDebug);
  EXPECT_EQ(of_router("WARN"), Level::kWarn);
  EXPECT_EQ(of_router("off"), Level::kOff);
  EXPECT_EQ(of_router(""), Level::kInfo);
}

TEST(LogLevel, TheLongestDirectiveThatFitsHolds) {
  EXPECT_EQ(of_router("text_generation_router=debug"), Level::kDebug);
  EXPECT_EQ(of_router("text_generation_launcher=debug"), Level::kInfo);
  EXPECT_EQ(of_router("error,text_generation_router=debug"), Level::kDebug);
  EXPECT_EQ(of_router("text_generation_router=debug, error"), Level::kDebug);
  EXPECT_EQ(of_router("text_generation=warn,text_generation_router=trace,hyper=off"),
            Level::kTrace);
  EXPECT_EQ(of_router("text_generation_router"), Level::kTrace);
  EXPECT_EQ(of_router("info,,tower_http=debug"), Level::kInfo);
}

TEST(LogLevel, WhatCannotBeReadIsNamed) {
  for (const char* wrong : {"inof", "debug,inof", "inof,debug", "debug,hyper=inof"}) {
    EXPECT_THAT(log_level_of(wrong, "text_generation_router").warning,
                HasSubstr("inof` has no effect"))
        << wrong;
  }
  EXPECT_EQ(log_level_of("debug,inof", "text_generation_router").level, Level::kDebug);
  EXPECT_EQ(log_level_of("inof", "text_generation_router").level, Level::kInfo);
}

TEST(LogLevel, NamesAreThoseOfTheOption) {
  EXPECT_EQ(name_of(Level::kTrace), "trace");
  EXPECT_EQ(name_of(Level::kOff), "off");
}

}  // namespace
}  // namespace coxswain::serve
