#include "base/base64.h"

#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

// RFC 4648, section 10.
TEST(Base64, WritesAndReadsTheVectorsOfTheRfc) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
  }
}

TEST(Base64, TakesEveryByte) {
  std::string all;
  for (int byte = 255; byte >= 0; --byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(decode_base64(encode_base64(all)), all);
}

TEST(Base64, ReadsWithoutPaddingAndNothingElse) {
  EXPECT_EQ(decode_base64("Zm8"), "fo");
  for (const char* bad : {"Z", "Zm8-", "Zm 8", "Z=g="}) EXPECT_FALSE(decode_base64(bad)) << bad;
}

}  // namespace
}  // namespace coxswain::base
