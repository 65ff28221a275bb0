// lipsum(): paragraphs of words to fill a page with. The shape is the reference's; words and order
// are this module's, as the reference gives others each time.

#include <algorithm>
#include <array>

#include "chat/functions.h"
#include "chat/interpreter.h"

namespace coxswain::chat {
namespace {

constexpr std::array<std::string_view, 40> kWords{
    "amor",  "aqua",  "arbor",  "ars",  "avis",  "bellum", "bonus", "caelum", "canis",  "carmen",
    "causa", "civis", "corpus", "dies", "domus", "ego",    "equus", "et",     "fama",   "flumen",
    "gens",  "homo",  "ignis",  "iter", "lex",   "locus",  "luna",  "magnus", "manus",  "mare",
    "mens",  "mons",  "nomen",  "nox",  "opus",  "pax",    "rex",   "sol",    "tempus", "vita"};

struct Shape {
  std::int64_t paragraphs = 5;
  bool html = true;
  std::int64_t words_min = 20;
  std::int64_t words_max = 100;  // exclusive
};

Shape shape_of(const Arguments& arguments) {
  Shape out;
  const auto number = [&](std::size_t index, std::string_view name, std::int64_t& into) {
    const Value* value = arguments.get(index, name);
    if (value == nullptr) return;
    if (!value->is_integral())
      fail("'" + type_name(*value) + "' object cannot be interpreted as an integer");
    into = value->as_int();
  };
  number(0, "n", out.paragraphs);
  if (const Value* html = arguments.get(1, "html")) out.html = html->truthy();
  number(2, "min", out.words_min);
  number(3, "max", out.words_max);
  if (out.paragraphs > 0 && out.words_min >= out.words_max)
    fail("empty range for randrange() (" + std::to_string(out.words_min) + ", " +
         std::to_string(out.words_max) + ")");
  return out;
}

// A number in [least, end).
std::int64_t pick(Interpreter& interpreter, std::int64_t least, std::int64_t end) {
  return least +
         static_cast<std::int64_t>(interpreter.random_below(static_cast<std::size_t>(end - least)));
}

std::string paragraph(Interpreter& interpreter, const Shape& shape) {
  const std::int64_t n_words = pick(interpreter, shape.words_min, shape.words_max);
  interpreter.charge(static_cast<std::size_t>(std::max<std::int64_t>(0, n_words)));
  std::string out;
  std::size_t last = kWords.size();
  bool begins_sentence = true;
  std::int64_t last_comma = 0;
  std::int64_t last_stop = 0;
  for (std::int64_t i = 0; i < n_words; ++i) {
    std::size_t word = last;
    while (word == last) word = interpreter.random_below(kWords.size());
    last = word;
    if (!out.empty()) out += ' ';
    out += kWords[word];
    if (begins_sentence) {
      char& initial = out[out.size() - kWords[word].size()];
      initial = static_cast<char>(initial - 'a' + 'A');
      begins_sentence = false;
    }
    if (i - pick(interpreter, 3, 8) > last_comma) {
      last_comma = i;
      last_stop += 2;
      out += ',';
    }
    if (i - pick(interpreter, 10, 20) > last_stop) {
      last_comma = last_stop = i;
      out += '.';
      begins_sentence = true;
    }
  }
  if (out.ends_with(',')) out.pop_back();
  if (!out.ends_with('.')) out += '.';
  return out;
}

}  // namespace

Value call_lipsum(Interpreter& interpreter, const Arguments& arguments) {
  const Shape shape = shape_of(arguments);
  Text out;
  out.safe = shape.html;
  for (std::int64_t i = 0; i < shape.paragraphs; ++i) {
    const std::size_t before = out.bytes.size();
    if (i > 0) out.append(shape.html ? "\n" : "\n\n");
    const std::string text = paragraph(interpreter, shape);
    out.append(shape.html ? "<p>" + text + "</p>" : text);
    interpreter.grow_output(before, out.bytes.size());
  }
  return Value::string(std::move(out));
}

}  // namespace coxswain::chat
