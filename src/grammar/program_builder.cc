// From expressions to a Program: Thompson's construction (CACM 11(6), 1968) with a call for each rule, then what leads
// nowhere is taken out.

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "grammar/program.h"

namespace coxswain::grammar {
namespace {

using Kind = Expressions::Kind;

constexpr std::size_t kDepthMax = 2'000;  // of expressions within each other
// Repetitions of more copies than this call their part in place of repeating its states.
constexpr std::uint32_t kCopiesMax = 4;

}  // namespace

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const Expressions& expressions)
      : expressions_(expressions), rules_(expressions.n_rules()) {}

  Result<Program> build(Node root) {
    const Piece main = add_piece(root);
    while (!waiting_.empty() && status_.ok()) {
      const auto [node, piece] = waiting_.back();
      waiting_.pop_back();
      compile(node, piece.entry, piece.exit, 0);
    }
    if (!status_.ok()) return status_;
    start_ = main.entry;
    drop_what_never_ends();
    if (!ends_[start_]) return invalid_argument("the grammar allows no text at all");
    if (const Status status = check_left_recursion(); !status.ok()) return status;
    return finish();
  }

 private:
  struct State {
    std::vector<Program::ByteEdge> bytes;
    std::vector<Program::CallEdge> calls;
    std::vector<StateId> jumps;
    bool returns = false;
  };
  // States between which an expression lies that is called.
  struct Piece {
    StateId entry = 0;
    StateId exit = 0;
  };

  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  StateId add_state() {
    if (states_.size() == kProgramStatesMax) {
      fail({Code::kResourceExhausted,
            ErrorKind::kValidation,
            "the grammar needs more than " + std::to_string(kProgramStatesMax) + " states"});
      return 0;
    }
    states_.emplace_back();
    return static_cast<StateId>(states_.size() - 1);
  }

  bool take_edge() {
    if (++n_edges_ > kProgramEdgesMax) {
      fail({Code::kResourceExhausted,
            ErrorKind::kValidation,
            "the grammar needs more than " + std::to_string(kProgramEdgesMax) + " edges"});
    }
    return status_.ok();
  }
  void add_byte_edge(StateId from, ByteRange range, StateId to) {
    if (take_edge()) states_[from].bytes.push_back({range, to});
  }
  void add_jump(StateId from, StateId to) {
    if (from != to && take_edge()) states_[from].jumps.push_back(to);
  }
  void add_call(StateId from, StateId entry, StateId to) {
    if (take_edge()) states_[from].calls.push_back({entry, to});
  }

  // An expression with a beginning and an end of its own; its states are made later, so that rules may call each other.
  Piece add_piece(Node node) {
    const Piece piece{add_state(), add_state()};
    if (!status_.ok()) return {};
    states_[piece.exit].returns = true;
    waiting_.emplace_back(node, piece);
    return piece;
  }

  void compile(Node node, StateId from, StateId to, std::size_t depth) {
    if (!status_.ok()) return;
    if (depth > kDepthMax) {
      return fail({Code::kResourceExhausted,
                   ErrorKind::kValidation,
                   "the grammar nests more than " + std::to_string(kDepthMax) + " levels"});
    }
    const Expressions::Entry& entry = expressions_.entry(node);
    switch (entry.kind) {
      case Kind::kNothing:
        return;
      case Kind::kBytes:
        return compile_bytes(entry.bytes, from, to);
      case Kind::kCharacters:
        return compile_characters(entry.characters, from, to);
      case Kind::kSequence: {
        StateId at = from;
        for (std::size_t i = 0; i < entry.parts.size() && status_.ok(); ++i) {
          const StateId next = i + 1 == entry.parts.size() ? to : add_state();
          compile(entry.parts[i], at, next, depth + 1);
          at = next;
        }
        return;
      }
      case Kind::kChoice:
        for (const Node part : entry.parts) compile(part, from, to, depth + 1);
        return;
      case Kind::kRepeat:
        return compile_repeat(entry, from, to, depth);
      case Kind::kRule:
        return add_call(from, rule_entry(entry.rule), to);
    }
  }

  void compile_bytes(std::string_view bytes, StateId from, StateId to) {
    if (bytes.empty()) return add_jump(from, to);
    StateId at = from;
    for (std::size_t i = 0; i < bytes.size() && status_.ok(); ++i) {
      const StateId next = i + 1 == bytes.size() ? to : add_state();
      const auto byte = static_cast<std::uint8_t>(bytes[i]);
      add_byte_edge(at, {byte, byte}, next);
      at = next;
    }
  }

  void compile_characters(const CharacterSet& set, StateId from, StateId to) {
    // Sequences that end alike share the states of their ends.
    std::map<ByteSequence, StateId> ends;
    for (const ByteSequence& sequence : utf8_sequences(set)) {
      StateId next = to;
      for (std::size_t i = sequence.size() - 1; i > 0; --i) {
        const ByteSequence end(sequence.begin() + static_cast<std::ptrdiff_t>(i), sequence.end());
        const auto [at, is_new] = ends.try_emplace(end, 0);
        if (is_new) {
          at->second = add_state();
          add_byte_edge(at->second, sequence[i], next);
        }
        next = at->second;
      }
      add_byte_edge(from, sequence.front(), next);
    }
  }

  void compile_repeat(const Expressions::Entry& entry,
                      StateId from,
                      StateId to,
                      std::size_t depth) {
    const Node part = entry.parts.front();
    const std::uint32_t n_copies = entry.max == kUnbounded ? entry.min : entry.max;
    std::optional<StateId> called;
    if (n_copies > kCopiesMax) called = add_piece(part).entry;
    const auto copy = [&](StateId begin, StateId end) {
      if (called) return add_call(begin, *called, end);
      compile(part, begin, end, depth + 1);
    };
    // No copy begins in `from` or ends in `to`: others may loop there.
    StateId at = add_state();
    add_jump(from, at);
    for (std::uint32_t i = 0; i < n_copies && status_.ok(); ++i) {
      if (i >= entry.min) add_jump(at, to);
      const StateId next = add_state();
      copy(at, next);
      at = next;
    }
    if (entry.max == kUnbounded) {
      const StateId loop = add_state();
      add_jump(at, loop);
      copy(loop, loop);
      at = loop;
    }
    add_jump(at, to);
  }

  StateId rule_entry(RuleId rule) {
    if (!rules_[rule]) rules_[rule] = add_piece(expressions_.definition(rule));
    return rules_[rule]->entry;
  }

  // The states from which the rule that they are in can end; without reading anything if `reads` is false.
  std::vector<bool> find_ends(bool reads) const {
    const std::size_t n = states_.size();
    std::vector<bool> ends(n, false);
    std::vector<std::vector<StateId>> before(n);
    // Who calls, and what has to end beside this.
    std::vector<std::vector<std::pair<StateId, StateId>>> calls(n);
    std::vector<StateId> work;
    const auto mark = [&](StateId state) {
      if (ends[state]) return;
      ends[state] = true;
      work.push_back(state);
    };
    for (StateId state = 0; state < n; ++state) {
      for (const StateId target : states_[state].jumps) before[target].push_back(state);
      for (const auto& edge : states_[state].calls) {
        calls[edge.target].emplace_back(state, edge.entry);
        calls[edge.entry].emplace_back(state, edge.target);
      }
      if (reads) {
        for (const auto& edge : states_[state].bytes) before[edge.target].push_back(state);
      }
      if (states_[state].returns) mark(state);
    }
    while (!work.empty()) {
      const StateId state = work.back();
      work.pop_back();
      for (const StateId from : before[state]) mark(from);
      for (const auto& [from, other] : calls[state]) {
        if (ends[other]) mark(from);
      }
    }
    return ends;
  }

  // Takes out the edges behind which no rule ends: they would lead a text to where it can neither go on nor stop.
  void drop_what_never_ends() {
    ends_ = find_ends(true);
    for (State& state : states_) {
      std::erase_if(state.bytes, [&](const auto& edge) { return !ends_[edge.target]; });
      std::erase_if(state.jumps, [&](StateId target) { return !ends_[target]; });
      std::erase_if(state.calls,
                    [&](const auto& edge) { return !ends_[edge.target] || !ends_[edge.entry]; });
    }
  }

  // A call that comes back to itself without a byte would never come to an end. Kosaraju's two passes find the states
  // that reach each other so.
  Status check_left_recursion() const {
    const std::size_t n = states_.size();
    const std::vector<bool> nullable = find_ends(false);
    std::vector<std::vector<StateId>> next(n);
    std::vector<std::vector<StateId>> back(n);
    const auto connect = [&](StateId from, StateId to) {
      next[from].push_back(to);
      back[to].push_back(from);
    };
    for (StateId state = 0; state < n; ++state) {
      for (const StateId target : states_[state].jumps) connect(state, target);
      for (const auto& edge : states_[state].calls) {
        connect(state, edge.entry);
        if (nullable[edge.entry]) connect(state, edge.target);
      }
    }
    std::vector<StateId> order;
    std::vector<bool> seen(n, false);
    std::vector<std::pair<StateId, std::size_t>> path;
    for (StateId root = 0; root < n; ++root) {
      if (seen[root]) continue;
      seen[root] = true;
      path.emplace_back(root, 0);
      while (!path.empty()) {
        auto& [state, i] = path.back();
        if (i == next[state].size()) {
          order.push_back(state);
          path.pop_back();
          continue;
        }
        const StateId to = next[state][i++];
        if (seen[to]) continue;
        seen[to] = true;
        path.emplace_back(to, 0);
      }
    }
    std::vector<StateId> group(n, static_cast<StateId>(n));
    for (std::size_t i = order.size(); i-- > 0;) {
      std::vector<StateId> work;
      if (group[order[i]] == n) work.push_back(order[i]);
      while (!work.empty()) {
        const StateId state = work.back();
        work.pop_back();
        if (group[state] != n) continue;
        group[state] = order[i];
        for (const StateId from : back[state]) work.push_back(from);
      }
    }
    for (StateId state = 0; state < n; ++state) {
      for (const auto& edge : states_[state].calls) {
        if (group[state] == group[edge.entry])
          return invalid_argument("a rule of the grammar calls itself before it reads anything");
      }
    }
    return {};
  }

  // The states that can be reached, numbered anew; one that does nothing but jump on is passed over.
  Program finish() const {
    constexpr StateId kNone = 0xFFFFFFFF;
    const auto skip = [&](StateId state) {
      for (std::size_t i = 0; i < states_.size(); ++i) {
        const State& at = states_[state];
        if (at.returns || !at.bytes.empty() || !at.calls.empty() || at.jumps.size() != 1) break;
        state = at.jumps.front();
      }
      return state;
    };
    std::vector<StateId> number(states_.size(), kNone);
    std::vector<StateId> order;
    const auto visit = [&](StateId state) {
      state = skip(state);
      if (number[state] == kNone) {
        number[state] = static_cast<StateId>(order.size());
        order.push_back(state);
      }
      return number[state];
    };
    Program out;
    out.start_ = visit(start_);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const State& state = states_[order[i]];
      out.states_.push_back({.first_byte_edge = static_cast<std::uint32_t>(out.byte_edges_.size()),
                             .first_call_edge = static_cast<std::uint32_t>(out.call_edges_.size()),
                             .first_jump = static_cast<std::uint32_t>(out.jumps_.size()),
                             .returns = state.returns});
      for (const auto& edge : state.bytes)
        out.byte_edges_.push_back({edge.range, visit(edge.target)});
      for (const auto& edge : state.calls)
        out.call_edges_.push_back({visit(edge.entry), visit(edge.target)});
      for (const StateId target : state.jumps) out.jumps_.push_back(visit(target));
    }
    out.states_.push_back({.first_byte_edge = static_cast<std::uint32_t>(out.byte_edges_.size()),
                           .first_call_edge = static_cast<std::uint32_t>(out.call_edges_.size()),
                           .first_jump = static_cast<std::uint32_t>(out.jumps_.size())});
    return out;
  }

  const Expressions& expressions_;
  Status status_;
  std::vector<State> states_;
  std::vector<std::optional<Piece>> rules_;
  std::vector<std::pair<Node, Piece>> waiting_;
  std::vector<bool> ends_;
  std::size_t n_edges_ = 0;
  StateId start_ = 0;
};

Result<Program> compile_program(const Expressions& expressions, Node root) {
  return ProgramBuilder(expressions).build(root);
}

}  // namespace coxswain::grammar
