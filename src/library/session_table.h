#pragma once
// SessionTable: the sessions over one Executor, and what they may hold together.
//
//             start()          enqueue()            final response
//    (none) ----------> idle ------------> in a turn --------------> idle, or gone if it shall end
//                         |  end(), kill()     |  kill()
//                         '-----> gone <-------'
//
// Thread rule: any thread; one lock, never held while a response is awaited.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/request.h>
#include <coxswain/session.h>
#include <coxswain/status.h>

#include "base/mutex.h"

namespace coxswain::library {

// Guarded by the lock of its table, but for the id.
struct SessionState {
  std::uint64_t id = 0;
  std::vector<TokenId> ids;
  // Of its last turn: where its blocks are found in the cache.
  std::string cache_salt;
  std::uint32_t rope_length = 0;
  std::size_t n_reserved = 0;  // tokens counted for it: its ids, and what its turn may add
  bool in_turn = false;
  RequestId turn{};
  bool is_awaited = false;
  bool ends = false;  // behind its turn
  bool gone = false;
};

class SessionTable {
 public:
  using StatePtr = std::shared_ptr<SessionState>;

  SessionTable(Executor& engine, SessionsOptions options) : engine_(engine), options_(options) {}

  Result<StatePtr> start(std::uint64_t id) EXCLUDES(mu_);
  Result<StatePtr> find(std::uint64_t id) const;
  std::vector<TokenId> history(const SessionState& s) const;
  Status step(SessionState& s, std::int64_t n_tokens);
  Status append(SessionState& s, std::span<const TokenId> ids);
  Status enqueue(SessionState& s, Request turn);
  Response await(SessionState& s, std::chrono::milliseconds timeout);
  void cancel(const SessionState& s);
  Status save(const SessionState& s, const std::string& path) const;
  Result<StatePtr> restore(std::uint64_t id, const std::string& path, Restore what);
  Status end(SessionState& s);
  Status kill(SessionState& s);
  void kill_all();
  std::size_t n_sessions() const;
  std::size_t n_tokens() const;

 private:
  Result<StatePtr> start_locked(std::uint64_t id) REQUIRES(mu_);
  Status is_idle(const SessionState& s) const REQUIRES(mu_);
  Status has_room(const SessionState& s, std::size_t n_input, std::size_t n_new) const
      REQUIRES(mu_);
  void reserve(SessionState& s, std::size_t n_tokens) REQUIRES(mu_);
  void take(SessionState& s, const Response& piece) REQUIRES(mu_);
  void erase(SessionState& s) REQUIRES(mu_);

  Executor& engine_;
  const SessionsOptions options_;
  mutable base::Mutex mu_;
  std::unordered_map<std::uint64_t, StatePtr> sessions_ GUARDED_BY(mu_);
  std::size_t n_tokens_ GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::library
