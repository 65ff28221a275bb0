#pragma once
// What the handles of the C API are, and how its functions report.
//
// Thread rule: pure functions.

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include <coxswain/coxswain.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/request.h>
#include <coxswain/session.h>
#include <coxswain/status.h>

struct coxswain_model {
  coxswain::LocalModel model;
};
struct coxswain_prompt {
  coxswain::Prompt prompt;
};
struct coxswain_engine {
  coxswain_engine(const coxswain::LocalModel& model,
                  coxswain::ExecutorOptions options,
                  coxswain::SessionsOptions sessions_options)
      : executor(model, std::move(options)), sessions(executor, sessions_options) {}

  coxswain::Executor executor;
  coxswain::Sessions sessions;
};
struct coxswain_session {
  coxswain::Session session;
};

namespace coxswain::library {

inline coxswain_code report(const Status& status, char** error) noexcept {
  if (!status.ok() && error != nullptr) *error = ::strdup(status.message().c_str());
  return static_cast<coxswain_code>(status.code());
}

// Runs `body`, which returns a Status; what it throws becomes one.
template <typename Body>
coxswain_code guarded(char** error, Body body) noexcept {
  try {
    return report(body(), error);
  } catch (const std::bad_alloc&) {
    if (error != nullptr) *error = ::strdup("out of memory");
    return COXSWAIN_RESOURCE_EXHAUSTED;
  } catch (const std::exception& thrown) {
    if (error != nullptr) *error = ::strdup(thrown.what());
    return COXSWAIN_INTERNAL;
  }
}

inline Status must_be_set(const char* name) {
  return invalid_argument("`" + std::string(name) + "` must not be NULL", name);
}

// Gives the handle of `made` to the caller.
template <typename Handle, typename Value>
Status hand_out(Result<Value> made, Handle** out) {
  if (!made.ok()) return made.status();
  *out = new Handle{std::move(made).value()};
  return {};
}

}  // namespace coxswain::library
