#include "grammar/place_sets.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/keyed_hash.h"

namespace coxswain::grammar {
namespace {

// What is kept of a grammar; beyond, it is made anew.
constexpr std::size_t kSetsMax = 4'096;
// What one call may add to it, and what one set may hold.
constexpr std::size_t kSetsOfCallMax = 65'536;
constexpr std::size_t kStacksMax = 1U << 20;
constexpr std::size_t kPlacesMax = 4'096;
// So many places are looked through one by one.
constexpr std::size_t kSeenMin = 48;

}  // namespace

ByteClasses::ByteClasses(const Program& program) {
  std::array<bool, 257> begins = {};
  begins[0] = true;
  for (StateId state = 0; state < program.n_states(); ++state) {
    for (const Program::ByteEdge& edge : program.byte_edges(state)) {
      begins[edge.range.first] = true;
      begins[edge.range.last + 1U] = true;
    }
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (begins[byte]) first_byte.push_back(static_cast<std::uint8_t>(byte));
    of[byte] = static_cast<std::uint8_t>(first_byte.size() - 1);
  }
}

PlaceSets::PlaceSets(Program program) : program_(std::move(program)), classes_(program_) {
  clear();
}

void PlaceSets::clear() {
  ++generation_;
  sets_.clear();
  rows_.clear();
  places_.clear();
  slots_.clear();
  stacks_.assign(1, {});
  stack_ids_.clear();
  overflowed_ = false;
  intern({}, false);  // kDeadSet
  next_.assign(1, {program_.start(), 0});
  start_ = close();
}

bool PlaceSets::is_full() const {
  return sets_.size() > kSetsMax || stacks_.size() > kStacksMax / 2 || overflowed_;
}

bool PlaceSets::failed() const {
  return sets_.size() > kSetsOfCallMax || overflowed_;
}

bool PlaceSets::covers(SetId set, SetId part) const {
  if (set == part) return true;
  if (set == kDeadSet) return false;  // `part` may be whole, and without places too
  const auto places = places_of(set);
  const auto of_part = places_of(part);
  return std::includes(places.begin(), places.end(), of_part.begin(), of_part.end());
}

std::optional<std::uint8_t> PlaceSets::only_byte(SetId set) const {
  const std::size_t n_classes = classes_.first_byte.size();
  const auto row = std::span(rows_).subspan(set * n_classes, n_classes);
  const auto lives = [](SetId to) { return to != kDeadSet; };
  const auto only = std::ranges::find_if(row, lives);
  if (only == row.end() || std::find_if(only + 1, row.end(), lives) != row.end()) return {};
  const auto at = static_cast<std::size_t>(only - row.begin());
  const unsigned end = at + 1 < n_classes ? classes_.first_byte[at + 1] : 256U;
  if (end - classes_.first_byte[at] != 1) return {};
  return classes_.first_byte[at];
}

PlaceSets::StackId PlaceSets::push(StateId target, StackId below) {
  const std::uint64_t key = std::uint64_t{target} << 32 | below;
  const auto [at, is_new] = stack_ids_.try_emplace(key, static_cast<StackId>(stacks_.size()));
  if (is_new) stacks_.push_back({target, below});
  return at->second;
}

// A state that does nothing but return needs no place to come back to.
bool PlaceSets::only_returns(StateId state) const {
  return program_.returns(state) && program_.byte_edges(state).empty() &&
         program_.call_edges(state).empty() && program_.jumps(state).empty();
}

std::span<const PlaceSets::Place> PlaceSets::places_of(SetId set) const {
  return std::span(places_).subspan(sets_[set].first_place, sets_[set].n_places);
}

// The set of all places that are reached from next_ without a byte: of those that read one.
SetId PlaceSets::close() {
  bool whole = false;
  reached_.clear();
  seen_.clear();
  const auto visit = [&](const Place& place) {
    if (is_new(place)) reached_.push_back(place);
  };
  for (const Place& place : next_) visit(place);
  next_.clear();
  for (std::size_t i = 0; i < reached_.size(); ++i) {
    const Place place = reached_[i];
    if (reached_.size() > kPlacesMax || stacks_.size() > kStacksMax) {
      overflowed_ = true;
      return kDeadSet;
    }
    if (!program_.byte_edges(place.state).empty()) next_.push_back(place);
    for (const StateId target : program_.jumps(place.state)) visit({target, place.stack});
    for (const Program::CallEdge& edge : program_.call_edges(place.state)) {
      visit({edge.entry, only_returns(edge.target) ? place.stack : push(edge.target, place.stack)});
    }
    if (!program_.returns(place.state)) continue;
    if (place.stack == 0)
      whole = true;
    else
      visit({stacks_[place.stack].target, stacks_[place.stack].below});
  }
  std::sort(next_.begin(), next_.end());
  return intern(next_, whole);
}

// Whether a place is not among those reached so far: few are looked through, many have a table.
bool PlaceSets::is_new(const Place& place) {
  if (reached_.size() < kSeenMin)
    return std::find(reached_.begin(), reached_.end(), place) == reached_.end();
  if (seen_.empty()) seen_.insert(reached_.begin(), reached_.end());
  return seen_.insert(place).second;
}

SetId PlaceSets::intern(std::span<const Place> places, bool whole) {
  const std::string_view bytes(reinterpret_cast<const char*>(places.data()), places.size_bytes());
  const std::size_t hash = base::KeyedHash()(bytes) ^ (whole ? 1 : 0);
  if (sets_.size() * 2 >= slots_.size()) grow_slots();
  for (std::size_t at = hash;; ++at) {
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.set == kUnknownSet) {
      slot = {static_cast<SetId>(sets_.size()), hash};
      sets_.push_back({.first_place = static_cast<std::uint32_t>(places_.size()),
                       .n_places = static_cast<std::uint32_t>(places.size()),
                       .whole = whole});
      places_.insert(places_.end(), places.begin(), places.end());
      add_row(places);
      return slot.set;
    }
    if (slot.hash == hash && sets_[slot.set].whole == whole &&
        std::ranges::equal(places_of(slot.set), places)) {
      return slot.set;
    }
  }
}

// Of the next set: what no place reads leads nowhere.
void PlaceSets::add_row(std::span<const Place> places) {
  const std::size_t begin = rows_.size();
  rows_.resize(begin + classes_.first_byte.size(), kDeadSet);
  for (const Place& place : places) {
    for (const Program::ByteEdge& edge : program_.byte_edges(place.state)) {
      std::fill(
          rows_.begin() + static_cast<std::ptrdiff_t>(begin + classes_.of[edge.range.first]),
          rows_.begin() + static_cast<std::ptrdiff_t>(begin + classes_.of[edge.range.last] + 1U),
          kUnknownSet);
    }
  }
}

void PlaceSets::grow_slots() {
  std::vector<Slot> old(std::max<std::size_t>(64, slots_.size() * 2));
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.set == kUnknownSet) continue;
    std::size_t at = slot.hash;
    while (slots_[at & (slots_.size() - 1)].set != kUnknownSet) ++at;
    slots_[at & (slots_.size() - 1)] = slot;
  }
}

SetId PlaceSets::make_step(SetId from, std::uint8_t byte) {
  next_.clear();
  // [first, last]: what the same edges read.
  unsigned first = 0;
  unsigned last = 255;
  for (const Place& place : places_of(from)) {
    for (const Program::ByteEdge& edge : program_.byte_edges(place.state)) {
      if (edge.range.last < byte) {
        first = std::max(first, edge.range.last + 1U);
      } else if (edge.range.first > byte) {
        last = std::min(last, edge.range.first - 1U);
      } else {
        first = std::max<unsigned>(first, edge.range.first);
        last = std::min<unsigned>(last, edge.range.last);
        next_.push_back({edge.target, place.stack});
      }
    }
  }
  const SetId to = close();
  SetId* const row = &rows_[from * classes_.first_byte.size()];
  std::fill(row + classes_.of[first], row + classes_.of[last] + 1, to);
  return to;
}

void PlaceSets::spell(SetId set, std::vector<std::uint32_t>& key) const {
  const std::span<const Place> places = places_of(set);
  // Stacks have higher numbers than what lies below them.
  std::vector<StackId> stacks;
  for (const Place& place : places) {
    for (StackId at = place.stack; at != 0; at = stacks_[at].below) {
      const auto found = std::lower_bound(stacks.begin(), stacks.end(), at);
      if (found != stacks.end() && *found == at) break;
      stacks.insert(found, at);
    }
  }
  const auto number = [&](StackId stack) {
    if (stack == 0) return std::uint32_t{0};
    return static_cast<std::uint32_t>(std::lower_bound(stacks.begin(), stacks.end(), stack) -
                                      stacks.begin() + 1);
  };
  key.clear();
  key.push_back(sets_[set].whole ? 1 : 0);
  key.push_back(static_cast<std::uint32_t>(stacks.size()));
  for (const StackId stack : stacks) {
    key.push_back(stacks_[stack].target);
    key.push_back(number(stacks_[stack].below));
  }
  for (const Place& place : places) {
    key.push_back(place.state);
    key.push_back(number(place.stack));
  }
}

SetId PlaceSets::find(std::span<const std::uint32_t> key) {
  if (key.empty()) return kDeadSet;
  next_.clear();
  std::vector<StackId> stacks = {0};
  std::size_t at = 2;
  for (std::uint32_t i = 0; i < key[1]; ++i, at += 2)
    stacks.push_back(push(key[at], stacks[key[at + 1]]));
  for (; at < key.size(); at += 2) next_.push_back({key[at], stacks[key[at + 1]]});
  std::sort(next_.begin(), next_.end());
  return intern(next_, key[0] != 0);
}

}  // namespace coxswain::grammar
