#include "grammar/program_graph.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace coxswain::grammar {
namespace {

constexpr StateId kNoState = 0xFFFFFFFF;

// Items by the state that each belongs to, in the order in which they were given: a counting sort.
template <class Item>
class ByState {
 public:
  explicit ByState(std::size_t n_states) : end_(n_states + 1, 0) {}
  // Twice over the same items: count() each, then place() each.
  void count(StateId state) { ++end_[state + 1]; }
  void place(StateId state, const Item& item) {
    if (items_.empty()) {
      for (std::size_t i = 1; i < end_.size(); ++i) end_[i] += end_[i - 1];
      items_.resize(end_.back());
    }
    items_[end_[state]++] = item;
  }
  // [end_[state - 1], end_[state]) when all are placed.
  std::span<const Item> operator[](StateId state) const {
    if (items_.empty()) return {};
    const std::uint32_t begin = state == 0 ? 0 : end_[state - 1];
    return std::span<const Item>(items_).subspan(begin, end_[state] - begin);
  }

 private:
  std::vector<std::uint32_t> end_;
  std::vector<Item> items_;
};

template <class Edge>
ByState<Edge> by_origin(const std::vector<Edge>& edges, std::size_t n_states) {
  ByState<Edge> out(n_states);
  for (const Edge& edge : edges) out.count(edge.from);
  for (const Edge& edge : edges) out.place(edge.from, edge);
  return out;
}

// States that reach each other, as their edges are asked for: Tarjan's algorithm (SIAM J. Computing 1(2), 1972).
class Circles {
 public:
  explicit Circles(std::size_t n_states) : number_(n_states, 0), group_(n_states, kNoState) {}

  // next(state, i): the i-th state that it leads to; kNoState behind the last.
  template <class Next>
  void find(const Next& next) {
    for (StateId root = 0; root < number_.size(); ++root) {
      if (number_[root] == 0 && next(root, 0) != kNoState) visit(root, next);
    }
  }
  bool are_together(StateId a, StateId b) const {
    return a == b || (group_[a] != kNoState && group_[a] == group_[b]);
  }

 private:
  struct Step {
    StateId state = 0;
    std::uint32_t i = 0;
    std::uint32_t low = 0;
  };

  void enter(StateId state) {
    number_[state] = ++n_visited_;
    path_.push_back({state, 0, n_visited_});
    open_.push_back(state);
  }

  template <class Next>
  void visit(StateId root, const Next& next) {
    enter(root);
    while (!path_.empty()) {
      Step& step = path_.back();
      const StateId to = next(step.state, step.i++);
      if (to != kNoState) {
        if (number_[to] == 0)
          enter(to);
        else if (group_[to] == kNoState)
          step.low = std::min(step.low, number_[to]);
        continue;
      }
      const Step done = step;
      path_.pop_back();
      if (done.low == number_[done.state]) {
        while (group_[done.state] == kNoState) {
          group_[open_.back()] = done.state;
          open_.pop_back();
        }
      }
      if (!path_.empty()) path_.back().low = std::min(path_.back().low, done.low);
    }
  }

  std::uint32_t n_visited_ = 0;
  std::vector<std::uint32_t> number_;  // in the order of visits, from 1
  std::vector<StateId> group_;         // kNoState: not visited, or still open
  std::vector<Step> path_;
  std::vector<StateId> open_;
};

}  // namespace

StateId ProgramGraph::add_state() {
  if (n_states() == kProgramStatesMax) {
    fail({Code::kResourceExhausted,
          ErrorKind::kValidation,
          "the grammar needs more than " + std::to_string(kProgramStatesMax) + " states"});
    return 0;
  }
  returns_.push_back(false);
  return static_cast<StateId>(n_states() - 1);
}

bool ProgramGraph::take_edge() {
  if (bytes_.size() + calls_.size() + jumps_.size() >= kProgramEdgesMax) {
    fail({Code::kResourceExhausted,
          ErrorKind::kValidation,
          "the grammar needs more than " + std::to_string(kProgramEdgesMax) + " edges"});
  }
  return status_.ok();
}

Result<Program> ProgramGraph::finish(StateId start) {
  if (!status_.ok()) return status_;
  const std::vector<bool> ends = find_ends(true);
  if (!ends[start]) return invalid_argument("the grammar allows no text at all");
  drop_what_never_ends(ends);
  COXSWAIN_RETURN_IF_ERROR(check_left_recursion());
  return numbered(start);
}

// The states from which the rule that they are in can end; without reading anything if `reads` is false.
std::vector<bool> ProgramGraph::find_ends(bool reads) const {
  // Whom an end lets end: alone, or beside another.
  struct Before {
    StateId from = 0;
    StateId beside = kNoState;
  };
  ByState<Before> before(n_states());
  const auto each = [&](const auto& take) {
    for (const Jump& edge : jumps_) take(edge.target, Before{edge.from});
    for (const CallEdge& edge : calls_) {
      take(edge.target, Before{edge.from, edge.entry});
      take(edge.entry, Before{edge.from, edge.target});
    }
    if (!reads) return;
    for (const ByteEdge& edge : bytes_) take(edge.target, Before{edge.from});
  };
  each([&](StateId state, const Before&) { before.count(state); });
  each([&](StateId state, const Before& item) { before.place(state, item); });
  std::vector<bool> ends = returns_;
  std::vector<StateId> work;
  for (StateId state = 0; state < n_states(); ++state) {
    if (ends[state]) work.push_back(state);
  }
  while (!work.empty()) {
    const StateId state = work.back();
    work.pop_back();
    for (const Before& item : before[state]) {
      if (ends[item.from] || (item.beside != kNoState && !ends[item.beside])) continue;
      ends[item.from] = true;
      work.push_back(item.from);
    }
  }
  return ends;
}

// Takes out the edges behind which no rule ends: they would lead a text to where it can neither go on nor stop.
void ProgramGraph::drop_what_never_ends(const std::vector<bool>& ends) {
  std::erase_if(bytes_, [&](const ByteEdge& edge) { return !ends[edge.target]; });
  std::erase_if(jumps_, [&](const Jump& edge) { return !ends[edge.target]; });
  std::erase_if(calls_,
                [&](const CallEdge& edge) { return !ends[edge.target] || !ends[edge.entry]; });
}

// A call that comes back to itself without a byte would never come to an end.
Status ProgramGraph::check_left_recursion() const {
  const std::vector<bool> nullable = find_ends(false);
  ByState<StateId> next(n_states());
  const auto each = [&](const auto& take) {
    for (const Jump& edge : jumps_) take(edge.from, edge.target);
    for (const CallEdge& edge : calls_) {
      take(edge.from, edge.entry);
      if (nullable[edge.entry]) take(edge.from, edge.target);
    }
  };
  each([&](StateId from, StateId) { next.count(from); });
  each([&](StateId from, StateId to) { next.place(from, to); });
  Circles circles(n_states());
  circles.find([&](StateId state, std::uint32_t i) {
    const auto targets = next[state];
    return i < targets.size() ? targets[i] : kNoState;
  });
  for (const CallEdge& edge : calls_) {
    if (circles.are_together(edge.from, edge.entry))
      return invalid_argument("a rule of the grammar calls itself before it reads anything");
  }
  return {};
}

// The states that can be reached, numbered anew; one that does nothing but jump on is passed over.
Program ProgramGraph::numbered(StateId start) const {
  const auto bytes = by_origin(bytes_, n_states());
  const auto calls = by_origin(calls_, n_states());
  const auto jumps = by_origin(jumps_, n_states());
  const auto skip = [&](StateId state) {
    for (std::size_t i = 0; i < n_states(); ++i) {
      if (returns_[state] || !bytes[state].empty() || !calls[state].empty() ||
          jumps[state].size() != 1)
        break;
      state = jumps[state].front().target;
    }
    return state;
  };
  std::vector<StateId> number(n_states(), kNoState);
  std::vector<StateId> order;
  const auto visit = [&](StateId state) {
    state = skip(state);
    if (number[state] == kNoState) {
      number[state] = static_cast<StateId>(order.size());
      order.push_back(state);
    }
    return number[state];
  };
  Program out;
  const auto begin_state = [&](bool returns) {
    out.states_.push_back({.first_byte_edge = static_cast<std::uint32_t>(out.byte_edges_.size()),
                           .first_call_edge = static_cast<std::uint32_t>(out.call_edges_.size()),
                           .first_jump = static_cast<std::uint32_t>(out.jumps_.size()),
                           .returns = returns});
  };
  out.start_ = visit(start);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const StateId state = order[i];
    begin_state(returns_[state]);
    for (const ByteEdge& edge : bytes[state])
      out.byte_edges_.push_back({edge.range, visit(edge.target)});
    for (const CallEdge& edge : calls[state])
      out.call_edges_.push_back({visit(edge.entry), visit(edge.target)});
    for (const Jump& edge : jumps[state]) out.jumps_.push_back(visit(edge.target));
  }
  begin_state(false);
  return out;
}

}  // namespace coxswain::grammar
