#pragma once
// PlaceSets: where texts may stand in a program: sets of places, numbered as texts reach them, each with a row of its
// transitions that fills as bytes are read.
//
// Only places that read a byte are kept in a set: the others are passed through as the set is made. What one call may
// add is bounded: behind it failed() says that sets were left out, and clear() begins anew.
//
// Thread rule: belongs to one thread at a time.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/program.h"

namespace coxswain::grammar {

using SetId = std::uint32_t;
inline constexpr SetId kDeadSet = 0;  // of no places
inline constexpr SetId kUnknownSet = 0xFFFFFFFF;

// Bytes that no edge of the program tells apart have the same class.
struct ByteClasses {
  std::array<std::uint8_t, 256> of = {};
  std::vector<std::uint8_t> first_byte;  // [class]

  explicit ByteClasses(const Program& program);
};

class PlaceSets {
 public:
  explicit PlaceSets(Program program);

  void clear();
  // Counts the calls of clear(): numbers of sets are of one generation.
  std::uint32_t generation() const { return generation_; }
  // So much is kept that the next call should clear() first.
  bool is_full() const;
  // A call has made more than one may: a set that was too large stands as dead.
  bool failed() const;

  std::size_t size() const { return sets_.size(); }
  SetId start() const { return start_; }
  bool is_whole(SetId set) const { return sets_[set].whole; }
  bool has_places(SetId set) const { return sets_[set].n_places > 0; }
  // Whether `set` can go on wherever `part` can.
  bool covers(SetId set, SetId part) const;

  const ByteClasses& classes() const { return classes_; }
  // The one byte that can follow; none where there are more, or none.
  std::optional<std::uint8_t> only_byte(SetId set) const;
  // kUnknownSet where no text has gone yet.
  SetId known_step(SetId from, std::uint8_t byte) const {
    return rows_[from * classes_.first_byte.size() + classes_.of[byte]];
  }
  SetId step(SetId from, std::uint8_t byte) {
    const SetId known = known_step(from, byte);
    return known != kUnknownSet ? known : make_step(from, byte);
  }

  // A set, spelled so that it outlives clear().
  void spell(SetId set, std::vector<std::uint32_t>& key) const;
  SetId find(std::span<const std::uint32_t> key);

 private:
  using StackId = std::uint32_t;  // 0: nothing to return to
  // A state, and where the rules that it lies in return to.
  struct Place {
    StateId state = 0;
    StackId stack = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& place) const {
      return std::hash<std::uint64_t>()(std::uint64_t{place.state} << 32 | place.stack);
    }
  };
  struct Set {
    std::uint32_t first_place = 0;  // of places_, ascending
    std::uint32_t n_places = 0;
    bool whole = false;
  };
  struct Slot {
    SetId set = kUnknownSet;
    std::size_t hash = 0;
  };
  struct Stack {
    StateId target = 0;
    StackId below = 0;
  };

  std::span<const Place> places_of(SetId set) const;
  StackId push(StateId target, StackId below);
  bool only_returns(StateId state) const;
  SetId make_step(SetId from, std::uint8_t byte);
  SetId close();
  bool is_new(const Place& place);
  SetId intern(std::span<const Place> places, bool whole);
  void add_row(std::span<const Place> places);
  void grow_slots();

  const Program program_;
  const ByteClasses classes_;
  std::uint32_t generation_ = 0;
  SetId start_ = kDeadSet;
  bool overflowed_ = false;
  std::vector<Set> sets_;
  std::vector<Place> places_;  // of all sets, one after the other
  std::vector<SetId> rows_;    // [set][byte class]
  std::vector<Slot> slots_;    // sets by what they hold; a power of two, half of them free
  std::vector<Stack> stacks_;
  std::unordered_map<std::uint64_t, StackId> stack_ids_;
  std::vector<Place> next_;                    // of make_step() and close()
  std::vector<Place> reached_;                 // of close()
  std::unordered_set<Place, PlaceHash> seen_;  // of close()
};

}  // namespace coxswain::grammar
