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

TEST(PythonSemantics, SlicesOfRanges) {
  EXPECT_EQ(render("{{ range(10)[2:5] }} {{ range(10)[::-1] }} {{ range(0, 10, 3)[1:] }} "
                   "{{ range(10)[7:2] }} {{ range(3)[-1:] }} {{ range(0)[:] }} "
                   "{{ range(9, 0, -2)[1:9:2] }} {{ range(5)[1:4][::2]|list }}"),
            "range(2, 5) range(9, -1, -1) range(3, 12, 3) range(7, 2) range(2, 3) range(0, 0) "
            "range(7, -1, -4) [1, 3]");
  EXPECT_EQ(render("{{ range(2, 9).start }}{{ range(2, 9).stop }}{{ range(2, 9)[::3].step }} "
                   "{{ range(4)[1:3] == range(1, 3) }} {{ range(4)[1:3] == [1, 2] }}"),
            "293 True False");
}

TEST(PythonSemantics, ViewsOfMappingsCompareAndSubtractAsSets) {
  EXPECT_EQ(render("{% set d = {'a': 1, 'b': 2} %}{{ d.keys() - {'b': 0}.keys() }} "
                   "{{ d.keys() - ['a', 'b'] }} {{ ['c', 'a', 'c'] - d.keys() }} "
                   "{{ d.items() - {'a': 1}.items() }} {{ (d.keys() - 'b')|list }} "
                   "{{ (d.keys() - []) - {'a': 0}.keys() }}"),
            "{'a'} set() {'c'} {('b', 2)} ['a'] {'b'}");
  EXPECT_EQ(render("{% set d = {'a': 1, 'b': [2]} %}{{ d.keys() == {'b': 0, 'a': 0}.keys() }} "
                   "{{ d.keys() > {'a': 0}.keys() }} {{ d.keys() <= {'a': 0}.keys() }} "
                   "{{ d.items() == {'b': [2], 'a': 1}.items() }} {{ d.values() == d.values() }} "
                   "{{ ['a', 'b'] == d.keys() }} {{ d.keys() == d.keys() - [] }} "
                   "{{ d.keys().isdisjoint(['c']) }}"),
            "True True False True False False True True");
  EXPECT_EQ(render("{% set s = {'a': 1, 'b': 2}.keys() - [] %}{{ s.union(['c'], 'd')|sort }} "
                   "{{ s.intersection('b') }} {{ s.difference(['a']) }} "
                   "{{ s.symmetric_difference('bc')|sort }} {{ s.issubset('abc') }} "
                   "{{ s.issuperset('abc') }} {{ s.copy() == s }} {{ s|length }} {{ 'a' in s }} "
                   "{{ s is sequence }} {{ s is iterable }} {{ s.add }}"),
            "['a', 'b', 'c', 'd'] {'b'} {'b'} ['a', 'c'] True False True 2 True False True ");
  for (const char* wrong : {"{{ {'a': 1}.values() - [] }}",
                            "{{ [1] - [1] }}",
                            "{{ {'a': [1]}.items() - [] }}",
                            "{{ ({'a': 1}.keys() - []) - ['a'] }}",
                            "{{ {'a': 1}.keys() - 5 }}",
                            "{{ {'a': 1}.keys() < ['a'] }}",
                            "{{ ({'a': 1}.keys() - [])|tojson }}",
                            "{{ ({'a': 1}.keys() - [])|last }}",
                            "{{ {({'a': 1}.keys() - []): 1} }}",
                            "{{ ({'a': 1}.keys() - []).add('b') }}"})
    EXPECT_TRUE(fails(wrong)) << wrong;
}

TEST(PythonSemantics, MethodsOfNumbers) {
  EXPECT_EQ(render("{{ 255.bit_length() }} {{ (-8).bit_length() }} {{ true.bit_length() }} "
                   "{{ (2 ** 70).bit_length() }} {{ 0.bit_length() }} {{ (-7).bit_count() }}"),
            "8 4 1 71 0 3");
  EXPECT_EQ(render("{{ 2.5.is_integer() }} {{ 2.0.is_integer() }} {{ (0.1).as_integer_ratio() }} "
                   "{{ 8.0.as_integer_ratio() }} {{ 3.as_integer_ratio() }} "
                   "{{ (-0.75).as_integer_ratio() }} {{ 0.0.as_integer_ratio() }}"),
            "False True (3602879701896397, 36028797018963968) (8, 1) (3, 1) (-3, 4) (0, 1)");
  EXPECT_EQ(render("{{ 1.5.hex() }} {{ (-0.0).hex() }} {{ 5e-324.hex() }} {{ 1e400.hex() }}"),
            "0x1.8000000000000p+0 -0x0.0p+0 0x0.0000000000001p-1022 inf");
  EXPECT_EQ(render("{{ 5.imag }} {{ 2.5.imag }} {{ true.real }} {{ 6.denominator }} "
                   "{{ 7.numerator }} {{ 2.5.conjugate() }} [{{ 2.5.numerator }}]"),
            "0 0.0 1 1 7 2.5 []");
  EXPECT_TRUE(fails("{{ 1e400.as_integer_ratio() }}"));
  EXPECT_TRUE(fails("{{ 5.bit_length(1) }}"));
  EXPECT_TRUE(fails("{{ 2.5.bit_length() }}"));
}

TEST(PythonSemantics, TranslationOfCharacters) {
  EXPECT_EQ(render("{{ 'hello'.translate({104: 'J', 108: none, 111: 48}) }} "
                   "{{ 'abcä'.translate(''.maketrans('abä', 'xyß', 'c')) }} "
                   "{{ 'ba'.translate(['q'] * 98) }} {{ ''.maketrans({'a': 'b', 99: none}) }} "
                   "{{ ''.maketrans('ab', 'xy') }}"),
            "Je0 xyß bq {97: 'b', 99: None} {97: 120, 98: 121}");
  for (const char* wrong : {"{{ ''.maketrans('a', 'bc') }}",
                            "{{ ''.maketrans('a') }}",
                            "{{ ''.maketrans({'ab': 1}) }}",
                            "{{ ''.maketrans({1.5: 1}) }}",
                            "{{ 'a'.translate(5) }}",
                            "{{ 'a'.translate({97: 1.5}) }}",
                            "{{ 'a'.translate({97: 1114112}) }}"})
    EXPECT_TRUE(fails(wrong)) << wrong;
}

// What would leave Unicode text is refused by name.
TEST(PythonSemantics, BytesAndSurrogatesAreRefused) {
  EXPECT_EQ(render("{{ s.encode('utf-8', errors='strict') }}"),
            "!str.encode() gives bytes, which templates here do not have");
  EXPECT_EQ(render("{{ 5.to_bytes(2, 'big') }}"),
            "!int.to_bytes() gives bytes, which templates here do not have");
  for (const char* wrong : {"{{ '%c' % 55296 }}",
                            "{{ '{:c}'.format(57343) }}",
                            "{{ 'a'.translate({97: 55296}) }}",
                            "{{ '\\ud800' }}"})
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
