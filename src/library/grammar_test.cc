// Grammars of the library over the demo model.

#include <cstdlib>
#include <string>

#include <coxswain/executor.h>
#include <coxswain/grammar.h>
#include <coxswain/local_model.h>
#include <gtest/gtest.h>

#include "json/json.h"
#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using testing::await_whole;

LocalModel open_demo() {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  auto model = open_model(std::string(root != nullptr ? root : ".") + "/models/demo",
                          {.n_threads = 1,
                           .kv_bytes = std::uint64_t{8} << 20,
                           .total_tokens_max = 256,
                           .prefill_tokens_max = 64,
                           .batch_size_max = 8});
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.value();
}

Request ask(const LocalModel& model, GuideType type, std::string_view guide) {
  Request request;
  request.prompt = model.chat({{"user", "What is 12 + 30?"}}).value();
  request.stopping.max_new_tokens = 120;
  const auto grammar = compile_grammar(type, guide);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  request.sampling.grammar = grammar.value();
  return request;
}

TEST(Grammar, BindsTheAnswer) {
  const LocalModel model = open_demo();
  Executor engine(model);
  Request pattern = ask(model, GuideType::kRegex, "The (sum|answer) is [0-9]{2}!");
  Request schema = ask(model,
                       GuideType::kJsonSchema,
                       R"({"type": "object", "properties": {"sum": {"type": "integer", "minimum": 0,
                           "maximum": 99}, "odd": {"type": "boolean"}}, "required": ["sum", "odd"],
                           "additionalProperties": false})");
  Request endless = pattern;
  endless.stopping.ignore_eos = true;
  const auto ids = engine.enqueue({pattern, schema, endless});
  ASSERT_TRUE(ids.ok()) << ids.status().message();

  const Response matched = await_whole(engine, ids->at(0));
  EXPECT_TRUE(matched.text.starts_with("The sum is ") || matched.text.starts_with("The answer is "))
      << matched.text;
  EXPECT_EQ(matched.text.find_last_not_of("0123456789!"), matched.text.size() - 4) << matched.text;
  EXPECT_TRUE(matched.text.ends_with("!")) << matched.text;
  EXPECT_EQ(matched.finish, FinishReason::kEosToken);
  const Response object = await_whole(engine, ids->at(1));
  const auto value = json::parse(object.text);
  ASSERT_TRUE(value.ok()) << object.text;
  EXPECT_TRUE(value->find("sum")->to_int64().value() <= 99) << object.text;
  EXPECT_TRUE(value->find("odd")->is_bool()) << object.text;
  // Without an end token the text ends where it is whole.
  const Response whole = await_whole(engine, ids->at(2));
  EXPECT_EQ(whole.text, matched.text);
  EXPECT_EQ(whole.finish, FinishReason::kStopSequence);
}

TEST(Grammar, WhatCannotBeKeptToIsRefused) {
  EXPECT_EQ(compile_grammar(GuideType::kRegex, "a(?=b)").status().message(),
            "at byte 4 of the pattern: look-around is not supported");
  EXPECT_EQ(compile_grammar(GuideType::kJson, "{}").status().message(),
            "the guide must be empty for any JSON. Given: {}");
  EXPECT_FALSE(compile_grammar(GuideType::kJsonSchema, "{").ok());
  EXPECT_FALSE(
      compile_grammar(GuideType::kJsonSchema, R"({"$ref": "https://example.org/schema"})").ok());
}

TEST(Grammar, NotBesideBeams) {
  const LocalModel model = open_demo();
  Executor engine(model);
  Request request = ask(model, GuideType::kRegex, "a");
  request.beams.width = 2;
  EXPECT_EQ(engine.enqueue(request).status().message(),
            "`grammar` must be left out of a beam search. Given: one beside `beams`");
}

}  // namespace
}  // namespace coxswain::library
