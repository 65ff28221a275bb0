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

TEST(PythonSemantics, RangesAndGroups) {
  EXPECT_EQ(render("{{ range(3) }}{{ range(1, 9, 4) }}{{ range(3)[1] }}{{ 2 in range(3) }}"),
            "range(0, 3)range(1, 9, 4)1True");
  EXPECT_TRUE(fails("{{ range(3)|tojson }}"));
  EXPECT_EQ(render("{{ range(3)|list|tojson }}"), "[0, 1, 2]");
  EXPECT_EQ(render("{% for x in ld|groupby('g') %}{{ x.grouper }}{{ x.list|length }}{{ x[0] }}"
                   "{% endfor %}"),
            "a1aB2B");
  EXPECT_EQ(render("{% for k, v in ld|groupby('g') %}{{ k }}{{ v|map(attribute='name')|join }}"
                   "{% endfor %}"),
            "axByz");
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
  EXPECT_EQ(render("{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ '½'.isnumeric() }}"
                   "{{ '٣'.isdecimal() }}{{ '五'.isnumeric() }}{{ 'ªº'.isalpha() }}"),
            "TrueFalseTrueTrueTrueTrue");
  EXPECT_EQ(render("{{ 'Ab Cd'.istitle() }}{{ 'a1_'.isidentifier() }}{{ '1a'.isidentifier() }}"
                   "{{ 'ä'.isascii() }}{{ 'a\\n'.isprintable() }}{{ ''.isascii() }}"),
            "TrueTrueFalseFalseFalseTrue");
  EXPECT_EQ(render("{{ 'aBß'.swapcase() }}{{ 'ÄÖß'.casefold() }}{{ 'a\\tb'.expandtabs(4) }}"
                   "{{ '{a}'.format_map({'a': 1}) }}"),
            "AbSSäössa   b1");
  EXPECT_EQ(render("{{ 'ΑΣ ΑΣΑ Σ'|lower }}"), "ας ασα σ");
  EXPECT_EQ(render("{{ 'ßa ǆx ﬁn ᾳ'.title() }} {{ 'ﬃx'|capitalize }} {{ 'ᾳև'.upper() }} "
                   "{{ 'ǅß'.swapcase() }}"),
            "Ssa ǅx Fin ᾼ Ffix ΑΙԵՒ ǅSS");
}

TEST(PythonSemantics, Numbers) {
  EXPECT_EQ(
      render("{{ '0b11'|int(0, 2) }} {{ '1_000'|int }} {{ '٣'|int }} {{ '0x1f'|int(base=16) }} "
             "{{ '1__0'|int(7) }}"),
      "3 1000 3 31 7");
  EXPECT_EQ(render("{{ 1e400 }} {{ '1e400'|float }} {{ '-1e400'|float }} {{ (1e400)|tojson }}"),
            "inf inf -inf Infinity");
  EXPECT_TRUE(fails("{{ nothing|int }}"));
  EXPECT_TRUE(fails("{{ nothing|float }}"));
  EXPECT_TRUE(fails("{{ nothing|indent }}"));
}

TEST(PythonSemantics, WhatIsSafeStaysSafe) {
  EXPECT_EQ(render("{{ (','|safe).join(['<', '>']) }} {{ ('<%s>'|safe) % '<' }} "
                   "{{ ('<{}>'|safe).format('<') }} {{ ('a'|safe).replace('a', '<') }}"),
            "&lt;,&gt; <&lt;> <&lt;> &lt;");
  EXPECT_EQ(render("{{ ['<'|safe] }}{{ ('a;b'|safe).split(';') }}"),
            "[Markup('<')][Markup('a'), Markup('b')]");
}

TEST(PythonSemantics, Macros) {
  EXPECT_EQ(render("{% macro m(a, b=1) %}{{ caller() }}{% endmacro %}{{ m.name }}{{ m.arguments }}"
                   "{{ m.catch_kwargs }}{{ m.caller }}"),
            "m('a', 'b')FalseTrue");
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
  EXPECT_TRUE(fails("{{ l|wordwrap(5) }}"));
  EXPECT_TRUE(fails("{{ 5|truncate(2) }}"));
  EXPECT_TRUE(fails("{{ ''|filesizeformat }}"));
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
