#include "coxswain/session.h"

#include <utility>

#include "library/session_table.h"

namespace coxswain {

SessionCode session_code(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return SessionCode::kOk;
    case Code::kInvalidArgument:
      return status.kind() == ErrorKind::kContextLength ? SessionCode::kTooLong
                                                        : SessionCode::kInvalid;
    case Code::kNotFound:
      return SessionCode::kInvalid;
    case Code::kFailedPrecondition:
      return SessionCode::kConflict;
    case Code::kResourceExhausted:
      return SessionCode::kOutOfMemory;
    case Code::kCancelled:
      return SessionCode::kCancel;
    case Code::kDeadlineExceeded:
    case Code::kUnavailable:
    case Code::kUnimplemented:
    case Code::kDataLoss:
    case Code::kInternal:
      return SessionCode::kFail;
  }
  return SessionCode::kFail;
}

SessionCode session_code(const Response& response) {
  if (response.final && response.status.ok()) return SessionCode::kFinish;
  return session_code(response.status);
}

Session::Session(std::shared_ptr<library::SessionTable> table,
                 std::shared_ptr<library::SessionState> state)
    : table_(std::move(table)), state_(std::move(state)) {}

std::uint64_t Session::id() const {
  return state_->id;
}

std::vector<TokenId> Session::history() const {
  return table_->history(*state_);
}

Status Session::step(std::int64_t n_tokens) {
  return table_->step(*state_, n_tokens);
}

Status Session::append(std::span<const TokenId> ids) {
  return table_->append(*state_, ids);
}

Status Session::enqueue(Request turn) {
  return table_->enqueue(*state_, std::move(turn));
}

Response Session::await() {
  return await(std::chrono::milliseconds::max());
}

Response Session::await(std::chrono::milliseconds timeout) {
  return table_->await(*state_, timeout);
}

void Session::cancel() {
  table_->cancel(*state_);
}

Status Session::save(const std::string& path) const {
  return table_->save(*state_, path);
}

Status Session::end() {
  return table_->end(*state_);
}

Status Session::kill() {
  return table_->kill(*state_);
}

Sessions::Sessions(Executor& engine, SessionsOptions options)
    : table_(std::make_shared<library::SessionTable>(engine, options)) {}

Sessions::~Sessions() {
  table_->kill_all();
}

Result<Session> Sessions::start(std::uint64_t id) {
  COXSWAIN_ASSIGN_OR_RETURN(auto state, table_->start(id));
  return Session(table_, std::move(state));
}

Result<Session> Sessions::restore(std::uint64_t id, const std::string& path, Restore what) {
  COXSWAIN_ASSIGN_OR_RETURN(auto state, table_->restore(id, path, what));
  return Session(table_, std::move(state));
}

Result<Session> Sessions::find(std::uint64_t id) const {
  COXSWAIN_ASSIGN_OR_RETURN(auto state, table_->find(id));
  return Session(table_, std::move(state));
}

std::size_t Sessions::n_sessions() const {
  return table_->n_sessions();
}

std::size_t Sessions::n_tokens() const {
  return table_->n_tokens();
}

}  // namespace coxswain
