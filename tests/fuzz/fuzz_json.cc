// Any text: what parses is written, parses again and is the same; looser limits accept no less;
// any bytes can be quoted.

#include <string>

#include "fuzz/fuzz_input.h"
#include "json/json.h"

namespace {

using coxswain::fuzz::require;
namespace json = coxswain::json;

void check_numbers(const json::Value& value) {
  if (value.is_array()) {
    for (const json::Value& element : value.as_array()) check_numbers(element);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.as_object()) {
      require(value.find(key) == &member, "every member is found by its name");
      check_numbers(member);
    }
  } else if (value.is_number()) {
    require(value.to_double().has_value(), "a number that was read is finite");
    if (const auto number = value.to_int64()) {
      const json::Value again = json::Value::integer(*number);
      require(again.to_int64() == number, "an integer comes back");
    }
    const json::Value real = json::Value::real(*value.to_double());
    require(real.to_double() == value.to_double(), "a double comes back");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  const auto parsed = json::parse(text);
  if (parsed.ok()) {
    check_numbers(*parsed);
    const std::string written = json::write(*parsed);
    const auto again = json::parse(written);
    require(again.ok(), "what was written parses");
    require(*again == *parsed, "what was written is the same value");
    require(json::write(*again) == written, "writing it again gives the same text");
  } else {
    require(!parsed.status().message().empty(), "an error says why");
  }

  json::ParseLimits tight;
  tight.depth_max = 4;
  tight.number_chars_max = 8;
  tight.members_max = 4;
  tight.elements_max = 4;
  const auto limited = json::parse(text, tight);
  require(!limited.ok() || (parsed.ok() && *limited == *parsed), "limits only refuse");

  std::string quoted;
  json::append_quoted(quoted, text);
  const auto string = json::parse(quoted);
  require(string.ok() && string->is_string(), "quoted text parses");
  return 0;
}
