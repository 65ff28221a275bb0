#pragma once
// ProgramGraph: the states and edges of a Program while it is made, in the order in which they are added; finish()
// takes out what leads nowhere.
//
// Edges lie in one list of each kind and are sorted by their states at the end: programs of real schemas have 100,000,
// and a list for each state costs more than all that is done with it.
//
// Thread rule: belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "grammar/program.h"

namespace coxswain::grammar {

class ProgramGraph {
 public:
  // Beyond the limits of programs nothing is added and status() says so.
  StateId add_state();
  void add_byte_edge(StateId from, ByteRange range, StateId to) {
    if (take_edge()) bytes_.push_back({from, to, range});
  }
  void add_call(StateId from, StateId entry, StateId to) {
    if (take_edge()) calls_.push_back({from, entry, to});
  }
  void add_jump(StateId from, StateId to) {
    if (from != to && take_edge()) jumps_.push_back({from, to});
  }
  void set_returns(StateId state) { returns_[state] = true; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

  // Errors: status()'s, and as compile_program.
  Result<Program> finish(StateId start);

 private:
  struct ByteEdge {
    StateId from = 0;
    StateId target = 0;
    ByteRange range;
  };
  struct CallEdge {
    StateId from = 0;
    StateId entry = 0;
    StateId target = 0;
  };
  struct Jump {
    StateId from = 0;
    StateId target = 0;
  };

  std::size_t n_states() const { return returns_.size(); }
  bool take_edge();
  std::vector<bool> find_ends(bool reads) const;
  void drop_what_never_ends(const std::vector<bool>& ends);
  Status check_left_recursion() const;
  Program numbered(StateId start) const;

  Status status_;
  std::vector<bool> returns_;  // [state]
  std::vector<ByteEdge> bytes_;
  std::vector<CallEdge> calls_;
  std::vector<Jump> jumps_;
};

}  // namespace coxswain::grammar
