#include "api/input_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::api {
namespace {

using ::testing::HasSubstr;

json::Array items_of(std::string_view text) {
  return json::parse(text).value().as_array();
}

std::string ids_of(const std::string& document) {
  std::string out;
  const json::Value value = json::parse(document).value();
  for (const json::Value& item : value.find("data")->as_array())
    out += item.find("id")->as_string() + " ";
  return out + (value.find("has_more")->as_bool() ? "more" : "end");
}

TEST(InputItems, HaveTheMembersOfOpenAi) {
  const json::Array items = items_of(
      R"([{"role":"user","content":"Hi"},)"
      R"({"id":"msg_own","type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes"}],"status":"incomplete"},)"
      R"({"role":"assistant","content":"No"},{"type":"reasoning","content":[]},)"
      R"({"type":"function_call_output","call_id":"c","output":"4"}])");
  EXPECT_EQ(
      input_items_document(items, "resp_ab", {.newest_first = false}).value(),
      R"({"object":"list","data":[)"
      R"({"id":"msg_ab_in_0","type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}],"status":"completed"},)"
      R"({"id":"msg_own","type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes"}],"status":"incomplete"},)"
      R"({"id":"msg_ab_in_2","type":"message","role":"assistant","content":[{"type":"output_text","text":"No","annotations":[]}],"status":"completed"},)"
      R"({"id":"rs_ab_in_3","type":"reasoning","content":[],"summary":[]},)"
      R"({"id":"fco_ab_in_4","type":"function_call_output","call_id":"c","output":"4","status":"completed"}],)"
      R"("first_id":"msg_ab_in_0","last_id":"fco_ab_in_4","has_more":false})");
  EXPECT_EQ(input_items_document({}, "resp_ab", {}).value(),
            R"({"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false})");
}

TEST(InputItems, PagesFollowOneAnother) {
  // An id is used twice.
  const json::Array items = items_of(R"([{"id":"a"},{"id":"b"},{"id":"a"},{"id":"d"}])");
  const auto page = [&](const InputItemsPage& asked) {
    return ids_of(input_items_document(items, "resp_x", asked).value());
  };
  EXPECT_EQ(page({}), "d msg_x_in_2 b a end");
  EXPECT_EQ(page({.limit = 2}), "d msg_x_in_2 more");
  EXPECT_EQ(page({.limit = 2, .after = "msg_x_in_2"}), "b a end");
  EXPECT_EQ(page({.limit = 3, .newest_first = false, .after = "a"}), "b msg_x_in_2 d end");
  EXPECT_EQ(page({.after = "a"}), "end");
  const Status none = input_items_document(items, "resp_x", {.after = "z"}).status();
  EXPECT_EQ(none.field(), "after");
}

TEST(InputItems, WrongQueriesAreRefusedByName) {
  const auto page =
      read_input_items_page({{"limit", "100"}, {"order", "asc"}, {"after", "q"}, {"include", "x"}});
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->limit, 100U);
  EXPECT_FALSE(page->newest_first);
  EXPECT_EQ(page->after, "q");
  for (const char* wrong : {"0", "101", "", "x", "1x", "-1", "99999999999999999999"}) {
    const Status status = read_input_items_page({{"limit", wrong}}).status();
    EXPECT_EQ(status.field(), "limit") << wrong;
    EXPECT_THAT(status.message(), HasSubstr("1 to 100. Given: " + std::string(wrong)));
  }
  EXPECT_EQ(read_input_items_page({{"order", "up"}}).status().field(), "order");
  EXPECT_EQ(read_input_items_page({{"before", "a"}}).status().field(), "before");
}

}  // namespace
}  // namespace coxswain::api
