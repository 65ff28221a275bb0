#pragma once
// What an interpreter enters and must leave on every path. For the files of the interpreter alone.

#include "chat/interpreter.h"

namespace coxswain::chat {

// Enters a new scope below `parent`, and leaves it on every path.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter),
        outer_(interpreter.scope_),
        scope_(interpreter.new_scope(parent)) {
    interpreter_.scope_ = scope_;
  }
  ~ScopeGuard() {
    interpreter_.scope_ = outer_;
    interpreter_.release_scope(scope_);
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* outer_;
  Scope* scope_;
};

// Counts one node or statement as long as it is evaluated: however a program winds its macros,
// loops and expressions into each other, the stack holds them.
class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.depth_ > kDepthMax)
      fail("the template runs nested deeper than " + std::to_string(kDepthMax));
  }
  ~DepthGuard() { --interpreter_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  static constexpr std::size_t kDepthMax = 2000;

  Interpreter& interpreter_;
};

class Interpreter::RecursionGuard {
 public:
  explicit RecursionGuard(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.recursion_ > interpreter_.limits_.recursion_max) {
      fail("the template recurses deeper than " +
           std::to_string(interpreter_.limits_.recursion_max));
    }
  }
  ~RecursionGuard() { --interpreter_.recursion_; }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace coxswain::chat
