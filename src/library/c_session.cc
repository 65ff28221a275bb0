// The C API's sessions (include/coxswain/coxswain.h) over Sessions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <coxswain/coxswain.h>
#include <coxswain/session.h>
#include <coxswain/status.h>

#include "library/c_handles.h"
#include "library/c_struct.h"
#include "library/c_values.h"

namespace coxswain::library {
namespace {

Status enqueue(coxswain_session* session, const coxswain_request* turn) {
  if (session == nullptr) return must_be_set("session");
  if (turn == nullptr) return must_be_set("turn");
  coxswain_request fields = default_request();
  COXSWAIN_RETURN_IF_ERROR(read_struct(turn, kRequestBytes, "coxswain_request", fields));
  COXSWAIN_ASSIGN_OR_RETURN(Request whole, request_of(fields));
  return session->session.enqueue(std::move(whole));
}

Status await(coxswain_session* session, std::int64_t timeout_ms, coxswain_response* response) {
  if (session == nullptr) return must_be_set("session");
  if (response == nullptr) return must_be_set("response");
  coxswain_response known = empty_response();
  COXSWAIN_RETURN_IF_ERROR(read_struct(response, kResponseBytes, "coxswain_response", known));
  coxswain_response_clear(response);
  write_struct(
      response_of(session->session.await(timeout_of(timeout_ms))), known.struct_size, response);
  return {};
}

}  // namespace
}  // namespace coxswain::library

using namespace coxswain::
    library;  // NOLINT(google-build-using-namespace): of a file that has nothing else

extern "C" {

coxswain_code coxswain_session_start(coxswain_engine* engine,
                                     uint64_t id,
                                     coxswain_session** session,
                                     char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (engine == nullptr) return must_be_set("engine");
    if (session == nullptr) return must_be_set("session");
    return hand_out(engine->sessions.start(id), session);
  });
}

coxswain_code coxswain_session_step(coxswain_session* session, int64_t n_tokens, char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (session == nullptr) return must_be_set("session");
    return session->session.step(n_tokens);
  });
}

coxswain_code coxswain_session_append(coxswain_session* session,
                                      const int32_t* ids,
                                      size_t n_ids,
                                      char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (session == nullptr) return must_be_set("session");
    if (ids == nullptr && n_ids > 0) return must_be_set("ids");
    return session->session.append({ids, n_ids});
  });
}

coxswain_code coxswain_session_enqueue(coxswain_session* session,
                                       const coxswain_request* turn,
                                       char** error) {
  return guarded(error, [&] { return enqueue(session, turn); });
}

coxswain_code coxswain_session_await(coxswain_session* session,
                                     int64_t timeout_ms,
                                     coxswain_response* response,
                                     char** error) {
  return guarded(error, [&] { return await(session, timeout_ms, response); });
}

void coxswain_session_cancel(coxswain_session* session) {
  if (session != nullptr) session->session.cancel();
}

size_t coxswain_session_ids(const coxswain_session* session, int32_t* ids, size_t ids_max) {
  if (session == nullptr) return 0;
  const std::vector<coxswain::TokenId> all = session->session.history();
  if (ids != nullptr) std::copy_n(all.begin(), std::min(all.size(), ids_max), ids);
  return all.size();
}

coxswain_code coxswain_session_end(coxswain_session* session, char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (session == nullptr) return must_be_set("session");
    return session->session.end();
  });
}

coxswain_code coxswain_session_kill(coxswain_session* session, char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (session == nullptr) return must_be_set("session");
    return session->session.kill();
  });
}

void coxswain_session_free(coxswain_session* session) {
  delete session;
}

}  // extern "C"
