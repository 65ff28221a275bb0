#include "library/session_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "batch/prefix_copy.h"
#include "library/engine_request.h"
#include "library/session_file.h"

namespace coxswain::library {
namespace {

Status no_session(std::uint64_t id) {
  return {Code::kNotFound, "session " + std::to_string(id) + " does not exist, or has ended"};
}

Status in_a_turn(std::uint64_t id) {
  return {Code::kFailedPrecondition, "session " + std::to_string(id) + " has a turn already"};
}

// Finds the blocks that the session's last turn has left.
batch::GenerationRequest query_of(const SessionSnapshot& snapshot) {
  batch::GenerationRequest out;
  out.prompt = snapshot.ids;
  out.cache_salt = snapshot.cache_salt;
  const auto n_tokens = static_cast<std::uint32_t>(snapshot.ids.size());
  out.stopping.max_new_tokens = snapshot.rope_length - std::min(n_tokens, snapshot.rope_length);
  return out;
}

Response failed(Status status) {
  return {.final = true, .status = std::move(status)};
}

}  // namespace

Status SessionTable::is_idle(const SessionState& s) const {
  if (s.gone) return no_session(s.id);
  if (s.in_turn) return in_a_turn(s.id);
  return {};
}

Status SessionTable::has_room(const SessionState& s, std::size_t n_input, std::size_t n_new) const {
  const std::size_t n = s.ids.size() + n_input + n_new;
  const std::uint32_t n_max = engine_.total_tokens_max();
  if (n > n_max) {
    return {Code::kInvalidArgument,
            ErrorKind::kContextLength,
            "session " + std::to_string(s.id) + " holds at most " + std::to_string(n_max) +
                " tokens. Given: " + std::to_string(s.ids.size()) + " that it has and " +
                std::to_string(n_input) + " more",
            "prompt"};
  }
  if (n_tokens_ - s.n_reserved + n > options_.tokens_max) {
    return {Code::kResourceExhausted,
            ErrorKind::kOverloaded,
            "`tokens_max` of the sessions is " + std::to_string(options_.tokens_max) +
                ": they hold " + std::to_string(n_tokens_) + " tokens, session " +
                std::to_string(s.id) + " asks for " + std::to_string(n_input + n_new) + " more"};
  }
  return {};
}

void SessionTable::reserve(SessionState& s, std::size_t n_tokens) {
  n_tokens_ = n_tokens_ - s.n_reserved + n_tokens;
  s.n_reserved = n_tokens;
}

void SessionTable::erase(SessionState& s) {
  if (std::exchange(s.gone, true)) return;
  reserve(s, 0);
  s.ids = {};
  sessions_.erase(s.id);
}

Result<SessionTable::StatePtr> SessionTable::start(std::uint64_t id) {
  base::MutexLock lock(mu_);
  return start_locked(id);
}

Result<SessionTable::StatePtr> SessionTable::start_locked(std::uint64_t id) {
  if (const auto it = sessions_.find(id); it != sessions_.end()) {
    if (it->second->in_turn) return in_a_turn(id);
    const StatePtr former = it->second;
    erase(*former);
  }
  if (sessions_.size() >= options_.sessions_max) {
    return Status(Code::kResourceExhausted,
                  ErrorKind::kOverloaded,
                  "`sessions_max` is " + std::to_string(options_.sessions_max) +
                      ": there are as many already");
  }
  auto state = std::make_shared<SessionState>();
  state->id = id;
  sessions_.emplace(id, state);
  return state;
}

Result<SessionTable::StatePtr> SessionTable::find(std::uint64_t id) const {
  base::MutexLock lock(mu_);
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return no_session(id);
  return it->second;
}

std::vector<TokenId> SessionTable::history(const SessionState& s) const {
  base::MutexLock lock(mu_);
  return s.ids;
}

Status SessionTable::step(SessionState& s, std::int64_t n_tokens) {
  base::MutexLock lock(mu_);
  COXSWAIN_RETURN_IF_ERROR(is_idle(s));
  if (n_tokens < 0 || static_cast<std::uint64_t>(n_tokens) >= s.ids.size()) return {};
  s.ids.resize(static_cast<std::size_t>(n_tokens));
  reserve(s, s.ids.size());
  return {};
}

Status SessionTable::append(SessionState& s, std::span<const TokenId> ids) {
  base::MutexLock lock(mu_);
  COXSWAIN_RETURN_IF_ERROR(is_idle(s));
  COXSWAIN_RETURN_IF_ERROR(has_room(s, ids.size(), 0));
  s.ids.insert(s.ids.end(), ids.begin(), ids.end());
  reserve(s, s.ids.size());
  return {};
}

// The lock is held while the engine takes the turn, which does not wait for anything.
Status SessionTable::enqueue(SessionState& s, Request turn) {
  base::MutexLock lock(mu_);
  COXSWAIN_RETURN_IF_ERROR(is_idle(s));
  COXSWAIN_RETURN_IF_ERROR(engine_.status());
  COXSWAIN_RETURN_IF_ERROR(require_one_answer(turn));
  const std::size_t n_input = turn.prompt.ids.size();
  COXSWAIN_RETURN_IF_ERROR(has_room(s, n_input, 1));
  const auto room = static_cast<std::uint32_t>(engine_.total_tokens_max() - s.ids.size() - n_input);
  std::uint32_t& n_new = turn.stopping.max_new_tokens;
  n_new = n_new == 0 ? room : std::min(n_new, room);
  turn.stopping.min_new_tokens = std::min(turn.stopping.min_new_tokens, n_new);
  COXSWAIN_RETURN_IF_ERROR(has_room(s, n_input, n_new));
  turn.prompt.ids.insert(turn.prompt.ids.begin(), s.ids.begin(), s.ids.end());
  std::vector<TokenId> ids = turn.prompt.ids;
  std::string salt = turn.cache_salt;
  const std::size_t n_reserved = ids.size() + n_new;
  COXSWAIN_ASSIGN_OR_RETURN(s.turn, engine_.enqueue_apart(std::move(turn)));
  s.ids = std::move(ids);
  s.cache_salt = std::move(salt);
  s.rope_length = static_cast<std::uint32_t>(n_reserved);
  s.in_turn = true;
  reserve(s, n_reserved);
  return {};
}

void SessionTable::take(SessionState& s, const Response& piece) {
  s.is_awaited = false;
  if (s.gone) return;
  for (const OutputToken& token : piece.tokens) s.ids.push_back(token.id);
  if (!piece.final) return;
  s.in_turn = false;
  reserve(s, s.ids.size());
  if (s.ends) erase(s);
}

Response SessionTable::await(SessionState& s, std::chrono::milliseconds timeout) {
  RequestId turn{};
  {
    base::MutexLock lock(mu_);
    if (s.gone) return failed(no_session(s.id));
    if (!s.in_turn) {
      return failed({Code::kNotFound, "session " + std::to_string(s.id) + " has no turn to await"});
    }
    if (s.is_awaited) {
      return failed({Code::kFailedPrecondition,
                     "session " + std::to_string(s.id) + " is awaited by another thread"});
    }
    s.is_awaited = true;
    turn = s.turn;
  }
  Response piece = engine_.await(turn, timeout);
  base::MutexLock lock(mu_);
  if (s.gone) return failed({Code::kCancelled, "session " + std::to_string(s.id) + " was killed"});
  take(s, piece);
  return piece;
}

// The lock is not held meanwhile: what is written is the session as it was.
Status SessionTable::save(const SessionState& s, const std::string& path) const {
  SessionSnapshot snapshot;
  {
    base::MutexLock lock(mu_);
    COXSWAIN_RETURN_IF_ERROR(is_idle(s));
    snapshot = {.ids = s.ids, .cache_salt = s.cache_salt, .rope_length = s.rope_length};
  }
  COXSWAIN_RETURN_IF_ERROR(engine_.status());
  COXSWAIN_ASSIGN_OR_RETURN(SessionFileWriter file,
                            SessionFileWriter::create(path, engine_.runner_info(), snapshot));
  COXSWAIN_ASSIGN_OR_RETURN(
      const batch::PrefixPieces pieces,
      batch::export_prefix(
          *engine_.engine(), query_of(snapshot), [&](std::uint32_t, const std::string& image) {
            return file.add_piece(image);
          }));
  return file.finish(pieces);
}

Result<SessionTable::StatePtr> SessionTable::restore(std::uint64_t id,
                                                     const std::string& path,
                                                     Restore what) {
  COXSWAIN_RETURN_IF_ERROR(engine_.status());
  SessionSnapshot snapshot;
  if (what == Restore::kIds) {
    COXSWAIN_ASSIGN_OR_RETURN(snapshot, SessionFile::read_ids(path));
  } else {
    COXSWAIN_ASSIGN_OR_RETURN(SessionFile file, SessionFile::open(path, engine_.runner_info()));
    snapshot = file.snapshot();
    Status status = batch::import_prefix(
        *engine_.engine(), query_of(snapshot), file.pieces(), [&](std::uint32_t index) {
          return file.piece(index);
        });
    const Code code = status.code();  // any other one is the engine's, which computes them then
    if (code == Code::kDataLoss || code == Code::kInvalidArgument ||
        code == Code::kFailedPrecondition) {
      return Status(code, "session file `" + path + "`: " + status.message());
    }
  }
  base::MutexLock lock(mu_);
  SessionState empty;
  empty.id = id;
  COXSWAIN_RETURN_IF_ERROR(has_room(empty, snapshot.ids.size(), 0));
  COXSWAIN_ASSIGN_OR_RETURN(StatePtr state, start_locked(id));
  state->ids = std::move(snapshot.ids);
  state->cache_salt = std::move(snapshot.cache_salt);
  state->rope_length = snapshot.rope_length;
  reserve(*state, state->ids.size());
  return state;
}

void SessionTable::cancel(const SessionState& s) {
  base::MutexLock lock(mu_);
  if (s.in_turn) engine_.cancel(s.turn);
}

Status SessionTable::end(SessionState& s) {
  base::MutexLock lock(mu_);
  if (s.gone) return no_session(s.id);
  if (s.in_turn) {
    s.ends = true;
  } else {
    erase(s);
  }
  return {};
}

Status SessionTable::kill(SessionState& s) {
  RequestId turn{};
  {
    base::MutexLock lock(mu_);
    if (s.gone) return no_session(s.id);
    erase(s);
    if (!std::exchange(s.in_turn, false)) return {};
    turn = s.turn;
    engine_.cancel(turn);
  }
  // Its responses are of no use to anybody; the final one comes at once.
  while (!engine_.await(turn).final) {
  }
  return {};
}

void SessionTable::kill_all() {
  std::vector<StatePtr> all;
  {
    base::MutexLock lock(mu_);
    for (const auto& [id, state] : sessions_) all.push_back(state);
  }
  for (const StatePtr& state : all) static_cast<void>(kill(*state));
}

std::size_t SessionTable::n_sessions() const {
  base::MutexLock lock(mu_);
  return sessions_.size();
}

std::size_t SessionTable::n_tokens() const {
  base::MutexLock lock(mu_);
  return n_tokens_;
}

}  // namespace coxswain::library
