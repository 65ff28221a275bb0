#include "serve/crash_report.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <execinfo.h>
#include <string_view>
#include <unistd.h>

namespace coxswain::serve {
namespace {

constexpr int kCallsMax = 64;
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasOwnReport = true;
#else
constexpr bool kHasOwnReport = false;
#endif

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
}

// Only what is allowed in a signal handler. SA_RESETHAND has put the default action back.
void on_crash(int signal) {
  const char* name = sigabbrev_np(signal);
  say("fatal: SIG");
  say(name == nullptr ? "?" : name);
  say(", called from\n");
  std::array<void*, kCallsMax> calls{};
  backtrace_symbols_fd(calls.data(), backtrace(calls.data(), kCallsMax), STDERR_FILENO);
  raise(signal);  // comes once this handler has returned
}

}  // namespace

void report_crashes() {
  if (kHasOwnReport) return;
  // A stack that has overflowed cannot hold the handler.
  static std::array<std::byte, kStackBytes> spare_stack;
  stack_t stack{};
  stack.ss_sp = spare_stack.data();
  stack.ss_size = spare_stack.size();
  sigaltstack(&stack, nullptr);
  // The first call loads a library, which a handler may not.
  std::array<void*, 1> unused{};
  backtrace(unused.data(), 1);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &action, nullptr);
}

}  // namespace coxswain::serve
