#include "http/accept.h"

#include <zlib.h>

#include <gtest/gtest.h>

namespace coxswain::http {
namespace {

TEST(Accept, EntriesHaveNamesQualitiesAndParameters) {
  const auto all = parse_accepted(
      "application/openmetrics-text;version=1.0.0;q=0.5, text/plain ; Version = 0.0.4;Q=0.25,*/*");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "application/openmetrics-text");
  EXPECT_EQ(all[0].quality, 0.5);
  EXPECT_EQ(all[0].parameter("version"), "1.0.0");
  EXPECT_EQ(all[1].name, "text/plain");
  EXPECT_EQ(all[1].quality, 0.25);
  EXPECT_EQ(all[1].parameter("version"), "0.0.4");
  EXPECT_EQ(all[2].name, "*/*");
  EXPECT_EQ(all[2].quality, 1);
  EXPECT_EQ(all[2].parameter("version"), "");
}

TEST(Accept, WhatCannotBeReadIsLeftOut) {
  for (const char* text : {"", ",", " , ;q=1", "a;q=2", "a;q=-1", "a;q=", "a;q=x", "a;q=0.5x"})
    EXPECT_TRUE(parse_accepted(text).empty()) << text;
  EXPECT_EQ(parse_accepted("a;q=nan,b").size(), 1U);
}

TEST(Accept, GzipIsAskedForByName) {
  for (const char* text : {"gzip", "deflate, GZIP;q=0.5", "*", "br, *;q=0.1"})
    EXPECT_TRUE(accepts_gzip(text)) << text;
  for (const char* text : {"", "identity", "gzip;q=0", "*;q=0", "gzip;q=0, *", "xgzip"})
    EXPECT_FALSE(accepts_gzip(text)) << text;
}

TEST(Accept, WhatIsGzippedComesBack) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{500'000}}) {
    std::string text;
    for (std::size_t i = 0; text.size() < n; ++i) text += std::to_string(i * 7919) + "\n";
    text.resize(n);
    const std::string packed = gzipped(text);
    EXPECT_LT(packed.size(), n / 2 + 64);
    z_stream stream{};
    ASSERT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);  // gzip alone
    std::string back(n + 1, '\0');
    std::string in = packed;
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(back.data());
    stream.avail_out = static_cast<uInt>(back.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    back.resize(stream.total_out);
    inflateEnd(&stream);
    EXPECT_EQ(back, text);
  }
}

}  // namespace
}  // namespace coxswain::http
