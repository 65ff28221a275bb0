#include "grammar/character_automaton.h"

#include <algorithm>
#include <map>
#include <optional>

#include "grammar/regex.h"

namespace coxswain::grammar {
namespace {

constexpr std::size_t kNfaStatesMax = 20'000;
constexpr std::size_t kWorkMax = 2'000'000;  // ranges of characters that are looked at

Status too_large() {
  return {Code::kResourceExhausted,
          ErrorKind::kValidation,
          "the restrictions of the text need more than " + std::to_string(kAutomatonStatesMax) +
              " states together"};
}

Status too_much_work() {
  return {Code::kResourceExhausted,
          ErrorKind::kValidation,
          "the restrictions of the text need more than " + std::to_string(kWorkMax) +
              " ranges of characters together"};
}

std::size_t n_ranges(const CharacterSet& set) {
  return set.ranges().size();
}

}  // namespace

// Thompson's construction over characters, then sets of its states.
class Determinizer {
 public:
  explicit Determinizer(const Expressions& expressions) : expressions_(expressions) {}

  Result<CharacterAutomaton> run(Node root) {
    const std::uint32_t begin = add_state();
    const std::uint32_t end = add_state();
    compile(root, begin, end);
    if (too_large_) return too_large();
    CharacterAutomaton out;
    std::map<std::vector<std::uint32_t>, std::uint32_t> numbers;
    std::vector<std::vector<std::uint32_t>> sets;
    const auto number = [&](std::vector<std::uint32_t> states) {
      close(states);
      const auto [at, is_new] =
          numbers.try_emplace(std::move(states), static_cast<std::uint32_t>(sets.size()));
      if (is_new) sets.push_back(at->first);
      return at->second;
    };
    number({begin});
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if (i >= kAutomatonStatesMax) return too_large();
      CharacterAutomaton::State state;
      state.accepts = std::binary_search(sets[i].begin(), sets[i].end(), end);
      if (n_work_ > kWorkMax) return too_much_work();
      for (auto& [targets, set] : edges_of(sets[i])) {
        state.edges.emplace_back(std::move(set), number(targets));
      }
      out.states_.push_back(std::move(state));
    }
    return out;
  }

 private:
  struct State {
    std::vector<std::uint32_t> jumps = {};
    std::vector<std::pair<CharacterSet, std::uint32_t>> edges = {};
  };

  std::uint32_t add_state() {
    if (states_.size() >= kNfaStatesMax) {
      too_large_ = true;
      return 0;
    }
    states_.emplace_back();
    return static_cast<std::uint32_t>(states_.size() - 1);
  }

  void compile(Node node, std::uint32_t from, std::uint32_t to) {
    if (too_large_) return;
    const Expressions::Entry& entry = expressions_.entry(node);
    switch (entry.kind) {
      case Expressions::Kind::kNothing:
      case Expressions::Kind::kRule:  // parse_regex makes none
        return;
      case Expressions::Kind::kBytes: {
        std::uint32_t at = from;
        for (const char32_t c : to_code_points(entry.bytes).value_or(std::u32string{})) {
          const std::uint32_t next = add_state();
          states_[at].edges.emplace_back(CharacterSet::of(c), next);
          at = next;
        }
        states_[at].jumps.push_back(to);
        return;
      }
      case Expressions::Kind::kCharacters:
        states_[from].edges.emplace_back(entry.characters, to);
        return;
      case Expressions::Kind::kSequence: {
        std::uint32_t at = from;
        for (const Node part : entry.parts) {
          const std::uint32_t next = add_state();
          compile(part, at, next);
          at = next;
        }
        states_[at].jumps.push_back(to);
        return;
      }
      case Expressions::Kind::kChoice:
        for (const Node part : entry.parts) compile(part, from, to);
        return;
      case Expressions::Kind::kRepeat:
        return compile_repeat(entry, from, to);
    }
  }

  void compile_repeat(const Expressions::Entry& entry, std::uint32_t from, std::uint32_t to) {
    std::uint32_t at = add_state();
    states_[from].jumps.push_back(at);
    const std::uint32_t copies = entry.max == kUnbounded ? entry.min : entry.max;
    for (std::uint32_t i = 0; i < copies && !too_large_; ++i) {
      if (i >= entry.min) states_[at].jumps.push_back(to);
      const std::uint32_t next = add_state();
      compile(entry.parts.front(), at, next);
      at = next;
    }
    if (entry.max == kUnbounded) {
      const std::uint32_t loop = add_state();
      states_[at].jumps.push_back(loop);
      compile(entry.parts.front(), loop, loop);
      at = loop;
    }
    states_[at].jumps.push_back(to);
  }

  void close(std::vector<std::uint32_t>& states) const {
    std::vector<bool> seen(states_.size(), false);
    for (const std::uint32_t state : states) seen[state] = true;
    for (std::size_t i = 0; i < states.size(); ++i) {
      for (const std::uint32_t target : states_[states[i]].jumps) {
        if (seen[target]) continue;
        seen[target] = true;
        states.push_back(target);
      }
    }
    std::sort(states.begin(), states.end());
  }

  // The characters by where they lead to: a sweep over the ends of all ranges.
  std::map<std::vector<std::uint32_t>, CharacterSet> edges_of(
      const std::vector<std::uint32_t>& states) {
    struct Event {
      char32_t at = 0;
      std::uint32_t target = 0;
      int change = 0;
    };
    std::vector<Event> events;
    n_work_ += states.size();
    for (const std::uint32_t state : states) {
      for (const auto& [set, target] : states_[state].edges) {
        n_work_ += n_ranges(set);
        for (const CharacterSet::Range& range : set.ranges()) {
          events.push_back({range.first, target, 1});
          events.push_back({range.last + 1, target, -1});
        }
      }
    }
    std::ranges::sort(events, {}, &Event::at);
    std::map<std::vector<std::uint32_t>, CharacterSet> out;
    std::map<std::uint32_t, int> active;
    for (std::size_t i = 0; i < events.size();) {
      const char32_t first = events[i].at;
      for (; i < events.size() && events[i].at == first; ++i) {
        int& count = active[events[i].target];
        count += events[i].change;
        if (count == 0) active.erase(events[i].target);
      }
      if (active.empty()) continue;
      std::vector<std::uint32_t> targets;
      targets.reserve(active.size());
      for (const auto& [target, count] : active) targets.push_back(target);
      n_work_ += targets.size();
      out[targets].add(first, events[i].at - 1);
    }
    return out;
  }

  const Expressions& expressions_;
  std::vector<State> states_;
  bool too_large_ = false;
  std::size_t n_work_ = 0;
};

CharacterAutomaton CharacterAutomaton::all() {
  CharacterAutomaton out;
  out.states_.push_back({.edges = {{CharacterSet::all(), 0}}, .accepts = true});
  return out;
}

Result<CharacterAutomaton> CharacterAutomaton::of_pattern(std::string_view pattern, Match match) {
  Expressions scratch;
  const auto root = parse_regex(scratch, pattern, {.searches = match == Match::kAnywhere});
  if (!root.ok()) return root.status();
  return Determinizer(scratch).run(root.value());
}

Result<CharacterAutomaton> CharacterAutomaton::of_texts(std::span<const std::string> texts) {
  Expressions scratch;
  std::vector<Node> nodes;
  for (const std::string& text : texts) nodes.push_back(scratch.bytes(text));
  return Determinizer(scratch).run(scratch.choice(nodes));
}

Result<CharacterAutomaton> CharacterAutomaton::of_lengths(std::uint32_t min, std::uint32_t max) {
  const std::uint32_t last = max == kUnbounded ? min : max;
  if (last >= kAutomatonStatesMax) return too_large();
  CharacterAutomaton out;
  for (std::uint32_t i = 0; i <= last; ++i) {
    State state{.accepts = i >= min};
    if (i < last) state.edges.emplace_back(CharacterSet::all(), i + 1);
    if (i == last && max == kUnbounded) state.edges.emplace_back(CharacterSet::all(), i);
    out.states_.push_back(std::move(state));
  }
  return out;
}

CharacterAutomaton CharacterAutomaton::complement() const {
  CharacterAutomaton out = *this;
  const auto sink = static_cast<std::uint32_t>(states_.size());
  for (State& state : out.states_) {
    state.accepts = !state.accepts;
    CharacterSet rest = CharacterSet::all();
    for (const auto& [set, target] : state.edges) rest = rest.without(set);
    if (!rest.empty()) state.edges.emplace_back(std::move(rest), sink);
  }
  out.states_.push_back({.edges = {{CharacterSet::all(), sink}}, .accepts = true});
  return out;
}

Result<CharacterAutomaton> CharacterAutomaton::intersection(const CharacterAutomaton& other) const {
  using Pair = std::pair<std::uint32_t, std::uint32_t>;
  CharacterAutomaton out;
  std::map<Pair, std::uint32_t> numbers;
  std::vector<Pair> pairs;
  const auto number = [&](Pair pair) {
    const auto [at, is_new] = numbers.try_emplace(pair, static_cast<std::uint32_t>(pairs.size()));
    if (is_new) pairs.push_back(pair);
    return at->second;
  };
  number({0, 0});
  std::size_t n_work = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (i >= kAutomatonStatesMax) return too_large();
    if (n_work > kWorkMax) return too_much_work();
    const State& a = states_[pairs[i].first];
    const State& b = other.states_[pairs[i].second];
    State state{.accepts = a.accepts && b.accepts};
    for (const auto& [a_set, a_target] : a.edges) {
      for (const auto& [b_set, b_target] : b.edges) {
        n_work += n_ranges(a_set) + n_ranges(b_set);
        CharacterSet both = a_set.intersection(b_set);
        if (!both.empty()) state.edges.emplace_back(std::move(both), number({a_target, b_target}));
      }
    }
    out.states_.push_back(std::move(state));
  }
  return out;
}

bool CharacterAutomaton::accepts(std::string_view text) const {
  const auto characters = to_code_points(text);
  if (!characters) return false;
  std::uint32_t at = 0;
  for (const char32_t c : *characters) {
    std::optional<std::uint32_t> next;
    for (const auto& [set, target] : states_[at].edges) {
      if (set.contains(c)) next = target;
    }
    if (!next) return false;
    at = *next;
  }
  return states_[at].accepts;
}

bool CharacterAutomaton::is_empty() const {
  // Every state is reached: they are numbered as they are met.
  return std::ranges::none_of(states_, [](const State& state) { return state.accepts; });
}

Node CharacterAutomaton::write(Expressions& e,
                               const std::function<Node(const CharacterSet&)>& spell) const {
  // A rule for each state, each of which ends in the call of the next.
  std::vector<RuleId> rules;
  for (std::size_t i = 0; i < states_.size(); ++i) rules.push_back(e.add_rule());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    std::vector<Node> parts;
    for (const auto& [set, target] : states_[i].edges) {
      parts.push_back(e.sequence({spell(set), e.rule(rules[target])}));
    }
    if (states_[i].accepts) parts.push_back(e.empty());
    e.define(rules[i], e.choice(parts));
  }
  return e.rule(rules[0]);
}

}  // namespace coxswain::grammar
