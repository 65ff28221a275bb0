// Methods and attributes of int and float.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "chat/arithmetic.h"
#include "chat/methods.h"

namespace coxswain::chat {
namespace {

// A bool as the int that it is.
Value as_number(const Value& number) {
  return number.is_bool() ? Value::integer(number.as_int()) : number;
}

Value bit_length(const Value& number) {
  return Value::integer(static_cast<std::int64_t>(number.to_big_int().bit_length()));
}

Value bit_count(const Value& number) {
  return Value::integer(std::ranges::count(number.to_big_int().magnitude_digits(2), '1'));
}

Value is_whole_number(const Value& number) {
  if (number.is_whole()) return Value::boolean(true);
  const double real = number.as_double();
  return Value::boolean(std::isfinite(real) && real == std::trunc(real));
}

Value integer_ratio(const Value& number) {
  if (number.is_whole()) return Value::tuple({as_number(number), Value::integer(1)});
  const double real = number.as_double();
  if (std::isnan(real)) fail("cannot convert NaN to integer ratio");
  if (std::isinf(real)) fail("cannot convert Infinity to integer ratio");
  int exponent = 0;
  double mantissa = std::frexp(real, &exponent);
  while (mantissa != std::trunc(mantissa)) {
    mantissa *= 2;
    --exponent;
  }
  const BigInt scale = BigInt(2).power(static_cast<std::uint64_t>(std::abs(exponent)));
  const BigInt whole = BigInt::from_double(mantissa);
  return Value::tuple({Value::integer(exponent > 0 ? whole * scale : whole),
                       Value::integer(exponent < 0 && mantissa != 0 ? scale : BigInt(1))});
}

// 0x1.8000000000000p+1
Value hex(const Value& number) {
  const double real = number.as_double();
  if (std::isnan(real)) return Value::string("nan");
  const std::string sign = std::signbit(real) ? "-" : "";
  if (std::isinf(real)) return Value::string(sign + "inf");
  if (real == 0) return Value::string(sign + "0x0.0p+0");
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.13a", real);
  return Value::string(buffer.data());
}

Value no_bytes(const Value&) {
  fail("int.to_bytes() gives bytes, which templates here do not have");
}

struct NumberMethod {
  std::string_view name;
  bool of_int;
  bool of_float;
  Value (*apply)(const Value& number);
};

constexpr NumberMethod kMethods[] = {
    {"bit_length", true, false, bit_length},
    {"bit_count", true, false, bit_count},
    {"to_bytes", true, false, no_bytes},
    {"is_integer", true, true, is_whole_number},
    {"as_integer_ratio", true, true, integer_ratio},
    {"conjugate", true, true, as_number},
    {"hex", false, true, hex},
};

}  // namespace

Value find_number_method(const Value& object, std::string_view name) {
  const auto* method = std::ranges::find(kMethods, name, &NumberMethod::name);
  if (method == std::end(kMethods) || !(object.is_float() ? method->of_float : method->of_int))
    return Value();
  return make_callable([object, method](Interpreter&, const Arguments& arguments) {
    const bool takes_any = method->apply == no_bytes;
    if (!takes_any && !(arguments.positional.empty() && arguments.named.empty()))
      fail(type_name(object) + "." + std::string(method->name) + "() takes no arguments");
    return method->apply(object);
  });
}

Value number_attribute(const Value& number, std::string_view name) {
  if (name == "real") return as_number(number);
  if (name == "imag") return number.is_float() ? Value::real(0) : Value::integer(0);
  if (number.is_float()) return Value();
  if (name == "numerator") return as_number(number);
  return name == "denominator" ? Value::integer(1) : Value();
}

}  // namespace coxswain::chat
