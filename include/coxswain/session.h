#pragma once
// Session: a conversation that the program continues turn by turn, rolls back and ends (TurboMind's interactive mode).
//
//     Sessions sessions(engine);
//     auto chat = sessions.start(7);
//     chat->enqueue(turn);                     // a Request; its prompt is what is new
//     while (!piece.final) piece = chat->await();
//
// The state of a session is its token ids. A turn is the request of all of them; the prefix cache gives back what it
// still has of their keys and values, the rest is computed again. So a session never fails for cache reasons, and its
// answers are those of a fresh request with the same ids, bit for bit.
//
// A session can be saved to a file with what is cached of it, and restored in this process or another one over the same
// model: the next turn yields the same bits and computes nothing again that was saved.
//
// A session has one turn at a time. What a turn yields becomes part of the session as it is awaited, also what a
// cancelled or failed one has yielded.
//
// Thread rule: any thread. One thread at a time awaits a session. A Session is a handle, cheap to copy; it must not be
// used behind its Sessions, nor these behind their Executor.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/export.h>
#include <coxswain/request.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain {

namespace library {
struct SessionState;
class SessionTable;
}  // namespace library

// How a call or a turn went, in TurboMind's numbers; 3, 4, 9 and 10 say nothing about ours.
enum class SessionCode : std::uint8_t {
  kOk = 0,
  kInvalid = 1,      // the session does not exist, or a field is wrong
  kConflict = 2,     // the session has a turn already
  kFail = 5,         // the engine failed
  kTooLong = 6,      // no room for the input, or for a token behind it
  kFinish = 7,       // the turn is answered
  kCancel = 8,       // it was cancelled
  kOutOfMemory = 11  // a bound of the sessions or of the engine's queue is reached
};
COXSWAIN_EXPORT SessionCode session_code(const Status& status);
COXSWAIN_EXPORT SessionCode session_code(const Response& response);

struct SessionsOptions {
  std::uint32_t sessions_max = 4096;
  // Of all sessions, 4 bytes each; those that running turns may still add are counted.
  std::size_t tokens_max = std::size_t{16} << 20;
};

class COXSWAIN_EXPORT Session {
 public:
  Session(std::shared_ptr<library::SessionTable> table,
          std::shared_ptr<library::SessionState> state);

  std::uint64_t id() const;
  // All ids, inputs and outputs.
  std::vector<TokenId> history() const;

  // Cuts the session to its first `n_tokens` ids; a negative number, or one beyond the end, leaves it as it is.
  // Errors of this and what follows: kNotFound: the session has ended; kFailedPrecondition: it has a turn.
  Status step(std::int64_t n_tokens);
  // Adds ids that the next turn computes. Errors: also kContextLength if there is no room for them in a request, and
  // kResourceExhausted if there is none in all sessions together.
  Status append(std::span<const TokenId> ids);
  // Begins a turn: `turn.prompt.ids` is added to the session and continued. max_new_tokens is cut to the room that is
  // left. Errors: as append(), and those of Executor::enqueue(); the session is then as before.
  Status enqueue(Request turn);
  // As Executor::await(), of the turn. Final with kNotFound if there is none, with kFailedPrecondition if another
  // thread awaits it.
  Response await();
  Response await(std::chrono::milliseconds timeout);
  // The turn ends with kCancelled.
  void cancel();

  // Writes the session to `path`: its ids, and keys and values of its whole blocks that the cache has
  // (LocalModelOptions::attachment_bytes_max). The file is there as a whole or as it was before. The engine goes on
  // meanwhile. Errors: also kResourceExhausted for a full disk, kUnavailable for what else the system refuses, each
  // naming the file; the runner's.
  Status save(const std::string& path) const;

  // The session ends: behind its turn, if it has one.
  Status end();
  // At once; its turn is cancelled.
  Status kill();

 private:
  std::shared_ptr<library::SessionTable> table_;
  std::shared_ptr<library::SessionState> state_;
};

// What restore() takes from a file.
enum class Restore : std::uint8_t {
  kIdsAndBlocks,
  kIds,  // the first turn computes everything: also of a file that another model or machine has written
};

// The sessions over one Executor.
class COXSWAIN_EXPORT Sessions {
 public:
  explicit Sessions(Executor& engine, SessionsOptions options = {});
  ~Sessions();  // kills all
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // A new session under the program's id; one that has it ends, as end() does. Errors: kFailedPrecondition if that one
  // has a turn; kResourceExhausted naming sessions_max.
  Result<Session> start(std::uint64_t id);
  // As start(), of a session that was saved. Blocks for which the cache has no room now, or that do not fit through the
  // runner's attachments, are computed by the first turn instead. Errors: also those of the file, which they name, with
  // field, found and expected: kNotFound; kInvalidArgument: no session, or numbers that cannot be; kDataLoss: cut off,
  // or a wrong checksum; kFailedPrecondition: blocks of another model, kernel set or layout. A program that wants the
  // conversation all the same asks for kIds.
  Result<Session> restore(std::uint64_t id,
                          const std::string& path,
                          Restore what = Restore::kIdsAndBlocks);
  // Errors: kNotFound.
  Result<Session> find(std::uint64_t id) const;

  std::size_t n_sessions() const;
  std::size_t n_tokens() const;  // as tokens_max counts them

 private:
  std::shared_ptr<library::SessionTable> table_;
};

}  // namespace coxswain
