#pragma once
// FunctionRef<R(Args...)>: a borrowed callable, two words, no allocation. For parameters only: it
// must not outlive the callable it was made from. Thread rule: that of the callable.

#include <memory>
#include <type_traits>
#include <utility>

namespace coxswain::base {

template <typename Signature>
class FunctionRef;

template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, F&, Args...>)
  // The constraint above keeps copies away from this constructor.
  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
  FunctionRef(F&& callable)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace coxswain::base
