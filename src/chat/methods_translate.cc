// str.maketrans() and str.translate().

#include "chat/format_spec.h"
#include "chat/interpreter.h"
#include "chat/methods.h"

namespace coxswain::chat {
namespace {

Value code_of(std::string_view character) {
  std::size_t length = 0;
  return Value::integer(static_cast<std::int64_t>(code_point_at(character, 0, &length)));
}

const Text& text_argument(const Arguments& arguments, std::size_t index) {
  const Value& value = arguments.positional[index];
  require_defined(value);
  if (!value.is_string())
    fail("maketrans() argument " + std::to_string(index + 1) + " must be str, not " +
         type_name(value));
  return value.as_text();
}

// maketrans({..}): keys are numbers or single characters.
Value table_of(const Value& mapping) {
  if (!mapping.is_dict()) fail("if you give only one argument to maketrans it must be a dict");
  Dict out;
  for (const auto& [key, value] : mapping.as_dict().items()) {
    if (key.is_whole()) {
      out.set(key, value);
    } else if (!key.is_string()) {
      fail("keys in translate table must be strings or integers");
    } else if (count_code_points(key.as_bytes()) != 1) {
      fail("string keys in translate table must be of length 1");
    } else {
      out.set(code_of(key.as_bytes()), value);
    }
  }
  return Value::dict(std::move(out));
}

}  // namespace

Value make_translation(Interpreter& interpreter, const Text&, const Arguments& arguments) {
  const std::size_t n = arguments.positional.size();
  if (n == 0 || n > 3) fail("maketrans expected 1 to 3 arguments, got " + std::to_string(n));
  if (n == 1) return table_of(arguments.positional[0]);
  const Text& from = text_argument(arguments, 0);
  const Text& to = text_argument(arguments, 1);
  const auto from_at = code_point_offsets(from.bytes);
  const auto to_at = code_point_offsets(to.bytes);
  if (from_at.size() != to_at.size())
    fail("the first two maketrans arguments must have equal length");
  interpreter.charge(from_at.size());
  Dict out;
  for (std::size_t i = 0; i + 1 < from_at.size(); ++i) {
    out.set(code_of(std::string_view(from.bytes).substr(from_at[i])),
            code_of(std::string_view(to.bytes).substr(to_at[i])));
  }
  if (n == 3) {
    const Text& gone = text_argument(arguments, 2);
    const auto gone_at = code_point_offsets(gone.bytes);
    interpreter.charge(gone_at.size());
    for (std::size_t i = 0; i + 1 < gone_at.size(); ++i)
      out.set(code_of(std::string_view(gone.bytes).substr(gone_at[i])), Value::none());
  }
  return Value::dict(std::move(out));
}

Value translate(Interpreter& interpreter, const Text& text, const Arguments& arguments) {
  if (arguments.positional.size() != 1) fail("str.translate() takes exactly one argument");
  const Value& table = arguments.positional[0];
  require_defined(table);
  if (!table.is_dict() && !table.is_string() && !is_indexable(table))
    fail("'" + type_name(table) + "' object is not subscriptable");
  interpreter.charge(text.bytes.size() / 4);
  Text out;
  for (std::size_t at = 0; at < text.bytes.size();) {
    std::size_t length = 0;
    const Value code =
        Value::integer(static_cast<std::int64_t>(code_point_at(text.bytes, at, &length)));
    const Text character = text.slice(at, at + length);
    at += length;
    const Value* member = table.is_dict() ? table.as_dict().find(code) : nullptr;
    const Value mapped = member != nullptr ? *member
                         : table.is_dict() ? Value()
                                           : interpreter.item(table, code);
    const std::size_t before = out.bytes.size();
    if (mapped.is_undefined()) {
      out.append(character);
    } else if (mapped.is_integral()) {
      out.append(Text::like(character, character_of(mapped)));
    } else if (mapped.is_string()) {
      out.append(mapped.as_text());
    } else if (!mapped.is_none()) {
      fail("character mapping must return integer, None or str");
    }
    interpreter.grow_output(before, out.bytes.size());
  }
  return Value::string(std::move(out));
}

}  // namespace coxswain::chat
