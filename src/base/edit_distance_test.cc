#include "base/edit_distance.h"

#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

TEST(EditDistance, CountsBytesThatDiffer) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "ac"), 1u);     // removed
  EXPECT_EQ(edit_distance("ac", "abc"), 1u);     // inserted
  EXPECT_EQ(edit_distance("abc", "axc"), 1u);    // replaced
  EXPECT_EQ(edit_distance("abcd", "acbd"), 1u);  // swapped
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

}  // namespace
}  // namespace coxswain::base
