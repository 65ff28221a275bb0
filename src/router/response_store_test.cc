#include "router/response_store.h"

#include <string>

#include <gtest/gtest.h>

namespace coxswain::router {
namespace {

StoredResponse of_bytes(std::size_t n, char letter = 'd') {
  return {std::string(n, letter), "[]"};
}

TEST(ResponseStore, GivesBackWhatItKeeps) {
  ResponseStore store(10'000);
  EXPECT_TRUE(store.keeps());
  store.put("a", {"document", "[1]"});
  ASSERT_NE(store.find("a", ""), nullptr);
  EXPECT_EQ(store.find("a", "")->document, "document");
  EXPECT_EQ(store.find("a", "")->items, "[1]");
  EXPECT_EQ(store.find("b", ""), nullptr);
  EXPECT_TRUE(store.erase("a", ""));
  EXPECT_FALSE(store.erase("a", ""));
  EXPECT_EQ(store.find("a", ""), nullptr);
}

TEST(ResponseStore, WhatIsSomebodyElsesIsNotThere) {
  ResponseStore store(10'000);
  store.put("a", {.document = "alice's", .items = "[]", .owner = "alice"});
  store.put("b", {.document = "nobody's", .items = "[]"});
  for (const char* other : {"bob", ""}) {
    EXPECT_EQ(store.find("a", other), nullptr);
    EXPECT_FALSE(store.erase("a", other));
  }
  EXPECT_EQ(store.find("b", "alice"), nullptr);
  ASSERT_NE(store.find("a", "alice"), nullptr);
  EXPECT_EQ(store.find("a", "alice")->document, "alice's");
  EXPECT_TRUE(store.erase("a", "alice"));
  EXPECT_NE(store.find("b", ""), nullptr);
}

TEST(ResponseStore, TheLeastRecentlyUsedGoes) {
  ResponseStore store(5'000);
  store.put("a", of_bytes(1'500));
  store.put("b", of_bytes(1'500));
  EXPECT_NE(store.find("a", ""), nullptr);
  store.put("c", of_bytes(1'500));
  EXPECT_EQ(store.find("b", ""), nullptr);
  EXPECT_NE(store.find("a", ""), nullptr);
  EXPECT_NE(store.find("c", ""), nullptr);
  store.put("d", of_bytes(4'000));  // as large as two
  EXPECT_EQ(store.find("a", ""), nullptr);
  EXPECT_EQ(store.find("c", ""), nullptr);
  EXPECT_NE(store.find("d", ""), nullptr);
}

TEST(ResponseStore, WhatIsLargerThanAllOfItIsNotKept) {
  ResponseStore store(2'000);
  store.put("a", of_bytes(100));
  store.put("b", of_bytes(2'000));
  EXPECT_EQ(store.find("b", ""), nullptr);
  EXPECT_NE(store.find("a", ""), nullptr);
  ResponseStore none(0);
  EXPECT_FALSE(none.keeps());
  none.put("a", of_bytes(0));
  EXPECT_EQ(none.find("a", ""), nullptr);
}

// A deletion gives its room back, however often.
TEST(ResponseStore, RoomComesBack) {
  ResponseStore store(5'000);
  for (int i = 0; i < 100; ++i) {
    const std::string id = std::to_string(i);
    store.put(id, of_bytes(3'000));
    ASSERT_NE(store.find(id, ""), nullptr) << i;
    ASSERT_TRUE(store.erase(id, ""));
  }
  store.put("a", of_bytes(1'500));
  store.put("b", of_bytes(1'500));
  EXPECT_NE(store.find("a", ""), nullptr);
}

}  // namespace
}  // namespace coxswain::router
