#include "grammar/token_masks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/keyed_hash.h"
#include "base/mutex.h"

namespace coxswain::grammar {
namespace {

// What is kept of a grammar; beyond, it is made anew.
constexpr std::size_t kSetsMax = 4'096;
constexpr std::size_t kMasksMax = 128;
// What one call may add to it, and what one set may hold.
constexpr std::size_t kSetsOfCallMax = 65'536;
constexpr std::size_t kStacksMax = 1U << 20;
constexpr std::size_t kPlacesMax = 4'096;
// So many places are looked through one by one.
constexpr std::size_t kSeenMin = 48;

using SetId = std::uint32_t;
using StackId = std::uint32_t;  // 0: nothing to return to
constexpr SetId kDead = 0;      // the set of no places
constexpr SetId kUnknown = 0xFFFFFFFF;

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

// Bytes that no edge of the program tells apart have the same class.
struct ByteClasses {
  std::array<std::uint8_t, 256> of = {};
  std::vector<std::uint8_t> first_byte;  // [class]

  explicit ByteClasses(const Program& program) {
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
};

}  // namespace

// Sets of places, numbered as texts reach them. Only places that read a byte are kept in a set: the others are passed
// through as the set is made.
class TokenMasks::Tables {
 public:
  Tables(Program program, const TokenTrie& trie)
      : program_(std::move(program)), classes_(program_), trie_(trie) {
    base::MutexLock lock(mu_);
    clear();
  }

  Position begin() EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    tidy();
    Position out;
    keep(start_, out);
    return out;
  }

  bool advance(Position& position, std::string_view bytes) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    tidy();
    SetId set = find(position);
    for (const char byte : bytes) {
      if (set == kDead) return false;
      set = step(set, static_cast<std::uint8_t>(byte));
    }
    if (set == kDead) return false;
    keep(set, position);
    return true;
  }

  bool is_whole(const Position& position) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    return sets_[find(position)].whole;
  }

  bool is_at_end(const Position& position) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    const Set& set = sets_[find(position)];
    return set.whole && set.places.empty();
  }

  Result<std::shared_ptr<const TokenMask>> mask(const Position& position) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    tidy();
    SetId set = find(position);
    if (sets_[set].mask) return sets_[set].mask;
    if (n_masks_ == kMasksMax) {
      clear();
      set = find(position);
    }
    auto made = make_mask(set);
    if (made == nullptr && sets_.size() > kSetsOfCallMax / 2) {
      // What others had asked for may have taken the room.
      clear();
      set = find(position);
      made = make_mask(set);
    }
    if (made == nullptr) {
      return Status(Code::kResourceExhausted,
                    ErrorKind::kGeneration,
                    "the grammar is in too many states at once");
    }
    ++n_masks_;
    sets_[set].mask = made;
    return made;
  }

 private:
  struct Set {
    std::vector<Place> places;  // ascending
    bool whole = false;
    std::shared_ptr<const TokenMask> mask = nullptr;
  };
  struct Stack {
    StateId target = 0;
    StackId below = 0;
  };

  void clear() REQUIRES(mu_) {
    ++generation_;
    sets_.clear();
    rows_.clear();
    ids_.clear();
    stacks_.assign(1, {});
    stack_ids_.clear();
    n_masks_ = 0;
    overflowed_ = false;
    intern({});  // kDead
    std::vector<Place> places = {{program_.start(), 0}};
    start_ = intern(close(places));
  }

  void tidy() REQUIRES(mu_) {
    if (sets_.size() > kSetsMax || stacks_.size() > kStacksMax / 2 || overflowed_) clear();
  }

  StackId push(StateId target, StackId below) REQUIRES(mu_) {
    const std::uint64_t key = std::uint64_t{target} << 32 | below;
    const auto [at, is_new] = stack_ids_.try_emplace(key, static_cast<StackId>(stacks_.size()));
    if (is_new) stacks_.push_back({target, below});
    return at->second;
  }

  // A state that does nothing but return needs no place to come back to.
  bool only_returns(StateId state) const {
    return program_.returns(state) && program_.byte_edges(state).empty() &&
           program_.call_edges(state).empty() && program_.jumps(state).empty();
  }

  // All places that are reached from these without a byte; then those that read one.
  Set close(std::vector<Place>& places) REQUIRES(mu_) {
    Set out;
    seen_.clear();
    const std::vector<Place> given = std::exchange(places, {});
    const auto visit = [&](const Place& place) REQUIRES(mu_) {
      if (!is_new(place, places)) return;
      places.push_back(place);
    };
    for (const Place& place : given) visit(place);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place place = places[i];
      if (places.size() > kPlacesMax || stacks_.size() > kStacksMax) {
        overflowed_ = true;
        return {};
      }
      for (const StateId target : program_.jumps(place.state)) visit({target, place.stack});
      for (const Program::CallEdge& edge : program_.call_edges(place.state)) {
        visit(
            {edge.entry, only_returns(edge.target) ? place.stack : push(edge.target, place.stack)});
      }
      if (!program_.returns(place.state)) continue;
      if (place.stack == 0)
        out.whole = true;
      else
        visit({stacks_[place.stack].target, stacks_[place.stack].below});
    }
    for (const Place& place : places) {
      if (!program_.byte_edges(place.state).empty()) out.places.push_back(place);
    }
    std::sort(out.places.begin(), out.places.end());
    return out;
  }

  // Whether a place is not among those seen so far: few are looked through, many have a table.
  bool is_new(const Place& place, const std::vector<Place>& seen) REQUIRES(mu_) {
    if (seen.size() < kSeenMin) return std::find(seen.begin(), seen.end(), place) == seen.end();
    if (seen_.empty()) seen_.insert(seen.begin(), seen.end());
    return seen_.insert(place).second;
  }

  SetId intern(Set set) REQUIRES(mu_) {
    std::string key(1, set.whole ? '\1' : '\0');
    key.append(reinterpret_cast<const char*>(set.places.data()), set.places.size() * sizeof(Place));
    const auto [at, is_new] = ids_.try_emplace(std::move(key), static_cast<SetId>(sets_.size()));
    if (is_new) {
      sets_.push_back(std::move(set));
      rows_.resize(sets_.size() * classes_.first_byte.size(), kUnknown);
    }
    return at->second;
  }

  SetId step(SetId from, std::uint8_t byte) REQUIRES(mu_) {
    const std::size_t n_classes = classes_.first_byte.size();
    const std::size_t byte_class = classes_.of[byte];
    const SetId known = rows_[from * n_classes + byte_class];
    if (known != kUnknown) return known;
    const std::uint8_t of_class = classes_.first_byte[byte_class];
    next_.clear();
    for (const Place& place : sets_[from].places) {
      for (const Program::ByteEdge& edge : program_.byte_edges(place.state)) {
        if (edge.range.first <= of_class && of_class <= edge.range.last)
          next_.push_back({edge.target, place.stack});
      }
    }
    const SetId to = next_.empty() ? kDead : intern(close(next_));
    return rows_[from * n_classes + byte_class] = to;
  }

  // The position with what it needs to be found again after clear().
  void keep(SetId set, Position& position) REQUIRES(mu_) {
    position.set_ = set;
    position.generation_ = generation_;
    std::vector<std::uint32_t>& key = position.key_;
    const std::vector<Place>& places = sets_[set].places;
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

  SetId find(const Position& position) REQUIRES(mu_) {
    if (position.generation_ == generation_) return position.set_;
    const std::vector<std::uint32_t>& key = position.key_;
    if (key.empty()) return kDead;
    Set set;
    set.whole = key[0] != 0;
    std::vector<StackId> stacks = {0};
    std::size_t at = 2;
    for (std::uint32_t i = 0; i < key[1]; ++i, at += 2)
      stacks.push_back(push(key[at], stacks[key[at + 1]]));
    for (; at < key.size(); at += 2) set.places.push_back({key[at], stacks[key[at + 1]]});
    std::sort(set.places.begin(), set.places.end());
    return intern(std::move(set));
  }

  // Null where the walk made more sets than one call may.
  std::shared_ptr<const TokenMask> make_mask(SetId from) REQUIRES(mu_) {
    auto mask = std::make_shared<TokenMask>((trie_.n_tokens() + 63) / 64, 0);
    const std::size_t n_classes = classes_.first_byte.size();
    const std::span<const TokenTrie::NodeEntry> nodes = trie_.nodes();
    const std::span<const TokenId> tokens = trie_.tokens();
    std::array<SetId, 256> path = {};  // by depth
    path[0] = from;
    for (std::size_t i = 0; i < nodes.size();) {
      const TokenTrie::NodeEntry& node = nodes[i];
      const SetId before = path[node.depth - 1U];
      SetId set = rows_[before * n_classes + classes_.of[node.byte]];
      if (set == kUnknown) {
        set = step(before, node.byte);
        if (sets_.size() > kSetsOfCallMax || overflowed_) return nullptr;
      }
      if (set == kDead) {
        i = node.end;
        continue;
      }
      path[node.depth] = set;
      for (std::uint32_t t = node.first_token; t < node.last_token; ++t) {
        const auto id = static_cast<std::size_t>(tokens[t]);
        (*mask)[id / 64] |= std::uint64_t{1} << (id % 64);
      }
      ++i;
    }
    return mask;
  }

  const Program program_;
  const ByteClasses classes_;
  const TokenTrie& trie_;

  base::Mutex mu_;
  std::uint32_t generation_ GUARDED_BY(mu_) = 0;
  SetId start_ GUARDED_BY(mu_) = kDead;
  std::vector<Set> sets_ GUARDED_BY(mu_);
  std::vector<SetId> rows_ GUARDED_BY(mu_);  // [set][byte class]
  std::unordered_map<std::string, SetId, base::KeyedHash, std::equal_to<>> ids_ GUARDED_BY(mu_);
  std::vector<Stack> stacks_ GUARDED_BY(mu_);
  std::unordered_map<std::uint64_t, StackId> stack_ids_ GUARDED_BY(mu_);
  std::size_t n_masks_ GUARDED_BY(mu_) = 0;
  bool overflowed_ GUARDED_BY(mu_) = false;  // a set was too large, and stands as dead
  std::vector<Place> next_ GUARDED_BY(mu_);  // of step()
  std::unordered_set<Place, PlaceHash> seen_ GUARDED_BY(mu_);  // of close()
};

TokenMasks::TokenMasks(Program program, std::shared_ptr<const TokenTrie> trie)
    : trie_(std::move(trie)), tables_(std::make_unique<Tables>(std::move(program), *trie_)) {}
TokenMasks::~TokenMasks() = default;

TokenMasks::Position TokenMasks::begin() const {
  return tables_->begin();
}

bool TokenMasks::advance(Position& position, std::string_view bytes) const {
  return tables_->advance(position, bytes);
}

bool TokenMasks::advance(Position& position, TokenId token) const {
  const std::string_view bytes = trie_->bytes(token);
  return !bytes.empty() && tables_->advance(position, bytes);
}

bool TokenMasks::is_whole(const Position& position) const {
  return tables_->is_whole(position);
}

bool TokenMasks::is_at_end(const Position& position) const {
  return tables_->is_at_end(position);
}

Result<std::shared_ptr<const TokenMask>> TokenMasks::mask(const Position& position) const {
  return tables_->mask(position);
}

}  // namespace coxswain::grammar
