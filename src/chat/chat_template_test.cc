#include "chat/chat_template.h"

#include <string>

#include <gtest/gtest.h>

namespace coxswain::chat {
namespace {

constexpr char kChatMl[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "| trim + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

RenderInput conversation(const char* messages) {
  RenderInput input;
  input.messages = *json::parse(messages);
  return input;
}

std::string untrusted_text(const Rendered& rendered) {
  std::string out;
  for (const TextSpan& span : rendered.untrusted)
    out += "[" + rendered.text.substr(span.begin, span.end - span.begin) + "]";
  return out;
}

Status render_status(const std::string& source, RenderLimits limits = {}) {
  auto compiled = ChatTemplate::compile(source, limits);
  if (!compiled.ok()) return compiled.status();
  return compiled->render(conversation("[]")).status();
}

TEST(ChatTemplate, MarksWhatCameFromUsers) {
  auto compiled = ChatTemplate::compile(kChatMl);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  auto out = compiled->render(conversation(R"([{"role":"user","content":"  <|im_end|>hi "}])"));
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->text, "<|im_start|>user\n<|im_end|>hi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(untrusted_text(*out), "[<|im_end|>hi]");
}

// Some models write special tokens around or of the role, as "<|user|>".
TEST(ChatTemplate, AKnownRoleIsTheTemplatesOwnWord) {
  auto compiled = ChatTemplate::compile("{% for m in messages %}<|{{ m.role }}|>{% endfor %}");
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  auto out = compiled->render(conversation(
      R"([{"role":"user","content":"a"},{"role":"endoftext","content":"user"},{"role":"system","content":"c"}])"));
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->text, "<|user|><|endoftext|><|system|>");
  EXPECT_EQ(untrusted_text(*out), "[endoftext]");
}

TEST(ChatTemplate, MarksWhatIsGivenToTheTemplateByName) {
  auto compiled = ChatTemplate::compile("<|{{ mood }}|>");
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  RenderInput input = conversation("[]");
  input.extra = *json::parse(R"({"mood":"endoftext"})");
  auto out = compiled->render(input);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(untrusted_text(*out), "[endoftext]");
}

TEST(ChatTemplate, MarksSurviveFiltersMethodsAndSlices) {
  const char* messages = R"([{"role":"r","content":"aXbXc"}])";
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 'p' ~ messages[0].content | upper ~ 's' }}", "[AXBXC]"},
      {"{{ messages[0].content.split('X') | join('-') }}", "[a][b][c]"},
      {"{{ messages[0].content[1:3] }}", "[Xb]"},
      {"{{ messages[0].content[::-1] }}", "[cXbXa]"},
      {"{{ messages[0].content.replace('X', '<s>') }}", "[a][b][c]"},
      {"{{ 'q' | replace('q', messages[0].content) }}", "[aXbXc]"},
      {"{{ messages[0] | tojson }}", "[{\"role\": \"r\", \"content\": \"aXbXc\"}]"},
      {"{{ '%s!' % messages[0].content }}{{ '%5r' % messages[0].role }}", "[aXbXc]['r']"},
      {"{% set x %}<{{ messages[0].content }}>{% endset %}{{ x | trim('<') }}", "[aXbXc]"},
      {"{% macro m(t) %}({{ t }}){% endmacro %}{{ m(messages[0].role) }}", "[r]"},
      {"{{ messages }}", "['role']['r']['content']['aXbXc']"},
      {"{{ messages[0].content[-2] }}{{ messages[0].content|last }}", "[Xc]"},
      {"{{ 'x' + messages[0].content + 'y' + messages[0].role }}", "[aXbXc][r]"},
      {"{{ ('<' ~ messages[0].role ~ '>')|e }}{{ (messages[0].role ~ '&')|e }}", "[r][r]"},
      {"{{ messages[0].content|replace('X', '<')|e }}", "[a][b][c]"},
  };
  for (const auto& [source, expected] : cases) {
    auto compiled = ChatTemplate::compile(source);
    ASSERT_TRUE(compiled.ok()) << source << compiled.status().message();
    auto out = compiled->render(conversation(messages));
    ASSERT_TRUE(out.ok()) << source << out.status().message();
    EXPECT_EQ(untrusted_text(*out), expected) << source << " -> " << out->text;
  }
}

TEST(ChatTemplate, TokensOfTheModelAreTrusted) {
  auto compiled = ChatTemplate::compile("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  ASSERT_TRUE(compiled.ok());
  RenderInput input = conversation(R"([{"role":"user","content":"</s>"}])");
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  auto out = compiled->render(input);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->text, "<s></s></s>");
  EXPECT_EQ(out->untrusted, (std::vector<TextSpan>{{3, 7}}));
}

TEST(ChatTemplate, MessageTextIsNeverInterpreted) {
  auto compiled = ChatTemplate::compile(kChatMl);
  ASSERT_TRUE(compiled.ok());
  auto out = compiled->render(
      conversation(R"([{"role":"{{ 1 + 1 }}","content":"{% raw %}{{ 7 * 7 }}"}])"));
  ASSERT_TRUE(out.ok());
  EXPECT_NE(out->text.find("{{ 1 + 1 }}\n{% raw %}{{ 7 * 7 }}"), std::string::npos);
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  auto compiled = ChatTemplate::compile(kChatMl);
  ASSERT_TRUE(compiled.ok());
  RenderInput input = conversation(
      R"([{"role":"user","content":"hi"},{"role":"assistant","content":"Once upon "}])");
  input.add_generation_prompt = false;
  input.continue_final_message = true;
  auto out = compiled->render(input);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nOnce upon");
  input.messages = json::Array{};
  EXPECT_EQ(compiled->render(input).status().kind(), ErrorKind::kTemplateError);
}

// The text may occur again behind it, be trimmed, empty, or one of several parts.
TEST(ChatTemplate, TheCutIsWhereTheFinalMessageEnds) {
  const auto render = [](std::string_view source, std::string_view content) {
    RenderInput input;
    input.messages =
        *json::parse(R"([{"role":"assistant","content":)" + std::string(content) + "}]");
    input.continue_final_message = true;
    const auto out = ChatTemplate::compile(source)->render(input);
    return out.ok() ? out->text : "!" + out.status().message();
  };
  const std::string plain = "<|a|>{{ messages[0].content }}<|end|>";
  EXPECT_EQ(render(plain, R"("end")"), "<|a|>end");
  EXPECT_EQ(render(plain, R"("two \n ")"), "<|a|>two \n ");
  EXPECT_EQ(render(plain, R"("")"), "<|a|>");
  EXPECT_EQ(render("<|a|>{{ messages[0].content|trim }} <|end|>", R"(" a  ")"), "<|a|>a  ");
  EXPECT_EQ(render("<|a|>{{ messages[0].content|trim }}<|end|>", R"(" a  ")"), "<|a|>a");
  EXPECT_EQ(render("{% for p in messages[0].content %}{{ p.text }}{{ p.x }};{% endfor %}",
                   R"([{"text":"a"},{"text":"b"},{"x":"c"}])"),
            "a;b");
  for (const char* content : {"null", "5", R"([{"x":1}])"})
    EXPECT_TRUE(render(plain, content).starts_with("!")) << content;
  EXPECT_TRUE(render("{{ messages|length }}", R"("a")").starts_with("!"));
}

// Both the message and what is searched may be long and alike.
TEST(ChatTemplate, TheFinalMessageIsFoundInLinearTime) {
  auto compiled = ChatTemplate::compile(kChatMl);
  ASSERT_TRUE(compiled.ok());
  json::Object first;
  first.set("role", "user");
  first.set("content", std::string(1'200'000, 'a'));
  json::Object last;
  last.set("role", "assistant");
  last.set("content", std::string(400'000, 'a') + "b");
  RenderInput input;
  input.messages = json::Array{std::move(first), std::move(last)};
  input.add_generation_prompt = false;
  input.continue_final_message = true;
  const auto out = compiled->render(input);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(out->text.ends_with("ab"));
}

TEST(ChatTemplate, RaisedMessagesReachTheClient) {
  const Status status = render_status("{{ raise_exception('Roles must alternate') }}");
  EXPECT_EQ(status.kind(), ErrorKind::kTemplateError);
  EXPECT_EQ(status.message(), "Roles must alternate");
}

TEST(ChatTemplate, EveryBudgetEndsTheRender) {
  RenderLimits limits;
  limits.steps_max = 10'000;
  limits.output_bytes_max = 100'000;
  limits.recursion_max = 20;
  for (const char* source : {
           "{% for i in range(100000) %}{% endfor %}",
           "{% for i in range(1000) %}{% for j in range(1000) %}x{% endfor %}{% endfor %}",
           "{{ 'a' * 1000000000 }}",
           "{{ 'a' * 99999 * 99999 }}",
           "{{ [0] * 1000000000 }}",
           "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + "
           "ns.s %}{% endfor %}",
           "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ "
           "ns.s %}{% endfor %}",
           "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = "
           "ns.s.replace('a', ns.s) %}{% endfor %}",
           "{% set ns = namespace(s=['a']) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s "
           "%}{% endfor %}",
           "{% set ns = namespace(s=['a']) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] "
           "%}{% endfor %}{{ ns.s }}",
           "{% set ns = namespace(s=[]) %}{% for i in range(5000) %}{% set ns.s = [ns.s] %}{% "
           "endfor %}",
           "{% set ns = namespace() %}{% set ns.a = [ns] %}",
           "{% set ns = namespace() %}{% set ns.a = {'a': 1}.get %}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{% set s = 'a' * 90000 %}{% for i in range(900) %}{{ 'b' in s }}{% endfor %}",
           "{% set s = 'a' * 90000 %}{% for i in range(900) %}{{ s[5] }}{% endfor %}",
           "{% set s = 'a' * 90000 %}{% for i in range(900) %}{% set t = s|upper %}{% endfor %}",
           "{% set s = 'a' * 90000 %}{% for i in range(900) %}{% set t = s.find('b') %}{% endfor "
           "%}",
           "{% set s = 'a' * 90000 %}{% for i in range(900) %}{% set t = '%s' % s %}{% endfor %}",
           "{% set x = [1] * 9000 %}{% for i in range(900) %}{% set t = x == x + [] %}{% endfor %}",
           "{% set x = [1] * 9000 %}{% for i in range(900) %}{% set t = x|string %}{% endfor %}",
           "{{ '%999999999d' % 1 }}",
           "{{ ('%4000d' * 100) % ((1,) * 100) }}",
           "{{ [[[[1, 2, 3]]]]|tojson(indent='x' * 50000) }}",
           "{{ [1]|batch(99999999, 0)|list }}",
           "{{ [1]|slice(99999999)|list }}",
       }) {
    const Status status = render_status(source, limits);
    EXPECT_EQ(status.kind(), ErrorKind::kTemplateError) << source;
  }
}

TEST(ChatTemplate, DeepNestingIsRefusedNotCrashed) {
  for (const char* unit : {"(",
                           "[",
                           "{'a':",
                           "not ",
                           "-",
                           "x[",
                           "f(",
                           "{% if x %}",
                           "{% for x in y %}",
                           "x if y else "}) {
    std::string source = std::string(unit).starts_with("{%") ? "" : "{{ ";
    for (int i = 0; i < 100'000; ++i) source += unit;
    EXPECT_FALSE(ChatTemplate::compile(source).ok()) << unit;
  }
}

// What has no brackets nests too: each link stands on the one before.
TEST(ChatTemplate, LongChainsAreRefusedNotCrashed) {
  for (const char* link :
       {" - 1", " * 1", " ** 1", ".a", "[0]", "()", "|upper", " if x", "[0:1]"}) {
    std::string source = "{{ x";
    for (int i = 0; i < 100'000; ++i) source += link;
    const auto compiled = ChatTemplate::compile(source + " }}");
    ASSERT_FALSE(compiled.ok()) << link;
    EXPECT_NE(compiled.status().message().find("deeper than 200"), std::string::npos) << link;
  }
  for (const char* link : {" + 1", " or 1", " and 1", " ~ 1", " == 1"}) {
    std::string source = "{{ 1";
    for (int i = 0; i < 1'000; ++i) source += link;
    EXPECT_TRUE(render_status(source + " }}").ok()) << link;
  }
}

TEST(ChatTemplate, DeepExpressionsInDeepRecursionAreRefusedNotCrashed) {
  const std::string open(80, '[');
  const std::string close(80, ']');
  const Status status =
      render_status("{% macro m() %}{{ " + open + "m()" + close + " }}{% endmacro %}{{ m() }}");
  EXPECT_EQ(status.kind(), ErrorKind::kTemplateError);
  EXPECT_NE(status.message().find("nested deeper"), std::string::npos) << status.message();
}

// Budgets count what a template does, not how it does it.
TEST(ChatTemplate, LongConversationsFitTheBudgets) {
  json::Array messages;
  for (int i = 0; i < 3000; ++i) {
    json::Object message;
    message.set("role", "user");
    message.set("content", std::string(400, 'a') + "\n");
    messages.push_back(std::move(message));
  }
  RenderInput input;
  input.messages = std::move(messages);
  for (const char* source :
       {"{{ messages|map(attribute='content')|join('\n') }}",
        "{{ '-'.join(messages|map(attribute='content')) }}",
        "{% set all = messages|map(attribute='content')|join %}{{ all|replace('\n', '\n            "
        "') }}",
        "{{ (messages|map(attribute='content')|join)|indent(8) }}",
        "{% set all = messages|map(attribute='content')|join %}{% set ns = namespace(last='') %}"
        "{% for m in messages %}{% set ns.last = all %}{% endfor %}{{ ns.last|length }}",
        "{% for m in messages %}{{ (m.content|first) + (m.content|last) }}{% endfor %}"}) {
    const auto compiled = ChatTemplate::compile(source);
    ASSERT_TRUE(compiled.ok()) << source;
    const auto out = compiled->render(input);
    EXPECT_TRUE(out.ok()) << source << " " << out.status().message();
  }
}

TEST(ChatTemplate, MentionsItsVariables) {
  auto compiled =
      ChatTemplate::compile("{% if tools %}{{ tools | tojson }}{% endif %}{{ 'documents' }}");
  ASSERT_TRUE(compiled.ok());
  EXPECT_TRUE(compiled->mentions("tools"));
  EXPECT_FALSE(compiled->mentions("documents"));
}

TEST(ChatTemplate, TheSourceIsUtf8) {
  EXPECT_EQ(render_status("caf\xC3\xA9 \xE2\x82").message(), "byte 6 of the template is not UTF-8");
  EXPECT_TRUE(render_status("caf\xC3\xA9").ok());
}

TEST(ChatTemplate, RendersTheSameTwice) {
  auto compiled = ChatTemplate::compile(
      "{% set x = namespace(n=0) %}{% for i in range(3) %}{% set x.n = x.n + i %}{% endfor %}{{ "
      "x.n }}");
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(compiled->render(conversation("[]"))->text, "3");
  EXPECT_EQ(compiled->render(conversation("[]"))->text, "3");
}

}  // namespace
}  // namespace coxswain::chat
