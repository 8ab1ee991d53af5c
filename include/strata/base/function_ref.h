// A reference to a function for calls that end before the caller's callable does. Submissions take
// their descriptions by it, so that one which nobody records costs no memory.

#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace strata {

template <class Signature>
class FunctionRef;

/// A function that is handed down and called before the call it was handed to returns, such as the
/// body of a loop or a description that is wanted now and then. It refers to the caller's callable
/// and owns nothing, so making and passing one takes no memory, unlike a std::function; nobody may
/// keep it. One that refers to nothing is false, and must not be called.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  FunctionRef() = default;
  template <class Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
             std::is_object_v<std::remove_reference_t<Callable>> &&
             std::is_invocable_r_v<Result, Callable&, Args...>)
  FunctionRef(Callable&& callable)  // NOLINT(google-explicit-constructor)
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* to, Args... args) {
          auto& called = *static_cast<std::remove_reference_t<Callable>*>(to);
          return static_cast<Result>(called(std::forward<Args>(args)...));
        }) {}

  [[nodiscard]] explicit operator bool() const { return call_ != nullptr; }
  Result operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  void* callable_ = nullptr;
  Result (*call_)(void* callable, Args... args) = nullptr;
};

}  // namespace strata
