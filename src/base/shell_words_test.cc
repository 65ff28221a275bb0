#include "base/shell_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ShellWords, AreReadAsAShellReadsThem) {
  EXPECT_THAT(shell_words("a  b\\\n  c # d\n'e f'\"g\" ''"),
              ElementsAre("a", "b", "c", "e fg", ""));
  EXPECT_THAT(shell_words(R"("a\"\b" 'c\' d\ e f#g)"), ElementsAre("a\"\\b", "c\\", "d e", "f#g"));
  EXPECT_THAT(shell_words(" \n# a"), IsEmpty());
  EXPECT_THAT(shell_words("'a b"), ElementsAre("a b"));
}

TEST(ShellWords, AreQuotedWhereTheyNeedIt) {
  EXPECT_EQ(shell_quoted("--a=b/c:1"), "--a=b/c:1");
  for (const char* word : {"", "a b", "it's", "$x", "\"", "\\", "a\nb", "*"})
    EXPECT_THAT(shell_words(shell_quoted(word)), ElementsAre(word));
}

}  // namespace
}  // namespace coxswain::base
