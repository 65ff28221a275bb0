// Python's objects where they show: template and the text that Jinja2 gives.

#include <string>

#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/testing/render_text.h"

namespace coxswain::chat {
namespace {

constexpr std::string_view kVariables = R"({
  "s": "Hello World", "l": [3, 1, 2], "html": "<a>",
  "ld": [{"name": "x", "g": "a"}, {"name": "y", "g": "B"}, {"name": "z", "g": "b"}]})";

std::string render(std::string_view source) {
  return render_text(source, kVariables);
}

bool fails(std::string_view source) {
  return render(source).starts_with('!');
}

TEST(PythonSemantics, AGeneratorIsReadOnce) {
  EXPECT_EQ(render("{% set g = l|map('string') %}{{ g|list }}{{ g|list }}"), "['3', '1', '2'][]");
  EXPECT_EQ(render("{% set g = l|select('odd') %}{{ g|first }}{{ g|list }}"), "3[1]");
  EXPECT_EQ(render("{% set g = l|map('string') %}{{ '1' in g }}{{ g|list }}"), "True['2']");
  EXPECT_EQ(render("{% set g = l|reverse %}{% for x in g %}{{ x }}{% endfor %}{{ g|list }}"),
            "213[]");
  EXPECT_EQ(render("{% set g = l|map('string') %}{% if g %}y{% endif %}{{ g[0] }}"), "y");
  EXPECT_EQ(render("{{ l|map('string')|reverse }}"), "['2', '1', '3']");
  EXPECT_TRUE(fails("{{ l|map('string')|last }}"));
  EXPECT_TRUE(fails("{{ l|map('string')|length }}"));
  EXPECT_EQ(render("{{ {'b': 1}.keys()[0] }}"), "");
}

// range() gives a list: nobody prints one, and minijinja's is a sequence too.
TEST(PythonSemantics, RangesAndGroups) {
  EXPECT_EQ(render("{{ range(1, 9, 4) }}{{ range(3)[1] }}{{ 2 in range(3) }}{{ range(3)|tojson }}"
                   "{{ range(5)[::-1][1:] }}"),
            "[1, 5]1True[0, 1, 2][3, 2, 1, 0]");
  EXPECT_EQ(render("{% for x in ld|groupby('g') %}{{ x.grouper }}{{ x.list|length }}{{ x[0] }}"
                   "{% endfor %}"),
            "a1aB2B");
  EXPECT_EQ(render("{% for k, v in ld|groupby('g') %}{{ k }}{{ v|map(attribute='name')|join }}"
                   "{% endfor %}"),
            "axByz");
}

TEST(PythonSemantics, ViewsOfMappings) {
  EXPECT_EQ(
      render("{% set d = {'a': 1, 'b': 2} %}{{ d.keys() }}{{ d.values()|list }}{{ d.items() }}"
             "{{ 'a' in d.keys() }}{{ d.keys() == d.keys() }}{{ d.keys() == ['a', 'b'] }}"
             "{{ d.items() is sequence }}{{ d.items() is iterable }}"),
      "dict_keys(['a', 'b'])[1, 2]dict_items([('a', 1), ('b', 2)])TrueTrueFalseFalseTrue");
  EXPECT_TRUE(fails("{{ {'a': 1}.keys() - [] }}"));
  EXPECT_TRUE(fails("{{ {'a': 1}.keys() < {'b': 1}.keys() }}"));
}

TEST(PythonSemantics, SurrogatesAreRefused) {
  EXPECT_TRUE(fails("{{ '\\ud800' }}"));
}

TEST(PythonSemantics, Arithmetic) {
  EXPECT_EQ(
      render(
          "{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 6.0 // -4 }} "
          "{{ 9007199254740993 == 2.0 ** 53 }} {{ 9223372036854775807 < 9223372036854775808.0 }} "
          "{{ 2 ** 0.5 > 1.4 }} {{ true + 1 }}"),
      "-4 2 -2 3.0 0.5 -2.0 False True True 2");
  EXPECT_EQ(render("{{ 2.5|round }} {{ 3.5|round }} {{ 1234|round(-2) }} {{ 1250.0|round(-2) }} {{ "
                   "2.675|round(2) }} "
                   "{{ 1.21|round(1, 'ceil') }} {{ 1.29|round(1, 'floor') }} {{ 7|round }} {{ "
                   "true|abs }} {{ 7|round(-9223372036854775807 - 1) }} {{ 0.5|round(400) }}"),
            "2.0 4.0 1200 1200.0 2.67 1.3 1.2 7 1 0 0.5");
  for (const char* wrong : {"{{ 1 // 0 }}",
                            "{{ 1 % 0 }}",
                            "{{ 1.5 // 0 }}",
                            "{{ 0 ** -1 }}",
                            "{{ (-8) ** 0.5 }}",
                            "{{ 10.0 ** 400 }}",
                            "{{ 'a'|abs }}",
                            "{{ 'a'|round }}",
                            "{{ 1.5|round(1, 'up') }}"})
    EXPECT_TRUE(fails(wrong)) << wrong;
}

TEST(PythonSemantics, LargeMappingsFindEveryKey) {
  EXPECT_EQ(render("{% set d = dict(range(40)|batch(2)) %}{{ d[38] }} {{ d[38.0] }} {{ d[39] }}|"
                   "{{ d|length }} {{ 4 in d }} {{ true in d }} {{ dict(d, x=1).x }} "
                   "{{ range(100)|map('int')|map('float')|unique|list|length }} "
                   "{{ [1, 1.0, true, 'a', 'A', (1, 'a'), (1.0, 'a')]|unique|list }}"),
            "39 39 |20 True False 1 100 [1, 'a', (1, 'a')]");
}

TEST(PythonSemantics, PositionsOfStringMethods) {
  EXPECT_EQ(render("{{ s.find('o', 5) }} {{ s.find('o', 5, 6) }} {{ s.rfind('o', 0, 5) }} "
                   "{{ s.rindex('o') }} {{ s.count('l', 4) }} {{ s.find('o', -4) }}"),
            "7 -1 4 7 1 7");
  EXPECT_EQ(render("{{ s.startswith('ell', 1, 4) }}{{ s.startswith('l', 2) }}"
                   "{{ s.endswith('lo', 0, 5) }}{{ s.endswith(('x', 'ld')) }}"),
            "TrueTrueTrueTrue");
  EXPECT_TRUE(fails("{{ s.rindex('zz') }}"));
  EXPECT_TRUE(fails("{{ s.startswith(['H']) }}"));
}

TEST(PythonSemantics, QuestionsAboutCharacters) {
  EXPECT_EQ(
      render("{{ '12'.isdigit() }}{{ '½'.isdigit() }}{{ '½'.isnumeric() }}{{ '٣'.isdigit() }}{{ "
             "'ªº'.isalpha() }}"
             "{{ 'a1'.isalnum() }}{{ 'a '.isalnum() }}{{ '\u00a0'.isspace() }}{{ ''.isalpha() }}"),
      "TrueFalseTrueTrueTrueTrueFalseTrueFalse");
  EXPECT_EQ(render("{{ 'ä'.isascii() }}{{ ''.isascii() }}{{ 'Ab'.isupper() }}{{ 'AB1'.isupper() "
                   "}}{{ 'ab'.islower() }}"
                   "{{ '1'.islower() }}"),
            "FalseTrueFalseTrueTrueFalse");
}

TEST(PythonSemantics, CaseOfCharacters) {
  EXPECT_EQ(render("{{ 'ΑΣ ΑΣΑ Σ'|lower }}"), "ας ασα σ");
  EXPECT_EQ(render("{{ 'ßa ǆx áB'.title() }} {{ 'éX'|capitalize }} {{ 'straße'.upper() }} {{ "
                   "\"it's\".title() }}"),
            "Ssa ǅx Áb Éx STRASSE It'S");
}

TEST(PythonSemantics, Numbers) {
  EXPECT_EQ(render("{{ '11'|int(0, 2) }} {{ '1_000'|int }} {{ '0x1f'|int(base=16) }} {{ "
                   "'-0b11'|int(0, 2) }} "
                   "{{ '1__0'|int(7) }} {{ '--5'|int }} {{ '+-5'|int }} {{ ' +5 '|int }} {{ "
                   "'3.9'|int }} {{ true|int }} "
                   "{{ 'x'|int('d') }} {{ none|int }}"),
            "3 1000 31 -3 7 0 0 5 3 1 d 0");
  EXPECT_EQ(render("{{ 1e400 }} {{ '1e400'|float }} {{ '-1e400'|float }} {{ (1e400)|tojson }} {{ "
                   "'1_0.5'|float }} "
                   "{{ 'nan'|int(4) }} {{ 'x'|float }}"),
            "inf inf -inf Infinity 10.5 4 0.0");
  EXPECT_TRUE(fails("{{ nothing|int }}"));
  EXPECT_TRUE(fails("{{ nothing|float }}"));
  EXPECT_TRUE(fails("{{ nothing|indent }}"));
}

TEST(PythonSemantics, Macros) {
  EXPECT_TRUE(fails("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}"));
  EXPECT_TRUE(fails("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}"));
  EXPECT_TRUE(fails("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}"));
  EXPECT_TRUE(fails("{{ {'a': 1}.get('b', default=2) }}"));
  EXPECT_TRUE(fails("{{ {'b': 2}|dictsort(by='x') }}"));
}

TEST(PythonSemantics, WhiteSpaceAroundTags) {
  EXPECT_EQ(render("{% raw %}\n x {% endraw %}\n y"), "\n x  y");
  EXPECT_EQ(render("a\n \u2003{%- if true %} x{% endif %}"), "a x");
  EXPECT_EQ(render("\u00A0{% if true %}\nx{% endif %}"), "x");
  EXPECT_EQ(render("a{#"), "a");
  EXPECT_TRUE(fails("{{ '\\N{BULLET}' }}"));
}

TEST(PythonSemantics, AnElseRunsUnlessATurnCameToItsEnd) {
  EXPECT_EQ(render("{% for x in l %}{% break %}{% else %}e{% endfor %}"), "e");
  EXPECT_EQ(render("{% for x in l %}{{ x }}{% continue %}{% else %}e{% endfor %}"), "312e");
  EXPECT_EQ(render("{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e"
                   "{% endfor %}"),
            "3");
}

TEST(PythonSemantics, WrongKinds) {
  EXPECT_EQ(render("{{ 3.0 is odd }}{{ 2.5 is even }}{{ 3.0 is divisibleby 3 }}{{ -3 is odd }}"),
            "TrueFalseTrueTrue");
  EXPECT_TRUE(fails("{{ 5|indent }}"));
  EXPECT_TRUE(fails("{{ [1] in {'a': 1} }}"));
  EXPECT_TRUE(fails("{% filter length %}abc{% endfilter %}"));
  EXPECT_TRUE(fails("{{ 'ab'|groupby('g')|list }}"));
  EXPECT_TRUE(fails("{{ {'a': 1}.get([1]) }}"));
  EXPECT_TRUE(fails("{{ [[1]]|unique|list }}"));
  EXPECT_TRUE(fails("{{ (1, 2).copy() }}"));
  EXPECT_EQ(
      render("{{ {}.items() is sequence }}{{ ''|indent(2, true) }}{{ []|slice(2, 'f')|list }}"),
      "False  [['f'], ['f']]");
  EXPECT_EQ(render("{{ 'a' % [1] }}{{ ('<'|safe)|list }}"), "a['<']");
}

// What the reference's sandbox refuses, and recursion without end: an error of the request.
TEST(PythonSemantics, TheSandboxAndRecursion) {
  const char* const mutual =
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}";
  for (const char* source : {"{{ ''.__class__.__mro__ }}",
                             "{{ l.append(1) }}",
                             "{% set x = {'a': 1}.update({}) %}",
                             "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                             "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
                             mutual}) {
    const auto compiled = ChatTemplate::compile(source);
    ASSERT_TRUE(compiled.ok()) << source;
    RenderInput input;
    input.messages = json::Array{};
    input.extra = *json::parse(kVariables);
    const auto out = compiled->render(input);
    ASSERT_FALSE(out.ok()) << source << " gave " << out->text;
    EXPECT_EQ(out.status().code(), Code::kInvalidArgument) << source;
    EXPECT_EQ(out.status().kind(), ErrorKind::kTemplateError) << source;
  }
}

}  // namespace
}  // namespace coxswain::chat
