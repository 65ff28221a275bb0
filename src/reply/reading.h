#pragma once
// Reading<T>: a coroutine that reads an answer that arrives in pieces, and yields a T.
//
// Written this way, a format is read from front to back as if all of its text were there, and stops where text is
// missing. Readings may await one another to any depth: a Driver resumes the innermost, so that the machine's stack
// does not grow with the nesting.
//
// Thread rule: a Driver and its readings belong to one thread. Destroying the outermost reading destroys all.

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace coxswain::reply {

class Driver {
 public:
  // Resumes until a reading waits for text or the outermost has ended.
  void run() {
    waiting_ = false;
    while (current_ && !waiting_) current_.resume();
  }
  void wait() { waiting_ = true; }
  void set_current(std::coroutine_handle<> handle) { current_ = handle; }

 private:
  std::coroutine_handle<> current_;
  bool waiting_ = false;
};

// The result of a reading that has none.
struct Done {};

template <typename T>
class [[nodiscard]] Reading {
 public:
  class promise_type;  // NOLINT(readability-identifier-naming): the language asks for this name
  using Handle = std::coroutine_handle<promise_type>;

  Reading(Reading&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  Reading& operator=(Reading&&) = delete;
  ~Reading() {
    if (handle_) handle_.destroy();
  }

  // Makes this the outermost reading of `driver`.
  void start(Driver& driver) {
    handle_.promise().driver = &driver;
    driver.set_current(handle_);
  }

  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  void await_suspend(std::coroutine_handle<Promise> parent) noexcept {
    promise_type& promise = handle_.promise();
    promise.driver = parent.promise().driver;
    promise.parent = parent;
    promise.driver->set_current(handle_);
  }
  T await_resume() { return std::move(*handle_.promise().value); }

 private:
  explicit Reading(Handle handle) : handle_(handle) {}

  Handle handle_;
};

template <typename T>
// NOLINTNEXTLINE(readability-identifier-naming): see above
class Reading<T>::promise_type {
 public:
  // Gives the turn back to whoever awaits the result.
  struct Return {
    bool await_ready() const noexcept { return false; }
    void await_suspend(Handle ended) noexcept {
      ended.promise().driver->set_current(ended.promise().parent);
    }
    void await_resume() const noexcept {}
  };

  Reading get_return_object() { return Reading(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() const noexcept { return {}; }
  Return final_suspend() const noexcept { return {}; }
  void return_value(T result) { value.emplace(std::move(result)); }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

  Driver* driver = nullptr;
  std::coroutine_handle<> parent;
  std::optional<T> value;
};

}  // namespace coxswain::reply
