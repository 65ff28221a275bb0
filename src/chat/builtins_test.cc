// The built-in filters, functions and blocks that chat templates seldom use: template and the text
// that Jinja2 gives.

#include <string>

#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/testing/render_text.h"

namespace coxswain::chat {
namespace {

constexpr std::string_view kVariables = R"({
  "html": "<a>T & 'q'</a>", "on": true, "off": false, "id": 12345678901234567890,
  "nest": [[1, "<"], "&"]})";

std::string render(std::string_view source) {
  return render_text(source, kVariables);
}

bool fails(std::string_view source) {
  return render(source).starts_with('!');
}

TEST(Builtins, IntegersBeyond64Bits) {
  EXPECT_EQ(render("{{ id }} {{ id|tojson }} {{ {'a': id}|tojson }} {{ [id] }}"),
            R"(12345678901234567890 12345678901234567890 {"a": 12345678901234567890} )"
            "[12345678901234567890]");
  EXPECT_EQ(
      render("{{ 9223372036854775807 + 1 }} {{ -id // 7 }} {{ -id % 1000 }} {{ 2 ** 70 }} "
             "{{ 9007199254740993 / 1 }} {{ id > 1e19 }} {{ 9007199254740993 == 2.0 ** 53 }}"),
      "9223372036854775808 -1763668414462081128 110 1180591620717411303424 "
      "9007199254740992.0 True False");
  EXPECT_EQ(render("{{ '%d' % id }} {{ '{:,}'.format(id) }} {{ '%x' % id }} {{ id|float }} "
                   "{{ id|round(-5) }} {{ id is even }} {{ '123456789012345678901'|int + 1 }}"),
            "12345678901234567890 12,345,678,901,234,567,890 ab54a98ceb1f0ad2 "
            "1.2345678901234567e+19 12345678901234600000 True 123456789012345678902");
  EXPECT_EQ(render("{{ 10 ** 4300 }}"),
            "!Exceeds the limit (4300 digits) for integer string conversion");
  EXPECT_TRUE(fails("{{ 10 ** 100000 > 1 }}"));
  EXPECT_TRUE(fails("{{ (10 ** 400) * 1.0 }}"));
}

TEST(Builtins, FormatSpecifications) {
  EXPECT_EQ(render("{{ '{:>{w}}|{:08,d}|{:+.1e}|{:.3}|{:_x}|{!a:^7}|{0}'.replace('{0}', '')"
                   ".format('a', 1234, 1500.0, 123456.0, 70000, 'é', w=3) }}"),
            "  a|0,001,234|+1.5e+03|1.23e+05|1_1170|'\\xe9' |");
  EXPECT_EQ(render("{{ '{a[x][1]}{0.real:03d}'.format(7, a={'x': [1, 2]}) }}"), "2007");
  EXPECT_EQ(render("{{ '%+05d|%-5s|%5.1f|%#x|%(k)s' % {'k': 1} }}").substr(0, 1), "!");
  EXPECT_EQ(render("{{ '%+05d|%-5s|%*d|%.3d|%F|%%' % (3, 'a', 4, 5, 6, 1e400) }}"),
            "+0003|a    |   5|006|INF|%");
  EXPECT_EQ(render("{{ '{:5}|{:<05}|{:%}|{:g}'.format('é', 'b', 0.5, 1e20) }}"),
            "é    |b0000|50.000000%|1e+20");
  for (const char* wrong : {"{{ '{'.format(1) }}",
                            "{{ '{} {0}'.format(1) }}",
                            "{{ '{:d}'.format('x') }}",
                            "{{ '{:5}'.format(none) }}",
                            "{{ '{:.2d}'.format(1) }}",
                            "{{ '%c' % 'ab' }}",
                            "{{ '%d' % 'x' }}"})
    EXPECT_TRUE(fails(wrong)) << wrong;
}

TEST(Builtins, AutoescapeBlocks) {
  EXPECT_EQ(render("{% autoescape true %}{{ html }}{{ html|safe }}{% endautoescape %}{{ html }}"),
            "&lt;a&gt;T &amp; &#39;q&#39;&lt;/a&gt;<a>T & 'q'</a><a>T & 'q'</a>");
  EXPECT_EQ(render("{% macro m(x) %}<{{ x }}>{% endmacro %}{% autoescape on %}{{ m('<') ~ '<' }}"
                   "{% autoescape off %}{{ '<' }}{% endautoescape %}{% endautoescape %}"),
            "&lt;&lt;&gt;&lt;<");
  EXPECT_EQ(render("{% autoescape true %}{{ m }}{% set q %}<b>{{ '<' }}{% endset %}{{ q }}"
                   "{{ ['<', '>'|safe]|join('&') }}{{ {'a': '<'}|xmlattr }}{% endautoescape %}"),
            R"(<b>&lt;&lt;&amp;> a="&lt;")");
  EXPECT_EQ(render("{% autoescape true %}{% for x in nest recursive %}[{{ loop(x) if x is not "
                   "string and x is iterable else x }}]{% endfor %}{% endautoescape %}"),
            "[[1][&lt;]][&amp;]");
}

TEST(Builtins, SafeTextsKeepToTheRules) {
  EXPECT_EQ(render("{{ ('<'|safe * 2)|pprint }}{{ ('ab'|safe)[0]|pprint }}"
                   "{{ ('&lt;&eacute;&#65;'|safe).unescape() }}{{ ('<{}>'|safe).format(['<']) }}"
                   "{{ ('%r'|safe) % '<' }}"),
            "Markup('<<')Markup('a')<éA<[&#39;&lt;&#39;]>&#39;&lt;&#39;");
  EXPECT_EQ(render("{{ '<!-- a > b --><p>x  y</p>&hellip;&#128;'|striptags }}"), "x y…€");
}

TEST(Builtins, Urlize) {
  EXPECT_EQ(render("{{ '(http://a.org/b(c)) www.x.de, me@b.co xy.info ftp://a.b http://[::1]'"
                   "|urlize }}"),
            R"html((<a href="http://a.org/b(c)" rel="noopener">http://a.org/b(c)</a>) )html"
            R"html(<a href="https://www.x.de" rel="noopener">www.x.de</a>, )html"
            R"html(<a href="mailto:me@b.co">me@b.co</a> )html"
            R"html(<a href="https://xy.info" rel="noopener">xy.info</a> ftp://a.b )html"
            R"html(<a href="http://[::1]" rel="noopener">http://[::1]</a>)html");
  EXPECT_EQ(
      render("{{ 'http://example.com tel:1'|urlize(8, true, '_x', extra_schemes=['tel:']) }}"),
      R"html(<a href="http://example.com" rel="nofollow noopener" target="_x">http://e...</a> )html"
      R"html(<a href="tel:1" rel="nofollow noopener" target="_x">tel:1</a>)html");
  EXPECT_TRUE(fails("{{ 'a'|urlize(extra_schemes=['t:']) }}"));
}

TEST(Builtins, Wordwrap) {
  EXPECT_EQ(render("{{ 'the  quick-brown fox--jumped over well-known things'|wordwrap(9) }}"),
            "the\nquick-\nbrown fox\n--jumped\nover\nwell-\nknown\nthings");
  EXPECT_EQ(render("{{ 'abcdefgh-ijklmnop x'|wordwrap(6, true, '|') }}"), "abcdef|gh-ijk|lmnop|x");
  EXPECT_EQ(render("{{ '  a-b-c-defgh'|wordwrap(5, false, '|', false) }}"), "a-b-c-defgh");
}

TEST(Builtins, PprintBreaksWhatIsLong) {
  EXPECT_EQ(render("{{ {'b': 'word ' * 20, 'a': ['x' * 60, 'y' * 20]}|pprint }}"),
            "{'a': ['xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',\n"
            "       'yyyyyyyyyyyyyyyyyyyy'],\n"
            " 'b': 'word word word word word word word word word word word word word word '\n"
            "      'word word word word word word '}");
  EXPECT_EQ(render("{{ {2: 1, 'b': 0, 1: 2}|pprint }}"), "{1: 2, 2: 1, 'b': 0}");
}

TEST(Builtins, WhatIsRandomIsTheSameEachTime) {
  EXPECT_EQ(render("{{ ['only']|random }}{{ []|random }}"), "only");
  const std::string source = "{{ range(1000)|random }} {{ lipsum(2, html=false, min=3, max=9) }}";
  EXPECT_EQ(render(source), render(source));
  EXPECT_EQ(render("{% for p in lipsum(3).split('\n') %}{{ p[:3] }}{{ p[-5:] }}{% endfor %}"),
            "<p>.</p><p>.</p><p>.</p>");
  EXPECT_TRUE(fails("{{ none|random }}"));
  EXPECT_TRUE(fails("{{ lipsum(1, true, 5, 5) }}"));
}

TEST(Builtins, OtherTemplatesAreRefusedWhereTheyAreRead) {
  EXPECT_EQ(render("{% if off %}{% include 'x' %}{% endif %}a"), "a");
  EXPECT_TRUE(fails("{% include 'x' %}"));
  EXPECT_TRUE(fails("{% extends 'x' %}"));
}

TEST(Builtins, BlocksSeeWhatIsSetOutside) {
  EXPECT_EQ(render("{% set a = 1 %}{% for i in [2] %}{% block b %}{{ a }}{{ i }}{% endblock %}"
                   "{% block c scoped %}{{ i }}{% endblock c %}{% endfor %}"),
            "12");
  EXPECT_TRUE(fails("{% block a %}{% endblock %}{% block a %}{% endblock %}"));
}

}  // namespace
}  // namespace coxswain::chat
