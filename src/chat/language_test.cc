// The language, case by case: template, variables as JSON, and the text that Jinja2 gives.

#include <string>

#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/testing/render_text.h"

namespace coxswain::chat {
namespace {

struct Case {
  const char* source;
  const char* expected;  // "!..." : an error whose message contains the rest
  const char* variables = "{}";
};

std::string render(const Case& c) {
  return render_text(c.source, c.variables);
}

void expect(const Case& c) {
  const std::string got = render(c);
  const std::string wanted = c.expected;
  if (wanted.starts_with("!")) {
    EXPECT_TRUE(got.starts_with("!") && got.find(wanted.substr(1)) != std::string::npos)
        << c.source << "\n got " << got;
  } else {
    EXPECT_EQ(got, wanted) << c.source;
  }
}

TEST(Language, Scopes) {
  for (const Case& c : std::initializer_list<Case>{
           {"{% for i in range(3) %}[{{ x }}]{% set x = i %}{% endfor %}{{ x }}", "[][][]"},
           {"{% set x=9 %}{% for i in range(3) %}[{{ x }}]{% set x = i %}{% endfor %}{{ x }}",
            "[9][9][9]9"},
           {"{% for i in [1,2] %}{% macro m() %}{{ i }}{{ y }}{% endmacro %}{% set y=i %}{{ m() "
            "}}{% endfor %}",
            "1122"},
           {"{% set a=1 %}{% macro m(b=a, c=2) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{% set a=5 "
            "%}{{ "
            "m(7, 8) }}{{ m(c=3) }}{{ m() }}",
            "578553552"},
           {"{% set ns = namespace(a=1) %}{% for i in [1,2] %}{% set ns.a = ns.a + i %}{% endfor "
            "%}{{ ns.a }}{{ ns }}{{ ns.c }}",
            "4<Namespace {'a': 4}>"},
           {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set x %}hi{{ a }}{% endset %}{{ x }}{% set y | "
            "upper %}hi{% endset %}{{ y }}",
            "12hi1HI"},
           {"{% with a=1, b=2 %}{{ a+b }}{% endwith %}{{ a }}", "3"},
           {"{% macro m(x) %}<{{ caller('q') }}{{ x }}>{% endmacro %}{% call(u) m(1) %}{{ u }}{% "
            "endcall %}",
            "<q1>"},
           {"{% filter upper %}abc{{ 'd' }}{% endfilter %}", "ABCD"},
           {"{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) "
            "}}",
            "321"},
           {"{% generation %}a{% endgeneration %}", "a"},
           {"{% if foo is not defined %}{{ foo() }}{% endif %}", "!'foo' is undefined"},
           {"{% set ns.a = 1 %}", "!non-namespace"},
       }) {
    expect(c);
  }
}

TEST(Language, Loops) {
  for (const Case& c : std::initializer_list<Case>{
           {"{% for a in [1,2] %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length "
            "}}{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('x','y') "
            "}}{{ loop.changed(1) }};{% else %}e{% endfor %}",
            "1TrueFalse222xTrue;2FalseTrue211yFalse;"},
           {"{% for a in [] %}x{% else %}e{% endfor %}", "e"},
           {"{% for k, v in {'a':1}.items() %}{{k}}{{v}}{% endfor %}{% for k in {'a':1} %}{{ k "
            "}}{% endfor %}",
            "a1a"},
           {"{% for i in [1,2,3] if i != 2 %}{{ loop.index }}{{ i }}{% endfor %}", "1123"},
           {"{% for i in [[1,[[2,[]]]]] recursive %}{{ i[0] }}{{ loop.depth }}{% if i[1] %}{{ "
            "loop(i[1]) }}{% endif %}{% endfor %}",
            "1122"},
           {"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% "
            "break %}{% endif %}{{ i }}{% endfor %}",
            "02"},
           {"{% for c in 'ab' %}{{ c }}.{% endfor %}{% for x in missing %}y{% endfor %}", "a.b."},
           {"{% for a, b in [(1, 2)] %}{{ a + b }}{% endfor %}", "3"},
           {"{% for a, b in [(1, 2, 3)] %}{% endfor %}", "!too many values to unpack"},
           {"{% for a in 1 %}{% endfor %}", "!'int' object is not iterable"},
           {"{% break %}", "!outside of a loop"},
           {"{{ range(1,10,3)|list }} {{ range(0) | list }} {{ range(3, 0, -1) | list }}",
            "[1, 4, 7] [] [3, 2, 1]"},
           {"{{ range(200000) }}", "!Range too big"},
       }) {
    expect(c);
  }
}

TEST(Language, PrintsAsPython) {
  for (const Case& c : std::initializer_list<Case>{
           {"{{ 1.0 }} {{ 1e20 }} {{ 1e-5 }} {{ 0.1+0.2 }} {{ 3/2 }} {{ 4/2 }} {{ 7//2 }} {{ -7//2 "
            "}} {{ -7%3 }} {{ 2**3 }} {{ 2**-1 }}",
            "1.0 1e+20 1e-05 0.30000000000000004 1.5 2.0 3 -4 2 8 0.5"},
           {"{{ [1,'a',None,True,1.5,{'k':(1,)}] }}", "[1, 'a', None, True, 1.5, {'k': (1,)}]"},
           {"{{ [\"it's\", 'a\"b', 'x\\n\\t\\u00e9\\x7f\\x00'] }}",
            "[\"it's\", 'a\"b', 'x\\n\\t\xC3\xA9\\x7f\\x00']"},
           {"{{ true }} {{ None }} {{ () }} {{ (1,) }} {{ {} }} {{ {'a':1}.items() }}",
            "True None () (1,) {} dict_items([('a', 1)])"},
           {"{{ 'a' ~ 1 ~ none ~ x }}", "a1None"},
           {"{{ 'ab' * 3 }}{{ [1]*2 }}{{ [1]+[2] }}", "ababab[1, 1][1, 2]"},
           {"{{ 1_000 }} {{ 0x1f }} {{ 0b11 }} {{ 'a' 'b' }} {{ 1.5e3 }}", "1000 31 3 ab 1500.0"},
           {"{{ '%s-%d-%05.2f|%-3s|%+d|%x' % ('a', 3, 2.5, 'b', 4, 255) }}", "a-3-02.50|b  |+4|ff"},
           {"{{ '%d' % 'a' }}", "!a real number is required"},
           {"{{ '%d %d' % (-2.9, 9e18) }}", "-2 9000000000000000000"},
           {"{{ '%d' % 9223372036854775808.0 }}", "!does not fit 64 bits"},
           {"{{ '%d' % ('inf'|float) }}", "!cannot convert float infinity to integer"},
           {"{{ '%d' % ('nan'|float) }}", "!cannot convert float NaN to integer"},
           {"{{ 1/0 }}", "!division by zero"},
           {"{{ 'a<'|safe + 'b<' }}{{ 'c<' + ('d<'|e) }}{{ 'a<'|safe ~ 'b<' }}",
            "a<b&lt;c&lt;d&lt;a<b<"},
           {"{{ x in y }}{{ +true }}{{ none|selectattr('a')|list }}", "False1[]"},
           {"{{ 'a'.replace('a', new='b') }}", "!takes no keyword arguments"},
           {"{{ 'a' + 1 }}", "!can only concatenate str"},
           {"{{ x + 'a' }}", "!'x' is undefined"},
           {"{{ 'a' < 1 }}", "!'<' not supported between instances of 'str' and 'int'"},
       }) {
    expect(c);
  }
}

TEST(Language, OperatorsAndLookUp) {
  for (const Case& c : std::initializer_list<Case>{
           {"{{ 'a' in 'abc' }}{{ 1 in [1] }}{{ 'a' not in {'a':1} }}{{ not 1 }}{{ 1 < 2 < 3 }}{{ "
            "1 == 1.0 }}{{ '1' == 1 }}{{ [1] < [2] }}",
            "TrueTrueFalseFalseTrueTrueFalseTrue"},
           {"{{ 1 and 2 }} {{ 0 or 'b' }} {{ not x is defined }} {{ -1|abs }} {{ 2**3**2 }} {{ 1 - "
            "-1 }} {{ 'y' if 1 else 'n' }}|{{ 1 if false }}|",
            "2 b True 1 64 2 y||"},
           {"{{ 'abcdef'[1:3] }} {{ 'abcdef'[::-1] }} {{ [1,2,3][-1] }} {{ [1,2,3][5] }}|{{ "
            "'abc'[7] }}|{{ 'h\xC3\xA9llo'[1] }}{{ [1,2,3,4][-3:-1] }}{{ [1,2,3][::2] }}",
            "bc fedcba 3 ||\xC3\xA9[2, 3][1, 3]"},
           {"{{ m.a.b }}{{ m['a'].c }}|{{ m.items() | list | length }}|{{ m.get('z', 'd') }}|{{ "
            "m.get('z') }}",
            "1|1|d|None",
            R"({"m":{"a":{"b":1}}})"},
           {"{{ m.x.y }}", "!'dict object' has no attribute 'x'", R"({"m":{}})"},
           {"{{ [1].append(2) }}", "!access to attribute 'append' of 'list' object is unsafe."},
           {"{{ ''.__class__ }}|{{ {}.pop is defined }}", "|False"},
           {"{{ 'a'() }}", "!'str' object is not callable"},
           {"{{ raise_exception('no ' ~ 1) }}", "!no 1"},
           {"{{ strftime_now('%d %b %Y %B %H:%M %-d %j %A') }}",
            "26 Jul 2024 July 12:34 26 208 Friday"},
           {"{{ dict(a=1) }}", "{'a': 1}"},
       }) {
    expect(c);
  }
}

TEST(Language, Filters) {
  for (const Case& c : std::initializer_list<Case>{
           {"{{ 'a,b'|upper }} {{ 'hello wORLD foo-bar'|title }} {{ 'hELLO'|capitalize }} {{ "
            "'abc'|reverse }} {{ 'abc'|first }} {{ [3,1,2]|sort }} {{ ['b','A']|sort }}",
            "A,B Hello World Foo-Bar Hello cba a [1, 2, 3] ['A', 'b']"},
           {"{{ {'b':1,'a':2}|dictsort }} {{ [1,2,3]|select('odd')|list }} {{ "
            "[{'a':1},{'a':2}]|map(attribute='a')|join(',') }} {{ "
            "[{'a':1},{'b':2}]|selectattr('a','defined')|list }}",
            "[('a', 2), ('b', 1)] [1, 3] 1,2 [{'a': 1}]"},
           {"{{ [1,2,3]|batch(2)|list }} {{ [1,2,3]|slice(2)|list }} {{ [1,2]|sum }} {{ 3.7|int }} "
            "{{ '3x'|int(5) }} {{ '3.5'|float }} {{ 2.5|round }} {{ 2.567|round(2) }} {{ -3|abs }}",
            "[[1, 2], [3]] [[1, 2], [3]] 3 3 5 3.5 2.0 2.57 3"},
           {"{{ {'a': 1, 'b': [1, 2.0, none, true, '\xC3\xA9\"\\n']} | tojson }} {{ "
            "[1,2]|tojson(indent=2) }} {{ {'b':1,'a':{'c':[]}}|tojson(indent=4, sort_keys=true) }} "
            "{{ '\xC3\xA9'|tojson(ensure_ascii=true) }} {{ {}|tojson(indent=2)}} {{ "
            "[1,{'a':2}]|tojson(separators=(',',':')) }}",
            "{\"a\": 1, \"b\": [1, 2.0, null, true, \"\xC3\xA9\\\"\\n\"]} [\n  1,\n  2\n] {\n    "
            "\"a\": {\n        \"c\": []\n    },\n    \"b\": 1\n} \"\\u00e9\" {} [1,{\"a\":2}]"},
           {"{{ x|tojson }}", "!Undefined is not JSON serializable"},
           {"{{ '<a>&\"'|escape }} {{ 'a\\nb\\n\\nc'|indent(2) }}",
            "&lt;a&gt;&amp;&#34; a\n  b\n\n  c"},
           {"{{ [1,2,1]|unique|list }} {{ [1,2]|min }} {{ [1,2]|max }} {{ [1,2]|last }} {{ "
            "[]|first }}|{{ [{'a':1,'b':2}]|groupby('a') }} {{ 'abab'|replace('a','x', 1) }}",
            "[1, 2] 1 2 2 |[(1, [{'a': 1, 'b': 2}])] xbab"},
           {"{{ x|default('d') }} {{ ''|default('e', true) }} {{ none|default('f') }} {{ x|length "
            "}} {{ 'h\xC3\xA9'|length }} {{ 5|string + 'a' }} {{ ' a '|trim }}|{{ 'xax'|trim('x') "
            "}}|{{ 'ab'|list }}",
            "d e None 0 2 5a a|a|['a', 'b']"},
           {"{{ none|length }}", "!object of type 'NoneType' has no len()"},
           {"{{ 'a' | nofilter }}", "!line 1: filter 'nofilter' is not supported"},
       }) {
    expect(c);
  }
}

TEST(Language, TestsAndMethods) {
  for (const Case& c : std::initializer_list<Case>{
           {"{{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ 'a' is lower }} {{ 1 is number }} {{ 1.0 "
            "is float }} {{ true is integer }} {{ {} is sequence }} {{ {} is mapping }} {{ 1 is "
            "sameas 1 }} {{ 1 is in [1] }} {{ none is none }} {{ 1 is iterable }} {{ true is "
            "boolean }} {{ x is not defined }} {{ 1 is eq 1 }}",
            "True True True True True False True True True True True False True True True"},
           {"{{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'x'.join(['a','b']) }} {{ "
            "'abc'.find('c') }} {{ 'aXbX'.rsplit('X',1) }} {{ 'abc'.title() }} {{ ' a '.strip() }} "
            "{{ 'xxa'.lstrip('x') }} {{ 'abc'.count('b') }} {{ 'a\\nb'.splitlines() }}",
            "['a', 'b', 'c'] ['a', 'b,c'] axb 2 ['aXb', ''] Abc a a 1 ['a', 'b']"},
           {"{{ [1,2].index(2) }} {{ [1,1].count(1) }} {{ 'abc'.partition('b') }} {{ "
            "'abc'.startswith(('x','a')) }} {{ 'abc'.endswith('c') }} {{ 'abc'.removeprefix('a') "
            "}}",
            "1 2 ('a', 'b', 'c') True True bc"},
           {"{{ '\xC3\xA9'.upper() }} {{ '\xC3\x9F'.upper() }} {{ '12'.isdigit() }} {{ "
            "'ab1'.isalnum() }} {{ 'ab'.isalpha() }}",
            "\xC3\x89 SS True True True"},
           {"{{ 'a' is notest }}", "!line 1: test 'notest' is not supported"},
           {"{{ [1,2].get() }}", "!'list object' has no attribute 'get'"},
       }) {
    expect(c);
  }
}

TEST(Language, WhiteSpaceControl) {
  for (const Case& c : std::initializer_list<Case>{
           {"a\n  {% if true %}\n  b\n  {% endif %}\nc\n  {#- x -#}\n d {%+ if true %} e{% endif "
            "+%}\nz\n",
            "a\n  b\ncd  e\nz"},
           {"{% raw %}{{ x }}{% endraw %}{# c #}{{- ' a ' -}}  b", "{{ x }} a b"},
           {"  {{ 1 }}\n  {{- 2 }}\n", "  12"},
           {"x\r\ny\rz\n", "x\ny\nz"},
           {"a {%- raw -%} b {%- endraw -%} c", "abc"},
           {"{% if true -%}\n  a\n{%- endif %}", "a"},
           {"{{ '{{' }}{{ \"%}\" }}", "{{%}"},
       }) {
    expect(c);
  }
}

TEST(Language, SyntaxErrorsNameTheLine) {
  for (const Case& c : std::initializer_list<Case>{
           {"a\n{% foo %}", "!line 2: tag 'foo' is not supported"},
           {"{% if x %}", "!missing 'endif'"},
           {"a\n{% endif %}", "!line 2: unexpected 'endif'"},
           {"{{ 1", "!missing end of print statement"},
           {"{{ 'a }}", "!unexpected end of a string"},
           {"{% include 'a' %}", "!line 1: tag 'include' is not supported"},
           {"{{ ) }}", "!unexpected ')'"},
           {"{# a", "!missing end of comment"},
           {"{{ 0x }}", "!out of range"},
           {"{% set true = 1 %}", "!cannot assign"},
           {"{% for x %}{% endfor %}", "!expected 'in'"},
       }) {
    expect(c);
  }
}

TEST(Language, TruncatedTemplatesNeverCrash) {
  const std::string source =
      "{% macro m(a, b=[1, {'k': (2,)}]) -%}{{ a | join(', ') ~ b[0][::-1] }}{%- endmacro %}{% for "
      "x in y if x is not none recursive %}"
      "{% set ns.z %}{{ loop.index + 1.5e3 * -2 }}{% endset %}{% else %}{# c #}{% raw %}r{% endraw "
      "%}{% endfor %}{% call(u) m(1) %}{% endcall %}";
  for (std::size_t n = 0; n <= source.size(); ++n) render({source.substr(0, n).c_str(), ""});
}

}  // namespace
}  // namespace coxswain::chat
