#include "grammar/tags.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/compiler.h"
#include "grammar/testing/texts.h"

namespace coxswain::grammar {
namespace {

const std::string kNumber = R"({"type":"integer","minimum":0,"maximum":9})";

Result<Program> compiled(std::vector<Tag> tags,
                         std::vector<std::string> triggers = {},
                         Preamble preamble = {}) {
  return compile({.kind = Source::Kind::kTags,
                  .tags = std::move(tags),
                  .triggers = std::move(triggers),
                  .schema = {.space = SchemaOptions::Space::kNone},
                  .preamble = std::move(preamble)});
}

TEST(Tags, WithoutTriggersTheTextIsOneTag) {
  const auto program = compiled({{"<f>", kNumber, "</f>"}, {"<g>", "", ""}, {"", kNumber, ""}});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const testing::Acceptor acceptor(program.value());
  for (const std::string text : {"<f>3</f>", R"(<g>{"a":[1]})", "<g>{}", "7"}) {
    EXPECT_TRUE(acceptor.accepts(text)) << text;
  }
  for (const std::string text :
       {"", "<f>3", "<f>10</f>", "<f>3</f> ", "<g>1", "<f>3</f><f>4</f>"}) {
    EXPECT_FALSE(acceptor.accepts(text)) << text;
  }
}

// A tag in free text, read by hand: what stands before "<" and behind each tag is free.
bool is_expected(std::string_view text) {
  while (!text.empty()) {
    const std::size_t at = text.find("<f");
    if (at == text.npos) return true;
    text.remove_prefix(at);
    if (text.size() < 4 || text[2] != '1' || text[3] != '>') return false;
    text.remove_prefix(4);
  }
  return true;
}

TEST(Tags, TextIsFreeUntilATriggerIsSpelled) {
  const auto program = compiled({{"<f", R"({"const":1})", ">"}}, {"<f"});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const testing::Acceptor acceptor(program.value());
  std::size_t n_accepted = 0;
  for (const std::string& text : testing::all_texts("<f1>", 7)) {
    ASSERT_EQ(acceptor.accepts(text), is_expected(text)) << text;
    n_accepted += acceptor.accepts(text) ? 1 : 0;
  }
  EXPECT_GT(n_accepted, 5'000u);
  EXPECT_TRUE(acceptor.accepts("na\xc3\xafve <<f1>, <\n<f1><f1> f1>"));
}

TEST(Tags, TriggersMayHoldWhatPatternsReserve) {
  const std::string begin = "[a](b)*\\^$.|?+{}/-";
  const auto program = compiled({{begin, kNumber, "]"}}, {begin});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const testing::Acceptor acceptor(program.value());
  EXPECT_TRUE(acceptor.accepts("[a](b) " + begin + "4] [a]"));
  EXPECT_FALSE(acceptor.accepts(begin + "x]"));
}

TEST(Tags, SpecialTokensComeWhereATagAsksForThem) {
  const std::string call = std::string(1, kSpecialToken) + "<call>";
  const std::string other = std::string(1, kSpecialToken) + "<other>";
  const std::vector<std::string> tokens = {"<call>", call, other, "1", "a"};
  const auto inside_text = compiled({{call, R"({"const":1})", ""}}, {call});
  ASSERT_TRUE(inside_text.ok()) << inside_text.status().message();
  std::set<std::string> texts;
  for (const std::string& text : testing::texts_by_masks(inside_text.value(), tokens, 2))
    texts.insert(text);
  // Its spelling alone is text; the other special token never comes.
  const std::set<std::string> two = {"",
                                     "1",
                                     "a",
                                     "<call>",
                                     "11",
                                     "1a",
                                     "a1",
                                     "aa",
                                     "1<call>",
                                     "a<call>",
                                     "<call>1",
                                     "<call>a",
                                     "<call><call>",
                                     call + "1"};
  EXPECT_EQ(texts, two);
  const auto alone = compiled({{call, R"({"const":1})", ""}});
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(testing::texts_by_masks(alone.value(), tokens, 3), std::set<std::string>{call + "1"});
}

TEST(Tags, ThoughtsMayComeFirst) {
  const auto program = compiled({{"", kNumber, ""}}, {}, {.begin = "<t>", .end = "</t>"});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const testing::Acceptor acceptor(program.value());
  for (const std::string text : {"1", "<t></t>1", "<t>1<t>/t></t>\n\n1"})
    EXPECT_TRUE(acceptor.accepts(text)) << text;
  for (const std::string text : {"<t>1", "</t>1", "a</t>1", "<t>a</t>", "<t>a</t>1</t>1", "\n1"})
    EXPECT_FALSE(acceptor.accepts(text)) << text;
}

TEST(Tags, ThoughtsThatThePromptOpenedAreClosed) {
  const auto program =
      compiled({{"", kNumber, ""}}, {}, {.begin = "<t>", .end = "</t>", .is_open = true});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const testing::Acceptor acceptor(program.value());
  for (const std::string text : {"</t>1", "a</t>\n\n1", "<t></t>1"})
    EXPECT_TRUE(acceptor.accepts(text)) << text;
  for (const std::string text : {"", "1", "<t>1", "a</t>", "</t></t>1"})
    EXPECT_FALSE(acceptor.accepts(text)) << text;
}

TEST(Tags, RefusesByName) {
  const auto refusal = [](std::vector<Tag> tags, std::vector<std::string> triggers) {
    const auto program = compiled(std::move(tags), std::move(triggers));
    return program.ok() ? "taken" : program.status().message();
  };
  EXPECT_EQ(refusal({}, {}), "there is no tag");
  EXPECT_EQ(refusal({{"<f", "", ""}}, {""}), "a trigger may not be empty");
  EXPECT_EQ(refusal({{"<f", "", ""}, {"<g", "", ""}}, {"<f"}),
            "tag 1 does not begin with one of the triggers");
  EXPECT_NE(refusal({{"<f", "{", ""}}, {}).find("tag 0: the schema is no JSON: "),
            std::string::npos);
  EXPECT_NE(refusal({{"<f", "", ""}, {"", R"({"type":"x"})", ""}}, {}).find("tag 1: "),
            std::string::npos);
}

TEST(Tags, SourcesThatDifferAreCompiledApart) {
  Compiler compiler;
  const auto bytes = [&](const Source& source) {
    const auto made = compiler.compile(source);
    return made.ok() ? *made->bytes : made.status().message();
  };
  Source source{.kind = Source::Kind::kTags, .tags = {{"a", "", "b"}}};
  const std::string plain = bytes(source);
  source.triggers = {"a"};
  EXPECT_NE(bytes(source), plain);
  source.triggers.clear();
  source.preamble = {.begin = "<t>", .end = "</t>"};
  const std::string thinks = bytes(source);
  EXPECT_NE(thinks, plain);
  source.preamble.is_open = true;
  EXPECT_NE(bytes(source), thinks);
  source.preamble = {};
  source.messages = {.begins = {"m"}, .between = {"e"}};
  EXPECT_NE(bytes(source), plain);
}

// As a model with frames around all that it says: a call that has begun follows its schema, and no text leads around.
TEST(Tags, StandAmongFramedMessages) {
  const auto special = [](std::string_view text) {
    return std::string(1, kSpecialToken).append(text);
  };
  const std::string call = special("<c>");
  const std::string say = special("<m>");
  const std::string next = special("<e>");
  const auto program = compile({.kind = Source::Kind::kTags,
                                .tags = {{call + "f", R"({"const":1})", ""}},
                                .messages = {.begins = {say, call + "g"}, .between = {next}},
                                .schema = {.space = SchemaOptions::Space::kNone}});
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::set<std::string> texts;
  for (const std::string& text :
       testing::texts_by_masks(program.value(), {call, say, next, "f", "g", "1", "<c>"}, 5))
    texts.insert(text);
  const std::vector<std::string> some{call + "f1",
                                      say,
                                      say + "f1<c>f",
                                      call + "gf1",
                                      say + next + say,
                                      say + next + call + "f1",
                                      call + "f1" + next + say};
  for (const std::string& text : some) EXPECT_TRUE(texts.contains(text)) << text;
  for (const std::string& text : texts) {
    EXPECT_TRUE(text.starts_with(call) || text.starts_with(say)) << text;
    for (std::size_t at = text.find(call); at != text.npos; at = text.find(call, at + 1)) {
      EXPECT_TRUE(at == 0 || text.substr(0, at).ends_with(next)) << text;
      const std::string_view rest = std::string_view(text).substr(at + call.size());
      EXPECT_TRUE(rest.starts_with("g") || rest == "f1" || rest.starts_with("f1" + next)) << text;
    }
  }
  EXPECT_GT(texts.size(), 100U);
}

}  // namespace
}  // namespace coxswain::grammar
