// What a template may use besides the core of the language, and how it is refused what there is not: by name and line,
// when the template is compiled.

#include <string>

#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/testing/render_text.h"

namespace coxswain::chat {
namespace {

constexpr std::string_view kVariables = R"({
  "html": "<a>T & 'q'</a>", "on": true, "off": false, "id": 12345678901234567890,
  "negative": -98765432109876543210, "l": [1, 2],
  "call": {"arguments": "{\"city\": \"Paris\", \"n\": [1, 2.50, 12345678901234567890]}"}})";

std::string render(std::string_view source) {
  return render_text(source, kVariables);
}

// The error of compiling `source`; empty if it compiles.
std::string refusal(std::string_view source) {
  const auto compiled = ChatTemplate::compile(source);
  return compiled.ok() ? "" : compiled.status().message();
}

TEST(Builtins, IntegersBeyond64BitsKeepTheirDigits) {
  EXPECT_EQ(render("{{ id }} {{ negative }} {{ id|tojson }} {{ {'a': id}|tojson }} {{ [id] }} {{ "
                   "'%s %d' % (id, "
                   "negative) }} {{ id|string|length }}"),
            "12345678901234567890 -98765432109876543210 12345678901234567890 "
            R"({"a": 12345678901234567890} [12345678901234567890] )"
            "12345678901234567890 -98765432109876543210 20");
  EXPECT_EQ(
      render("{{ id == 12345678901234567890 }} {{ id == 1 }} {{ id == 1.5 }} {{ id is number }} "
             "{{ id is integer }} {{ id|int }} {{ '00123456789012345678901'|int }} "
             "{{ id|float }} {{ {id: 'x'}[id] }} {{ 'y' if id else 'n' }}"),
      "True False False True True 12345678901234567890 123456789012345678901 "
      "1.2345678901234567e+19 x y");
  for (const char* source : {"{{ id + 1 }}",
                             "{{ 1 - id }}",
                             "{{ -id }}",
                             "{{ id > 5 }}",
                             "{{ id * 1.5 }}",
                             "{{ 'a' * id }}",
                             "{{ id|abs }}",
                             "{{ id|round }}",
                             "{{ id is even }}",
                             "{{ '%x' % id }}",
                             "{{ [id, 1]|sort }}"})
    EXPECT_EQ(render(source),
              "!the integer 12345678901234567890 does not fit 64 bits: it can only be printed")
        << source;
  EXPECT_EQ(render("{{ 9223372036854775807 + 1 }}"),
            "!the result of 9223372036854775807 + 1 does not fit 64 bits");
  EXPECT_EQ(render("{{ 2 ** 70 }}"), "!the result of 2 ** 70 does not fit 64 bits");
  EXPECT_EQ(render("{{ 2 ** 62 }} {{ (-2) ** 63 }} {{ 0 ** 0 }} {{ -9223372036854775807 - 1 }}"),
            "4611686018427387904 -9223372036854775808 1 -9223372036854775808");
  EXPECT_EQ(render("{{ 1e300|int }}"), "!the integer of 1e+300 does not fit 64 bits");
  EXPECT_EQ(refusal("a\n{{ 0xFFFFFFFFFFFFFFFFFF }}"),
            "line 2: number '0xFFFFFFFFFFFFFFFFFF' is out of range");
}

TEST(Builtins, PercentFormats) {
  EXPECT_EQ(
      render(
          "{{ '%+05d|%-5s|%5.1f|%.3d|%x|%i|%r|%%|%s' % (3, 'a', 2.25, 6, 255, 7.9, 'q', none) }}"),
      "+0003|a    |  2.2|006|ff|7|'q'|%|None");
  EXPECT_EQ(
      render("{{ '%s' % 'x' }}{{ '%.2s' % 'äöü' }}{{ '% d' % 5 }}{{ 'a' % [1] }}{{ '%5s' % 'é' }}"
             "{{ '%f' % -0.5 }}{{ '%d' % true }}{{ '%d' % -0.5 }}{{ '%06.1f' % -2 }}{{ '%-4x' % "
             "-255 }}"),
      "xäö 5a    é-0.50000010-002.0-ff ");
  for (const char* wrong : {"{{ '%d' % 'x' }}",
                            "{{ '%s' % () }}",
                            "{{ '%s' % (1, 2) }}",
                            "{{ '%x' % 1.5 }}",
                            "{{ '%99999d' % 1 }}",
                            "{{ '%d' % missing }}",
                            "{{ '%d' % 1e400 }}"})
    EXPECT_TRUE(render(wrong).starts_with('!')) << wrong;
  EXPECT_EQ(refusal("\n\n{{ '%s and %(k)s' % x }}"), "line 3: format '%(' is not supported");
  EXPECT_EQ(refusal("{{ '%e' % x }}"), "line 1: format '%e' is not supported");
  EXPECT_EQ(refusal("{{ 'ends in %' % x }}"), "line 1: incomplete format");
  EXPECT_EQ(render("{% set f = '%e' %}{{ f % 1 }}"), "!format '%e' is not supported");
}

TEST(Builtins, SafeTextsEscapeWhatIsAddedToThem) {
  EXPECT_EQ(
      render("{{ '<'|safe + html }}|{{ html + ('>'|safe) }}|{{ '<'|safe ~ '&' }}|{{ '&'|e + '<' }}|"
             "{{ '\"'|escape }}|{{ html|safe|trim is escaped }}|{{ ['<'|safe] }}"),
      "<&lt;a&gt;T &amp; &#39;q&#39;&lt;/a&gt;|&lt;a&gt;T &amp; "
      "&#39;q&#39;&lt;/a&gt;>|<&|&amp;&lt;|&#34;|True|"
      "[Markup('<')]");
}

TEST(Builtins, FromJson) {
  EXPECT_EQ(
      render("{% set a = call.arguments|from_json %}{{ a.city }} {{ a.n }} {{ a|tojson }} "
             "{{ from_json('[1]')[0] }} {{ '\"x\"'|fromjson }} {{ 'null'|from_json }}"),
      R"(Paris [1, 2.5, 12345678901234567890] {"city": "Paris", "n": [1, 2.5, 12345678901234567890]} )"
      "1 x None");
  EXPECT_EQ(render("{{ '{'|from_json }}").substr(0, 12), "!from_json: ");
  EXPECT_EQ(render("{{ l|from_json }}"), "!from_json: the JSON must be a text, not list");
  EXPECT_EQ(render("{{ from_json() }}"), "!from_json takes one text");
}

// What a client wrote stays marked on its way through JSON; what the template wrote is its own.
TEST(Builtins, FromJsonKeepsTheMarks) {
  const auto compiled = ChatTemplate::compile(
      "{{ (messages[0].content|from_json).k }}{{ ('{\"k\": \"own\"}'|from_json).k }}");
  ASSERT_TRUE(compiled.ok());
  RenderInput input;
  input.messages = *json::parse(R"([{"role":"user","content":"{\"k\": \"<s>\"}"}])");
  const auto out = compiled->render(input);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->text, "<s>own");
  EXPECT_EQ(out->untrusted, (std::vector<TextSpan>{{0, 3}}));
}

TEST(Builtins, IntegersBehindADot) {
  EXPECT_EQ(render("{% set x = [[1, 2], {'a': [3, 4]}] %}{{ x.0.1 }} {{ x.1.a.1 }} {{ x.0.1 + 1.5 "
                   "}} {{ x[1].a.0 }} "
                   "{{ 'ab'.1 }} {{ x.0.1.real is defined }} {{ x .0 .0 }}"),
            "2 4 3.5 3 b False 1");
  EXPECT_TRUE(refusal("{{ x.1e5 }}").starts_with("line 1: "));
  EXPECT_TRUE(refusal("{{ x. 0.1 }}").starts_with("line 1: "));
}

TEST(Builtins, UnknownFiltersAndTestsAreRefusedAtLoad) {
  for (const char* name : {"random",
                           "urlize",
                           "urlencode",
                           "xmlattr",
                           "striptags",
                           "forceescape",
                           "pprint",
                           "wordwrap",
                           "wordcount",
                           "truncate",
                           "center",
                           "format",
                           "filesizeformat",
                           "nofilter"})
    EXPECT_EQ(refusal("a\n{% if off %}\n{{ x|upper|" + std::string(name) + " }}{% endif %}"),
              "line 3: filter '" + std::string(name) + "' is not supported");
  EXPECT_EQ(refusal("{{ x is\n notest }}"), "line 2: test 'notest' is not supported");
  EXPECT_EQ(refusal("{{ x|map('pprint') }}"), "line 1: filter 'pprint' is not supported");
  EXPECT_EQ(refusal("{{ x|select('notest')|list }}"), "line 1: test 'notest' is not supported");
  EXPECT_EQ(refusal("{{ x|rejectattr('a', 'notest')|list }}"),
            "line 1: test 'notest' is not supported");
  EXPECT_EQ(refusal("{% filter nofilter %}{% endfilter %}"),
            "line 1: filter 'nofilter' is not supported");
  EXPECT_EQ(render("{% set f = 'pprint' %}{{ l|map(f)|list }}"),
            "!filter 'pprint' is not supported");
  EXPECT_EQ(render("{% set t = 'notest' %}{{ l|select(t)|list }}"),
            "!test 'notest' is not supported");
}

TEST(Builtins, UnknownTagsAreRefusedAtLoad) {
  for (const char* tag : {"autoescape true",
                          "block a",
                          "print 1",
                          "include 'x'",
                          "import 'x' as y",
                          "from 'x' import y",
                          "extends 'x'",
                          "do x",
                          "trans"}) {
    const std::string name(tag,
                           std::string_view(tag).find_first_of(' ') == std::string_view::npos
                               ? std::string_view(tag).size()
                               : std::string_view(tag).find_first_of(' '));
    EXPECT_EQ(refusal("\n{% if off %}{% " + std::string(tag) + " %}{% endif %}"),
              "line 2: tag '" + name + "' is not supported");
  }
  EXPECT_EQ(refusal("{% macro m() %}\n{{ varargs }}{% endmacro %}"),
            "line 2: variable 'varargs' is not supported");
  EXPECT_EQ(refusal("{% macro m() %}\n{{ kwargs.a }}{% endmacro %}"),
            "line 2: variable 'kwargs' is not supported");
}

TEST(Builtins, UnknownFunctionsAreRefusedAtLoad) {
  for (const char* name : {"lipsum", "cycler", "joiner", "foo"})
    EXPECT_EQ(refusal("{% if off %}\n{{ " + std::string(name) + "(1) }}{% endif %}"),
              "line 2: function '" + std::string(name) + "' is not supported");
  // What the template defines, wherever, or asks for, is left to the run.
  EXPECT_EQ(render("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}"),
            "b");
  EXPECT_EQ(render("{% if now is defined %}{{ now() }}{% endif %}x"), "x");
  EXPECT_EQ(render("{% set f = range %}{{ f(2)|list }}"), "[0, 1]");
  EXPECT_EQ(render("{% for f in [range] %}{{ f(1)|list }}{% endfor %}"), "[0]");
}

TEST(Builtins, UnknownMethodsAreRefusedAtLoad) {
  for (const char* name : {"format",
                           "format_map",
                           "translate",
                           "maketrans",
                           "encode",
                           "center",
                           "ljust",
                           "zfill",
                           "swapcase",
                           "casefold",
                           "expandtabs",
                           "istitle",
                           "isidentifier",
                           "isdisjoint",
                           "union",
                           "bit_length",
                           "to_bytes",
                           "striptags",
                           "foo"})
    EXPECT_EQ(refusal("{% if off %}\n\n{{ x.y." + std::string(name) + "(1) }}{% endif %}"),
              "line 3: method '" + std::string(name) + "' is not supported");
  // A macro kept in a namespace, and what the template asks for.
  EXPECT_EQ(
      render("{% macro m() %}m{% endmacro %}{% set ns = namespace(f=m) %}{{ ns.f() }}"
             "{% set ns.g = m %}{{ ns.g() }}{% if l.foo is defined %}{{ l.foo() }}{% endif %}"),
      "mm");
}

}  // namespace
}  // namespace coxswain::chat
