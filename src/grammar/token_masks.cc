#include "grammar/token_masks.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "grammar/place_sets.h"
#include "grammar/text_ahead.h"

namespace coxswain::grammar {
namespace {

// What is kept of a grammar; beyond, it is made anew.
constexpr std::size_t kMasksMax = 128;
// Subtrees of fewer nodes are walked rather than asked about; of so many it is found out what they need.
constexpr std::size_t kPassedNodesMin = 2;
constexpr std::size_t kAskedNodesMin = 64;
// A smaller vocabulary is walked sooner than it is looked ahead of a string with a bound.
constexpr std::size_t kNodesToPass = 16'384;

}  // namespace

class TokenMasks::Tables {
 public:
  Tables(Program program, const TokenTrie& trie)
      : trie_(trie), sets_(std::move(program)), ahead_(sets_) {}

  Position begin() EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    tidy();
    Position out;
    keep(sets_.start(), out);
    return out;
  }

  bool advance(Position& position, std::string_view bytes) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    tidy();
    SetId set = find(position);
    for (const char byte : bytes) {
      if (set == kDeadSet) return false;
      set = sets_.step(set, static_cast<std::uint8_t>(byte));
    }
    if (set == kDeadSet) return false;
    keep(set, position);
    return true;
  }

  bool is_whole(const Position& position) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    return sets_.is_whole(find(position));
  }

  bool is_at_end(const Position& position) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    const SetId set = find(position);
    return sets_.is_whole(set) && !sets_.has_places(set);
  }

  std::string forced_text(const Position& position) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    tidy();
    SetId set = find(position);
    std::string out;
    while (out.size() < kForcedBytesMax && !sets_.is_whole(set)) {
      const auto byte = sets_.only_byte(set);
      if (!byte) break;
      set = sets_.step(set, *byte);
      if (set == kDeadSet) break;
      out.push_back(static_cast<char>(*byte));
    }
    return out;
  }

  bool has_mask(const Position& position) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    return position.generation_ == sets_.generation() && position.set_ < masks_.size() &&
           masks_[position.set_] != nullptr;
  }

  Result<std::shared_ptr<const TokenMask>> mask(const Position& position) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    tidy();
    SetId set = find(position);
    if (set < masks_.size() && masks_[set]) return masks_[set];
    if (n_masks_ == kMasksMax) {
      masks_.clear();
      n_masks_ = 0;
    }
    auto made = make_mask(set, true);
    if (made == nullptr) {
      // What others had asked for may have taken the room, or what was looked ahead of.
      clear();
      set = find(position);
      made = make_mask(set, false);
    }
    if (made == nullptr) {
      return Status(Code::kResourceExhausted,
                    ErrorKind::kGeneration,
                    "the grammar is in too many states at once");
    }
    ++n_masks_;
    if (masks_.size() <= set) masks_.resize(sets_.size());
    return masks_[set] = std::move(made);
  }

 private:
  struct TokenRange {  // in the order of the tree
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  void clear() REQUIRES(mu_) {
    sets_.clear();
    ahead_.clear();
    masks_.clear();
    n_masks_ = 0;
  }

  void tidy() REQUIRES(mu_) {
    if (sets_.is_full()) clear();
  }

  // The position with what it needs to be found again after clear().
  void keep(SetId set, Position& position) REQUIRES(mu_) {
    position.set_ = set;
    position.generation_ = sets_.generation();
    sets_.spell(set, position.key_);
  }

  SetId find(const Position& position) REQUIRES(mu_) {
    if (position.generation_ == sets_.generation()) return position.set_;
    return sets_.find(position.key_);
  }

  // Null where the walk made more sets than one call may. `looks_ahead`: what may follow as a whole is passed over; the
  // mask is the same.
  std::shared_ptr<const TokenMask> make_mask(SetId from, bool looks_ahead) REQUIRES(mu_) {
    const std::span<const TokenTrie::NodeEntry> nodes = trie_.nodes();
    std::array<SetId, 256> path = {};  // by depth
    path[0] = from;
    allowed_.clear();
    passed_.clear();
    if (looks_ahead) {
      const auto bound = ahead_.string_bound(from);
      if (bound && *bound > 0)
        return pass(from, 0, nodes.size()) ? mask_of_string(*bound) : nullptr;
    }
    const bool passes = looks_ahead && nodes.size() >= kNodesToPass;
    if (passes && ahead_.takes_plain(from, true) && !takes_more_than_plain(from))
      return pass(from, 0, nodes.size()) ? mask_of_passed() : nullptr;
    for (const auto& [first, byte] : trie_.first_nodes()) {
      if (sets_.known_step(from, byte) == kDeadSet) continue;
      for (std::size_t i = first, end = nodes[first].end; i < end;) {
        const TokenTrie::NodeEntry& node = nodes[i];
        const SetId before = path[node.depth - 1U];
        SetId set = sets_.known_step(before, node.byte);
        if (passes && set != kDeadSet && set != kUnknownSet && node.end - i >= kPassedNodesMin &&
            ahead_.takes_plain(set, node.end - i >= kAskedNodesMin)) {
          if (!pass(before, i, node.end)) return nullptr;
          i = node.end;
          continue;
        }
        const bool is_all = set != kDeadSet && passes && takes_all(before, i);
        if (!is_all && set == kUnknownSet && !sets_.failed()) set = sets_.step(before, node.byte);
        if (sets_.failed()) return nullptr;
        if (is_all) allow(node.first_token, trie_.end_token(i));
        if (is_all || set == kDeadSet) {
          i = node.end;
          continue;
        }
        path[node.depth] = set;
        if (node.first_token < node.last_token) allow(node.first_token, node.last_token);
        ++i;
      }
    }
    // Looking ahead may have met a set that was too large, which then stands as dead.
    if (sets_.failed()) return nullptr;
    return passed_.empty() ? mask_of_allowed() : mask_of_passed();
  }

  // Free text is better passed over by takes_all().
  bool takes_more_than_plain(SetId from) REQUIRES(mu_) {
    const TextGroups groups = ahead_.groups(from, kPlainCharactersMax, true);
    return (groups & ~kPlainGroups) != 0;
  }

  // Takes the plain tokens of [first, last), subtrees behind `set`, and walks to the others. False where the walk made
  // more sets than one call may.
  bool pass(SetId set, std::size_t first, std::size_t last) REQUIRES(mu_) {
    const std::span<const TokenTrie::NodeEntry> nodes = trie_.nodes();
    const std::uint32_t begin = trie_.before(first).plain_tokens;
    const std::uint32_t end = trie_.before(last).plain_tokens;
    if (!passed_.empty() && passed_.back().last == begin)
      passed_.back().last = end;
    else
      passed_.push_back({begin, end});

    const std::span<const TokenTrie::OtherNode> others = trie_.others();
    std::array<SetId, 256> path;  // by depth
    if (first < nodes.size()) path[nodes[first].depth - 1U] = set;
    for (std::size_t i = trie_.before(first).others; i < trie_.before(last).others;) {
      const TokenTrie::OtherNode& other = others[i];
      const TokenTrie::NodeEntry& node = nodes[other.node];
      const SetId at = sets_.step(path[node.depth - 1U], node.byte);
      if (sets_.failed()) return false;
      if (at == kDeadSet) {
        i = other.end;
        continue;
      }
      path[node.depth] = at;
      if (other.has_tokens) allow(node.first_token, node.last_token);
      ++i;
    }
    return !sets_.failed();
  }

  // Whether all of the subtree that begins at node i may follow.
  bool takes_all(SetId before, std::size_t i) REQUIRES(mu_) {
    const TokenTrie::NodeEntry& node = trie_.nodes()[i];
    const std::size_t n_nodes = node.end - i;
    if (n_nodes < kPassedNodesMin) return false;
    const TextGroups ahead = ahead_.groups(before, node.characters, n_nodes >= kAskedNodesMin);
    return (trie_.groups(i) & ~ahead) == 0;
  }

  void allow(std::uint32_t first, std::uint32_t last) REQUIRES(mu_) {
    if (!allowed_.empty() && allowed_.back().last == first)
      allowed_.back().last = last;
    else
      allowed_.push_back({first, last});
  }

  // Few bits are set, or few of all taken away.
  std::shared_ptr<const TokenMask> mask_of_allowed() REQUIRES(mu_) {
    const std::span<const TokenId> tokens = trie_.tokens();
    std::size_t n = 0;
    for (const TokenRange& range : allowed_) n += range.last - range.first;
    const auto flip = [&](TokenMask& mask, std::uint32_t first, std::uint32_t last) {
      for (std::uint32_t t = first; t < last; ++t) {
        const auto id = static_cast<std::size_t>(tokens[t]);
        mask[id / 64] ^= std::uint64_t{1} << (id % 64);
      }
    };
    if (n <= tokens.size() / 2) {
      auto mask = std::make_shared<TokenMask>(trie_.all().size(), 0);
      for (const TokenRange& range : allowed_) flip(*mask, range.first, range.last);
      return mask;
    }
    auto mask = std::make_shared<TokenMask>(trie_.all());
    std::uint32_t at = 0;
    for (const TokenRange& range : allowed_) {
      flip(*mask, at, range.first);
      at = range.last;
    }
    flip(*mask, at, static_cast<std::uint32_t>(tokens.size()));
    return mask;
  }

  // The plain tokens of up to so many characters, and all that are allowed beside them.
  std::shared_ptr<const TokenMask> mask_of_string(std::size_t n_characters) REQUIRES(mu_) {
    auto mask = std::make_shared<TokenMask>(trie_.plain_up_to(n_characters));
    add_allowed(*mask);
    return mask;
  }

  void add_allowed(TokenMask& mask) REQUIRES(mu_) {
    const std::span<const TokenId> tokens = trie_.tokens();
    for (const TokenRange& range : allowed_) {
      for (std::uint32_t t = range.first; t < range.last; ++t) {
        const auto id = static_cast<std::size_t>(tokens[t]);
        mask[id / 64] |= std::uint64_t{1} << (id % 64);
      }
    }
  }

  // The plain tokens that were passed over, and all that are allowed beside them.
  std::shared_ptr<const TokenMask> mask_of_passed() REQUIRES(mu_) {
    const std::span<const TokenId> tokens = trie_.tokens();
    const std::span<const std::uint32_t> plain = trie_.plain_tokens();
    std::size_t n = 0;
    for (const TokenRange& range : passed_) n += range.last - range.first;
    const bool most = n > plain.size() / 2;
    auto mask = most ? std::make_shared<TokenMask>(trie_.plain())
                     : std::make_shared<TokenMask>(trie_.plain().size(), 0);
    const auto flip = [&](std::uint32_t first, std::uint32_t last) {
      for (std::uint32_t i = first; i < last; ++i) {
        const auto id = static_cast<std::size_t>(tokens[plain[i]]);
        (*mask)[id / 64] ^= std::uint64_t{1} << (id % 64);
      }
    };
    std::uint32_t at = 0;
    for (const TokenRange& range : passed_) {
      if (most)
        flip(at, range.first);
      else
        flip(range.first, range.last);
      at = range.last;
    }
    if (most) flip(at, static_cast<std::uint32_t>(plain.size()));
    add_allowed(*mask);
    return mask;
  }

  const TokenTrie& trie_;
  base::Mutex mu_;
  PlaceSets sets_ GUARDED_BY(mu_);
  TextAhead ahead_ GUARDED_BY(mu_);
  // [set], as far as they were asked for
  std::vector<std::shared_ptr<const TokenMask>> masks_ GUARDED_BY(mu_);
  std::size_t n_masks_ GUARDED_BY(mu_) = 0;
  std::vector<TokenRange> allowed_ GUARDED_BY(mu_);  // of make_mask()
  std::vector<TokenRange> passed_ GUARDED_BY(mu_);   // likewise, of plain_tokens()
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

void TokenMasks::find_forced(const Position& position,
                             std::size_t n_max,
                             std::vector<TokenId>& ids) const {
  ids.clear();
  const std::string text = tables_->forced_text(position);
  for (std::string_view left = text; !left.empty() && ids.size() < n_max;) {
    const auto id = trie_->longest(left);
    if (!id) break;
    ids.push_back(*id);
    left.remove_prefix(trie_->bytes(*id).size());
  }
}

bool TokenMasks::has_mask(const Position& position) const {
  return tables_->has_mask(position);
}

Result<std::shared_ptr<const TokenMask>> TokenMasks::mask(const Position& position) const {
  return tables_->mask(position);
}

}  // namespace coxswain::grammar
