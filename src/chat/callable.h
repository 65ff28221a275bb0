#pragma once
// Callable: functions, methods and macros. Arguments arrive as positional values and named ones, as in Python.
//
// Thread rule: that of the interpreter that calls it.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/value.h"

namespace coxswain::chat {

class Interpreter;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find_named(std::string_view name) const;
  // The argument at `index`, or named `name`; nullptr if it was not given.
  const Value* get(std::size_t index, std::string_view name) const;
  // The same with a default.
  Value get_or(std::size_t index, std::string_view name, const Value& default_value) const;
};

class Callable {
 public:
  virtual ~Callable() = default;
  virtual Value call(Interpreter& interpreter, const Arguments& arguments) const = 0;
  // Attributes such as loop.index; undefined for most.
  virtual Value attribute(Interpreter&, std::string_view) const { return Value(); }
  virtual bool is_macro() const { return false; }
};

// A callable from a plain function object.
template <typename F>
class FunctionCallable : public Callable {
 public:
  explicit FunctionCallable(F function) : function_(std::move(function)) {}
  Value call(Interpreter& interpreter, const Arguments& arguments) const override {
    return function_(interpreter, arguments);
  }

 private:
  F function_;
};

template <typename F>
Value make_callable(F function) {
  return Value::callable(std::make_shared<FunctionCallable<F>>(std::move(function)));
}

}  // namespace coxswain::chat
