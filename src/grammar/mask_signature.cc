#include "grammar/mask_signature.h"

#include <unordered_map>
#include <utility>

namespace coxswain::grammar {
namespace {

constexpr std::size_t kStatesMax = 2'048;

// The states from which the rule that they are in can end without a byte.
std::vector<bool> find_nullable(const Program& program) {
  const std::size_t n = program.n_states();
  std::vector<bool> nullable(n, false);
  std::vector<std::vector<StateId>> before(n);
  std::vector<std::vector<std::pair<StateId, StateId>>> calls(n);
  std::vector<StateId> work;
  const auto mark = [&](StateId state) {
    if (nullable[state]) return;
    nullable[state] = true;
    work.push_back(state);
  };
  for (StateId state = 0; state < n; ++state) {
    for (const StateId target : program.jumps(state)) before[target].push_back(state);
    for (const Program::CallEdge& edge : program.call_edges(state)) {
      calls[edge.target].emplace_back(state, edge.entry);
      calls[edge.entry].emplace_back(state, edge.target);
    }
    if (program.returns(state)) mark(state);
  }
  while (!work.empty()) {
    const StateId state = work.back();
    work.pop_back();
    for (const StateId from : before[state]) mark(from);
    for (const auto& [from, other] : calls[state]) {
      if (nullable[other]) mark(from);
    }
  }
  return nullable;
}

}  // namespace

MaskSignature::MaskSignature(const Program& program, std::uint32_t token_bytes_max)
    : program_(program), token_bytes_max_(token_bytes_max), nullable_(find_nullable(program)) {}

std::string MaskSignature::make(const std::vector<Start>& starts) const {
  std::unordered_map<StateId, std::uint32_t> numbers;
  std::vector<StateId> now;  // reached with as many bytes as the pass counts; grows as it is walked
  std::vector<StateId> next;
  const auto reach = [&](StateId state, std::vector<StateId>& list) {
    const auto [at, is_new] =
        numbers.try_emplace(state, static_cast<std::uint32_t>(numbers.size()));
    if (is_new) list.push_back(state);
    return at->second;
  };
  std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(starts.size())};
  for (const Start& start : starts) {
    words.push_back(reach(start.state, now));
    words.push_back(static_cast<std::uint32_t>(start.targets.size()));
  }
  // A start reads before it returns.
  for (const Start& start : starts) {
    for (const StateId target : start.targets) words.push_back(reach(target, next));
  }
  for (std::uint32_t n_bytes = 0; n_bytes < token_bytes_max_ && !now.empty(); ++n_bytes) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (numbers.size() > kStatesMax) return {};
      const StateId state = now[i];
      words.push_back(numbers.at(state) << 1 | (program_.returns(state) ? 1U : 0U));
      const auto jumps = program_.jumps(state);
      const auto calls = program_.call_edges(state);
      const auto bytes = program_.byte_edges(state);
      words.push_back(static_cast<std::uint32_t>(jumps.size()));
      for (const StateId target : jumps) words.push_back(reach(target, now));
      words.push_back(static_cast<std::uint32_t>(calls.size()));
      for (const Program::CallEdge& edge : calls) {
        words.push_back(reach(edge.entry, now));
        words.push_back(reach(edge.target, nullable_[edge.entry] ? now : next));
      }
      words.push_back(static_cast<std::uint32_t>(bytes.size()));
      for (const Program::ByteEdge& edge : bytes) {
        words.push_back(std::uint32_t{edge.range.first} << 8 | edge.range.last);
        words.push_back(reach(edge.target, next));
      }
    }
    now = std::exchange(next, {});
  }
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::uint32_t)};
}

}  // namespace coxswain::grammar
