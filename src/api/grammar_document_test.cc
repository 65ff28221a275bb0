// The forms of answers as clients ask for them: TGI's, OpenAI's, vLLM's.

#include <string>

#include <gtest/gtest.h>

#include "api/documents.h"

namespace coxswain::api {
namespace {

using grammar::SchemaOptions;
using grammar::Source;

json::Value parse(std::string_view text) {
  auto out = json::parse(text);
  EXPECT_TRUE(out.ok()) << text;
  return out.ok() ? std::move(out).value() : json::Value();
}

// Of documents with these members beside the prompt.
Result<GenerateRequest> read_native(const std::string& parameters) {
  return read_generate_request(parse(R"({"inputs":"x","parameters":{)" + parameters + "}}"), {});
}
Result<ChatRequest> read_chat(const std::string& members) {
  return read_chat_request(parse(R"({"messages":[{"role":"u","content":"x"}],)" + members + "}"),
                           {});
}
Result<CompletionRequest> read_completion(const std::string& members) {
  return read_completion_request(parse(R"({"prompt":"x",)" + members + "}"), {});
}

Source schema_of(std::string text, const SchemaOptions& options) {
  return {.kind = Source::Kind::kJsonSchema, .text = std::move(text), .schema = options};
}

struct Form {
  const char* members;
  const char* field;
  Source source;
};

TEST(GrammarDocument, NativeFormsAreTgis) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}}})";
  const Form rows[] = {
      {R"("grammar":{"type":"json","value":{"properties":{"a":{"type":"integer"}}}})",
       "grammar.value",
       schema_of(schema, grammar::kTgiSchema)},
      {R"("grammar":{"value":{"properties":{"a":{"type":"integer"}}},"type":"json_object"})",
       "grammar.value",
       schema_of(schema, grammar::kTgiSchema)},
      {R"("grammar":{"type":"json","value":"{ \"properties\": {\"a\": {\"type\": \"integer\"}}}"})",
       "grammar.value",
       schema_of(schema, grammar::kTgiSchema)},
      {R"("grammar":{"type":"json_schema","value":{"name":"n","schema":{"type":"array"}}})",
       "grammar.value.schema",
       schema_of(R"({"type":"array"})", grammar::kTgiSchema)},
      {R"("grammar":{"type":"json_schema","value":{"schema":{"type":"array"},"strict":false}})",
       "grammar.value.schema",
       schema_of(R"({"type":"array"})", grammar::kTgiSchema)},
      {R"("grammar":{"type":"regex","value":"[ab]+"})",
       "grammar.value",
       {.kind = Source::Kind::kRegex, .text = "[ab]+"}},
  };
  for (const Form& row : rows) {
    const auto out = read_native(row.members);
    ASSERT_TRUE(out.ok()) << row.members << ": " << out.status().message();
    ASSERT_TRUE(out->parameters.grammar) << row.members;
    EXPECT_EQ(out->parameters.grammar->source, row.source) << row.members;
    EXPECT_EQ(out->parameters.grammar->field, row.field) << row.members;
    EXPECT_TRUE(out->ignored.empty());
  }
  EXPECT_FALSE(read_native(R"("grammar":null)")->parameters.grammar);
}

TEST(GrammarDocument, FormsBelowV1AreTakenOnBothRoutes) {
  const SchemaOptions any;
  const SchemaOptions compact{.space = SchemaOptions::Space::kNone, .closes_objects = true};
  const std::string schema = R"({"type":"object"})";
  const Form rows[] = {
      {R"("response_format":{"type":"json_object"})",
       "response_format",
       {.kind = Source::Kind::kJsonObject}},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","strict":true,)"
       R"("schema":{"type":"object"}}})",
       "response_format.json_schema.schema",
       schema_of(schema, any)},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":false,"schema":{"type":"object"}}})",
       "response_format.json_schema.schema",
       schema_of(schema, any)},
      {R"("response_format":{"type":"json_schema","value":{"name":"n","schema":{"type":"object"}}})",
       "response_format.value.schema",
       schema_of(schema, any)},
      {R"("response_format":{"type":"json","value":{"type":"object"}})",
       "response_format.value",
       schema_of(schema, any)},
      {R"("response_format":{"type":"json_object","value":{"type":"object"}})",
       "response_format.value",
       schema_of(schema, any)},
      {R"("response_format":{"type":"regex","value":"a|b"})",
       "response_format.value",
       {.kind = Source::Kind::kRegex, .text = "a|b"}},
      {R"("guided_json":{"type":"object"})", "guided_json", schema_of(schema, any)},
      {R"("guided_json":"{\"type\":\"object\"}")", "guided_json", schema_of(schema, any)},
      {R"("guided_regex":"a|b")", "guided_regex", {.kind = Source::Kind::kRegex, .text = "a|b"}},
      {R"("guided_choice":["yes","no"])",
       "guided_choice",
       {.kind = Source::Kind::kChoice, .choices = {"yes", "no"}}},
      {R"("structured_outputs":{"json":"{\"type\":\"object\"}","regex":null})",
       "structured_outputs.json",
       schema_of(schema, any)},
      {R"("structured_outputs":{"json":{"type":"object"},"disable_any_whitespace":true,)"
       R"("disable_additional_properties":true,"disable_fallback":true})",
       "structured_outputs.json",
       schema_of(schema, compact)},
      {R"("structured_outputs":{"regex":"a|b","json_object":false})",
       "structured_outputs.regex",
       {.kind = Source::Kind::kRegex, .text = "a|b"}},
      {R"("structured_outputs":{"choice":["a"]})",
       "structured_outputs.choice",
       {.kind = Source::Kind::kChoice, .choices = {"a"}}},
      {R"("guided_grammar":"root ::= \"a\"")",
       "guided_grammar",
       {.kind = Source::Kind::kRules, .text = "root ::= \"a\""}},
      {R"("structured_outputs":{"grammar":"start: \"a\""})",
       "structured_outputs.grammar",
       {.kind = Source::Kind::kRules, .text = "start: \"a\""}},
      {R"("structured_outputs":{"json_object":true})",
       "structured_outputs.json_object",
       {.kind = Source::Kind::kJsonObject}},
      // Any text is no form, so another field may ask for one.
      {R"("response_format":{"type":"text"},"guided_choice":["a"])",
       "guided_choice",
       {.kind = Source::Kind::kChoice, .choices = {"a"}}},
  };
  for (const Form& row : rows) {
    const auto chat = read_chat(row.members);
    ASSERT_TRUE(chat.ok()) << row.members << ": " << chat.status().message();
    const auto completion = read_completion(row.members);
    ASSERT_TRUE(completion.ok()) << row.members << ": " << completion.status().message();
    for (const auto& asked : {chat->parameters.grammar, completion->parameters.grammar}) {
      ASSERT_TRUE(asked) << row.members;
      EXPECT_EQ(asked->source, row.source) << row.members;
      EXPECT_EQ(asked->field, row.field) << row.members;
    }
    EXPECT_TRUE(chat->ignored.empty() && completion->ignored.empty());
  }
  EXPECT_FALSE(read_chat(R"("response_format":{"type":"text"})")->parameters.grammar);
}

struct BadForm {
  const char* members;
  const char* message;
  const char* field;
};

TEST(GrammarDocument, NativeRefusalsNameTheMember) {
  const BadForm rows[] = {
      {R"("grammar":"a")", "`grammar` must be an object. Given: a string", "grammar"},
      {R"("grammar":{})", "`grammar.type` is missing", "grammar.type"},
      {R"("grammar":{"type":7,"value":"a"})",
       "`grammar`: `type` must be a string. Given: 7",
       "grammar.type"},
      {R"("grammar":{"type":"ebnf","value":"a"})",
       "`grammar.type` must be json, json_object, json_schema or regex. Given: ebnf",
       "grammar.type"},
      {R"("grammar":{"type":"text"})",
       "`grammar.type` must be json, json_object, json_schema or regex. Given: text",
       "grammar.type"},
      {R"("grammar":{"type":"json"})", "`grammar.value` is missing", "grammar.value"},
      {R"("grammar":{"type":"json_object"})", "`grammar.value` is missing", "grammar.value"},
      {R"("grammar":{"type":"json_schema"})", "`grammar.value` is missing", "grammar.value"},
      {R"("grammar":{"type":"regex"})", "`grammar.value` is missing", "grammar.value"},
      {R"("grammar":{"type":"json","value":7})", "grammar is not supported", "grammar.value"},
      {R"("grammar":{"type":"json","value":["a"]})", "grammar is not supported", "grammar.value"},
      {R"("grammar":{"type":"json","value":"[]"})",
       "grammar is not valid: the text must be that of an object. Given: an array",
       "grammar.value"},
      {R"("grammar":{"type":"regex","value":7})",
       "`grammar.value` must be a string. Given: 7",
       "grammar.value"},
      {R"("grammar":{"type":"regex","value":"a","flags":"i"})",
       "`grammar`: `flags` is not supported yet. Given: \"i\"",
       "grammar.flags"},
      {R"("grammar":{"type":"json_schema","value":{"name":"n"}})",
       "`grammar.value.schema` is missing",
       "grammar.value.schema"},
      {R"("grammar":{"type":"json_schema","value":{"name":"n","schema":"{}"}})",
       "`grammar.value.schema` must be an object. Given: a string",
       "grammar.value.schema"},
      {R"("response_format":{"type":"json_object"})",
       "`response_format` is a field of another route, not of this one, except as "
       "{\"type\":\"text\"}. Given: an object",
       "response_format"},
  };
  for (const BadForm& row : rows) {
    const auto out = read_native(row.members);
    ASSERT_FALSE(out.ok()) << row.members;
    EXPECT_EQ(out.status().message(), row.message) << row.members;
    EXPECT_EQ(out.status().field(), row.field) << row.members;
    EXPECT_EQ(out.status().kind(), ErrorKind::kValidation);
  }
  const auto broken = read_native(R"("grammar":{"type":"json","value":"{\"a\""})");
  EXPECT_TRUE(broken.status().message().starts_with("grammar is not valid: "));
  EXPECT_EQ(broken.status().kind(), ErrorKind::kValidation);
}

TEST(GrammarDocument, RefusalsBelowV1NameTheMember) {
  const BadForm rows[] = {
      {R"("response_format":"json_object")",
       "`response_format` must be an object. Given: a string",
       "response_format"},
      {R"("response_format":{"type":"grammar","grammar":"a"})",
       "`response_format`: `grammar` is not supported yet. Given: \"a\"",
       "response_format.grammar"},
      {R"("response_format":{"type":"xml"})",
       "`response_format.type` must be text, json, json_object, json_schema or regex. Given: xml",
       "response_format.type"},
      {R"("response_format":{"type":"json_object","schema":{}})",
       "`response_format`: `schema` is not supported yet. Given: an object",
       "response_format.schema"},
      {R"("response_format":{"type":"text","value":{}})",
       "`response_format`: `value` is not supported yet. Given: an object",
       "response_format.value"},
      {R"("response_format":{"type":"json_object","json_schema":{"schema":{}}})",
       "`response_format`: `json_schema` is not supported yet. Given: an object",
       "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema"})",
       "`response_format.json_schema` is missing",
       "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})",
       "`response_format.json_schema.schema` is missing",
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":true}})",
       "`response_format.json_schema.schema` must be an object. Given: a boolean",
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"strict":"yes"}})",
       "`response_format.json_schema`: `strict` must be a boolean. Given: a string",
       "response_format.json_schema.strict"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{}},"value":{"schema":{}}})",
       "`response_format.json_schema` and `response_format.value` must not both ask for a form of "
       "the answer",
       "response_format.value"},
      {R"("response_format":{"type":"json"})",
       "`response_format.value` is missing",
       "response_format.value"},
      {R"("guided_json":7)",
       "`guided_json` must be an object or the JSON text of one. Given: 7",
       "guided_json"},
      {R"("guided_json":"[]")",
       "`guided_json` must be an object or the JSON text of one: the text must be that of an "
       "object. Given: an array",
       "guided_json"},
      {R"("guided_regex":["a"])",
       "`guided_regex` must be a string. Given: an array",
       "guided_regex"},
      {R"("guided_choice":"a")",
       "`guided_choice` must be an array of strings. Given: a string",
       "guided_choice"},
      {R"("guided_choice":[])",
       "`guided_choice` must have at least 1 string. Given: 0",
       "guided_choice"},
      {R"("guided_choice":["a",1])",
       "`guided_choice` must be an array of strings. Given: an array with an integer",
       "guided_choice"},
      {R"("guided_grammar":{"root":"a"})",
       "`guided_grammar` must be a string. Given: an object",
       "guided_grammar"},
      {R"("structured_outputs":{})",
       "`structured_outputs` must have one of json, regex, choice, grammar and json_object. Given: "
       "none",
       "structured_outputs"},
      {R"("structured_outputs":{"grammar":7})",
       "`structured_outputs.grammar` must be a string. Given: 7",
       "structured_outputs.grammar"},
      {R"("structured_outputs":{"grammar":"a","regex":"a"})",
       "`structured_outputs.regex` and `structured_outputs.grammar` must not both ask for a form "
       "of "
       "the answer",
       "structured_outputs.grammar"},
      {R"("structured_outputs":{"choice":[]})",
       "`structured_outputs.choice` must have at least 1 string. Given: 0",
       "structured_outputs.choice"},
      {R"("structured_outputs":{"regex":"a","json":{}})",
       "`structured_outputs.json` and `structured_outputs.regex` must not both ask for a form of "
       "the answer",
       "structured_outputs.regex"},
      {R"("guided_regex":"a","response_format":{"type":"json_object"})",
       "`response_format` and `guided_regex` must not both ask for a form of the answer",
       "guided_regex"},
      {R"("guided_json":{},"structured_outputs":{"choice":["a"]})",
       "`guided_json` and `structured_outputs` must not both ask for a form of the answer",
       "structured_outputs"},
      {R"("grammar":{"type":"regex","value":"a"})",
       "`grammar` is a field of another route, not of this one. Given: an object",
       "grammar"},
  };
  for (const BadForm& row : rows) {
    for (const Status& status :
         {read_chat(row.members).status(), read_completion(row.members).status()}) {
      ASSERT_FALSE(status.ok()) << row.members;
      EXPECT_EQ(status.message(), row.message) << row.members;
      EXPECT_EQ(status.field(), row.field) << row.members;
      EXPECT_EQ(status.kind(), ErrorKind::kValidation);
    }
  }
}

TEST(GrammarDocument, SourcesHaveASizeAtMost) {
  const std::string fits(grammar::kSourceBytesMax, 'a');
  const std::string text = fits + "a";
  const std::string limit = "` must have at most 262144 bytes. Given: ";
  EXPECT_TRUE(read_chat(R"("guided_regex":")" + fits + "\"").ok());
  EXPECT_TRUE(read_chat(R"("guided_grammar":")" + fits + "\"").ok());
  EXPECT_TRUE(read_chat(R"("guided_choice":[")" + fits + "\"]").ok());
  const std::pair<std::string, std::string> rows[] = {
      {R"("guided_regex":")" + text + "\"", "`guided_regex" + limit + "262145"},
      {R"("guided_grammar":")" + text + "\"", "`guided_grammar" + limit + "262145"},
      {R"("guided_choice":["a",")" + fits + "\"]", "`guided_choice" + limit + "262145"},
      {R"("guided_json":{"title":")" + fits + "\"}", "`guided_json" + limit + "262156"},
      {R"("guided_json":"{\"title\":\")" + fits + "\\\"}\"", "`guided_json" + limit + "262156"},
  };
  for (const auto& [members, message] : rows)
    EXPECT_EQ(read_chat(members).status().message(), message);
}

TEST(GrammarDocument, OtherRoutesHaveNoSuchField) {
  const std::string head = R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1,)";
  const auto refusal = [&](std::string_view member) {
    return read_messages_request(parse(head + std::string(member) + "}"), {}).status().message();
  };
  EXPECT_EQ(refusal(R"("response_format":{"type":"json_object"})"),
            "`response_format` is a field of another route, not of this one, except as "
            "{\"type\":\"text\"}. "
            "Given: an object");
  EXPECT_EQ(refusal(R"("guided_regex":"a")"),
            "`guided_regex` is a field of another route, not of this one. Given: \"a\"");
  EXPECT_EQ(refusal(R"("output_format":{"type":"json_schema"})"),
            "`output_format` is not supported yet. Given: an object");
}

}  // namespace
}  // namespace coxswain::api
