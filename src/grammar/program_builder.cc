// From expressions to a Program: Thompson's construction (CACM 11(6), 1968) with a call for each rule.

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "grammar/program.h"
#include "grammar/program_graph.h"

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
    while (!waiting_.empty() && ok()) {
      const auto [node, piece] = waiting_.back();
      waiting_.pop_back();
      compile(node, piece.entry, piece.exit, 0);
    }
    return graph_.finish(main.entry);
  }

 private:
  // States between which an expression lies that is called.
  struct Piece {
    StateId entry = 0;
    StateId exit = 0;
  };

  // An expression with a beginning and an end of its own; its states are made later, so that rules may call each other.
  Piece add_piece(Node node) {
    const Piece piece{graph_.add_state(), graph_.add_state()};
    if (!ok()) return {};
    graph_.set_returns(piece.exit);
    waiting_.emplace_back(node, piece);
    return piece;
  }

  void compile(Node node, StateId from, StateId to, std::size_t depth) {
    if (!ok()) return;
    if (depth > kDepthMax) {
      return graph_.fail({Code::kResourceExhausted,
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
        for (std::size_t i = 0; i < entry.parts.size() && ok(); ++i) {
          const StateId next = i + 1 == entry.parts.size() ? to : graph_.add_state();
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
        return graph_.add_call(from, rule_entry(entry.rule), to);
    }
  }

  void compile_bytes(std::string_view bytes, StateId from, StateId to) {
    if (bytes.empty()) return graph_.add_jump(from, to);
    StateId at = from;
    for (std::size_t i = 0; i < bytes.size() && ok(); ++i) {
      const StateId next = i + 1 == bytes.size() ? to : graph_.add_state();
      const auto byte = static_cast<std::uint8_t>(bytes[i]);
      graph_.add_byte_edge(at, {byte, byte}, next);
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
          at->second = graph_.add_state();
          graph_.add_byte_edge(at->second, sequence[i], next);
        }
        next = at->second;
      }
      graph_.add_byte_edge(from, sequence.front(), next);
    }
  }

  void compile_repeat(const Expressions::Entry& entry,
                      StateId from,
                      StateId to,
                      std::size_t depth) {
    const Node part = entry.parts.front();
    const bool is_bounded = entry.max != kUnbounded;
    if ((is_bounded ? entry.max : entry.min) > kCopiesMax) {
      if (entry.min > 0) {
        const StateId next = entry.min == entry.max ? to : graph_.add_state();
        graph_.add_call(from, chained(part, entry.min, true), next);
        from = next;
      }
      if (entry.min < entry.max && is_bounded)
        return graph_.add_call(from, chained(part, entry.max - entry.min, false), to);
      if (is_bounded) return;
      const StateId loop = graph_.add_state();
      graph_.add_jump(from, loop);
      graph_.add_call(loop, chained(part, 1, true), loop);
      return graph_.add_jump(loop, to);
    }
    // No copy begins in `from` or ends in `to`: others may loop there.
    StateId at = graph_.add_state();
    graph_.add_jump(from, at);
    for (std::uint32_t i = 0; i < (is_bounded ? entry.max : entry.min) && ok(); ++i) {
      if (i >= entry.min) graph_.add_jump(at, to);
      const StateId next = graph_.add_state();
      compile(part, at, next, depth + 1);
      at = next;
    }
    if (!is_bounded) {
      const StateId loop = graph_.add_state();
      graph_.add_jump(at, loop);
      compile(part, loop, loop, depth + 1);
      at = loop;
    }
    graph_.add_jump(at, to);
  }

  // Where a rule begins that reads `part` n times, or up to so many times: one chain for all that repeat it, however
  // often, since a schema gives many strings the same bound, or nearly the same.
  StateId chained(Node part, std::uint32_t n, bool exactly) {
    const auto [at, is_new] = chains_.try_emplace({part, exactly});
    std::vector<StateId>& chain = at->second;
    if (is_new) {
      chain.push_back(graph_.add_state());
      if (ok()) graph_.set_returns(chain[0]);
    }
    if (chain.size() > n) return chain[n];
    const StateId called = called_part(part);
    while (chain.size() <= n) {
      const StateId state = graph_.add_state();
      if (!ok()) return 0;
      graph_.add_call(state, called, chain.back());
      if (!exactly) graph_.set_returns(state);
      chain.push_back(state);
    }
    return chain[n];
  }

  StateId called_part(Node part) {
    const auto at = called_.find(part);
    if (at != called_.end()) return at->second;
    return called_.emplace(part, add_piece(part).entry).first->second;
  }

  StateId rule_entry(RuleId rule) {
    if (!rules_[rule]) rules_[rule] = add_piece(expressions_.definition(rule));
    return rules_[rule]->entry;
  }

  bool ok() const { return graph_.status().ok(); }

  const Expressions& expressions_;
  ProgramGraph graph_;
  std::vector<std::optional<Piece>> rules_;
  std::vector<std::pair<Node, Piece>> waiting_;
  std::map<std::pair<Node, bool>, std::vector<StateId>> chains_;
  std::map<Node, StateId> called_;
};

Result<Program> compile_program(const Expressions& expressions, Node root) {
  return ProgramBuilder(expressions).build(root);
}

}  // namespace coxswain::grammar
