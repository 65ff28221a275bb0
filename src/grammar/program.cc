#include "grammar/program.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/numbers.h"

namespace coxswain::grammar {
namespace {

constexpr std::string_view kMagic = "CXG1";

void append_number(std::string& out, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Reads what append_number wrote; after an error every number is 0.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint32_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const std::uint8_t next = byte();
      value |= std::uint64_t{next & 0x7FU} << shift;
      if (next < 0x80) {
        if (value > std::numeric_limits<std::uint32_t>::max()) break;
        return static_cast<std::uint32_t>(value);
      }
    }
    failed_ = true;
    return 0;
  }
  std::uint8_t byte() {
    if (at_ == bytes_.size()) failed_ = true;
    return failed_ ? 0 : static_cast<std::uint8_t>(bytes_[at_++]);
  }
  bool failed() const { return failed_; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

Status broken(std::string_view what) {
  return invalid_argument("the compiled grammar is broken: " + std::string(what));
}

}  // namespace

std::span<const Program::ByteEdge> Program::byte_edges(StateId state) const {
  const std::uint32_t begin = states_[state].first_byte_edge;
  return {byte_edges_.data() + begin, states_[state + 1].first_byte_edge - begin};
}

std::span<const Program::CallEdge> Program::call_edges(StateId state) const {
  const std::uint32_t begin = states_[state].first_call_edge;
  return {call_edges_.data() + begin, states_[state + 1].first_call_edge - begin};
}

std::span<const StateId> Program::jumps(StateId state) const {
  const std::uint32_t begin = states_[state].first_jump;
  return {jumps_.data() + begin, states_[state + 1].first_jump - begin};
}

std::string Program::to_bytes() const {
  std::string out(kMagic);
  append_number(out, static_cast<std::uint32_t>(n_states()));
  append_number(out, start_);
  for (StateId state = 0; state < n_states(); ++state) {
    out.push_back(returns(state) ? 1 : 0);
    append_number(out, static_cast<std::uint32_t>(byte_edges(state).size()));
    for (const ByteEdge& edge : byte_edges(state)) {
      out.push_back(static_cast<char>(edge.range.first));
      out.push_back(static_cast<char>(edge.range.last));
      append_number(out, edge.target);
    }
    append_number(out, static_cast<std::uint32_t>(call_edges(state).size()));
    for (const CallEdge& edge : call_edges(state)) {
      append_number(out, edge.entry);
      append_number(out, edge.target);
    }
    append_number(out, static_cast<std::uint32_t>(jumps(state).size()));
    for (const StateId target : jumps(state)) append_number(out, target);
  }
  return out;
}

Result<Program> Program::from_bytes(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return broken("it does not begin with " + std::string(kMagic));
  Reader reader(bytes.substr(kMagic.size()));
  const std::uint32_t n_states = reader.number();
  if (n_states == 0 || n_states > kProgramStatesMax) {
    return broken("it has " + std::to_string(n_states) + " states; 1 to " +
                  std::to_string(kProgramStatesMax) + " are allowed");
  }
  Program out;
  out.start_ = reader.number();
  const auto in_range = [&](StateId state) { return state < n_states; };
  bool fits = in_range(out.start_);
  for (StateId state = 0; state < n_states && fits && !reader.failed(); ++state) {
    out.states_.push_back({.first_byte_edge = static_cast<std::uint32_t>(out.byte_edges_.size()),
                           .first_call_edge = static_cast<std::uint32_t>(out.call_edges_.size()),
                           .first_jump = static_cast<std::uint32_t>(out.jumps_.size()),
                           .returns = reader.byte() != 0});
    // Every edge takes a byte at least, so that a number without the bytes behind it takes no memory.
    for (std::uint32_t n = reader.number(); n > 0 && fits && !reader.failed(); --n) {
      const std::uint8_t first = reader.byte();
      const std::uint8_t last = reader.byte();
      out.byte_edges_.push_back({{first, last}, reader.number()});
      fits = first <= last && in_range(out.byte_edges_.back().target);
    }
    for (std::uint32_t n = reader.number(); n > 0 && fits && !reader.failed(); --n) {
      const StateId entry = reader.number();
      out.call_edges_.push_back({entry, reader.number()});
      fits = in_range(entry) && in_range(out.call_edges_.back().target);
    }
    for (std::uint32_t n = reader.number(); n > 0 && fits && !reader.failed(); --n) {
      out.jumps_.push_back(reader.number());
      fits = in_range(out.jumps_.back());
    }
    if (out.byte_edges_.size() + out.call_edges_.size() + out.jumps_.size() > kProgramEdgesMax)
      return broken("it has more than " + std::to_string(kProgramEdgesMax) + " edges");
  }
  if (!fits) return broken("an edge leads to no state");
  if (reader.failed()) return broken("it ends too early");
  if (!reader.at_end()) return broken("bytes follow its end");
  out.states_.push_back({.first_byte_edge = static_cast<std::uint32_t>(out.byte_edges_.size()),
                         .first_call_edge = static_cast<std::uint32_t>(out.call_edges_.size()),
                         .first_jump = static_cast<std::uint32_t>(out.jumps_.size())});
  return out;
}

}  // namespace coxswain::grammar
