#include "grammar/regex.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/regex_items.h"

namespace coxswain::grammar {
namespace {

using regex::Item;
using regex::ItemPtr;
using regex::make_item;
using regex::parse_items;
using Kind = Item::Kind;

constexpr std::size_t kBranchesMax = 1'000;  // that anchors make of a pattern
// Characters around what is searched, where a length bounds them.
constexpr std::uint32_t kSearchedMax = 64;

// An alternative of the whole pattern, and whether it holds at the beginning or the end of the text alone.
struct Branch {
  bool begin = false;
  bool end = false;
  std::vector<ItemPtr> items = {};
};

Status anchor_inside() {
  return invalid_argument("an anchor of the pattern has something before '^' or behind '$'");
}

// Moves anchors from the edges of groups to the branches that they are edges of.
Result<std::vector<Branch>> branches_of(const ItemPtr& item) {
  std::vector<Branch> out;
  if (!item->has_anchor) {
    out.push_back({.items = {item}});
    return out;
  }
  switch (item->kind) {
    case Kind::kBegin:
      out.push_back({.begin = true});
      return out;
    case Kind::kEnd:
      out.push_back({.end = true});
      return out;
    case Kind::kChoice:
      for (const ItemPtr& part : item->parts) {
        auto branches = branches_of(part);
        if (!branches.ok()) return branches.status();
        out.insert(out.end(), branches->begin(), branches->end());
      }
      return out;
    case Kind::kRepeat: {
      if (item->max > 1) return invalid_argument("an anchor of the pattern is repeated");
      auto branches = branches_of(item->parts.front());
      if (!branches.ok()) return branches.status();
      if (item->max == 1) out = std::move(branches.value());
      if (item->min == 0) out.push_back({});
      return out;
    }
    case Kind::kSequence:
      break;
    case Kind::kSet:
      return internal_error("a character is no anchor");
  }
  out.push_back({});
  for (const ItemPtr& part : item->parts) {
    auto branches = branches_of(part);
    if (!branches.ok()) return branches.status();
    std::vector<Branch> longer;
    for (const Branch& head : out) {
      for (const Branch& tail : branches.value()) {
        if (tail.begin && !head.items.empty()) return anchor_inside();
        if (head.end && !tail.items.empty()) return anchor_inside();
        Branch both = head;
        both.begin = head.begin || tail.begin;
        both.end = head.end || tail.end;
        both.items.insert(both.items.end(), tail.items.begin(), tail.items.end());
        longer.push_back(std::move(both));
      }
    }
    if (longer.size() > kBranchesMax) {
      return Status(Code::kResourceExhausted,
                    ErrorKind::kValidation,
                    "the anchors of the pattern make more than " + std::to_string(kBranchesMax) +
                        " alternatives");
    }
    out = std::move(longer);
  }
  return out;
}

// How many characters an item may match.
struct Lengths {
  std::uint64_t min = 0;
  std::uint64_t max = 0;  // kUnbounded or more: any number
};

Lengths lengths_of(const Item& item) {
  switch (item.kind) {
    case Kind::kSet:
      return {1, 1};
    case Kind::kSequence: {
      Lengths out;
      for (const ItemPtr& part : item.parts) {
        const Lengths more = lengths_of(*part);
        out = {std::min<std::uint64_t>(out.min + more.min, kUnbounded),
               std::min<std::uint64_t>(out.max + more.max, kUnbounded)};
      }
      return out;
    }
    case Kind::kChoice: {
      Lengths out{kUnbounded, 0};
      for (const ItemPtr& part : item.parts) {
        const Lengths more = lengths_of(*part);
        out = {std::min(out.min, more.min), std::max(out.max, more.max)};
      }
      return out;
    }
    case Kind::kRepeat: {
      const Lengths one = lengths_of(*item.parts.front());
      const std::uint64_t min = std::min<std::uint64_t>(one.min * item.min, kUnbounded);
      if (one.max == 0) return {min, 0};
      return {min, std::min<std::uint64_t>(one.max * item.max, kUnbounded)};
    }
    case Kind::kBegin:
    case Kind::kEnd:
      return {};
  }
  return {};
}

class Writer {
 public:
  Writer(Expressions& out, const RegexOptions& options) : out_(out), options_(options) {}

  Result<Node> write(const Branch& branch) {
    const Lengths core = lengths_of(*make_item({.parts = branch.items}));
    const bool before = options_.searches && !branch.begin;
    const bool behind = options_.searches && !branch.end;
    const bool bounded = options_.length_min > 0 || options_.length_max != kUnbounded;
    const Lengths any_number{0, kUnbounded};
    const Lengths none{0, 0};
    if (!bounded)
      return around(before ? any_number : none, branch.items, behind ? any_number : none);
    const std::uint64_t min = options_.length_min;
    const std::uint64_t max = options_.length_max;
    if (core.min > max && max != kUnbounded) return out_.nothing();
    if (!before && !behind) {
      if (core.min >= min && core.max <= max) return items(branch.items);
      return bound_one(branch.items, min, max);
    }
    if (core.min != core.max) return no_length();
    const std::uint64_t least = min > core.min ? min - core.min : 0;
    const std::uint64_t most = max == kUnbounded ? kUnbounded : max - core.min;
    const Lengths rest{least, most};
    if (!before || !behind) return around(before ? rest : none, branch.items, behind ? rest : none);
    if (std::max(least, most == kUnbounded ? 0 : most) > kSearchedMax) return no_length();
    std::vector<Node> choices;
    const std::uint64_t last = most == kUnbounded ? least : most;
    for (std::uint64_t n = 0; n <= last; ++n) {
      const bool open = most == kUnbounded && n == last;  // any number more before it
      choices.push_back(around({n, open ? kUnbounded : n},
                               branch.items,
                               {least > n ? least - n : 0, most == kUnbounded ? most : most - n}));
    }
    return out_.choice(choices);
  }

 private:
  static Status no_length() {
    return invalid_argument(
        "the lengths of what the pattern matches cannot be told, so that a bound on the length "
        "cannot be kept");
  }

  Node spell(const CharacterSet& set) {
    if (options_.spell) return options_.spell(out_, set);
    return out_.characters(set);
  }

  Node any(const Lengths& lengths) {
    return out_.repeat(
        spell(CharacterSet::all()),
        static_cast<std::uint32_t>(lengths.min),
        static_cast<std::uint32_t>(std::min<std::uint64_t>(lengths.max, kUnbounded)));
  }

  // `core` with so many characters of any kind before and behind it.
  Node around(const Lengths& before, const std::vector<ItemPtr>& core, const Lengths& behind) {
    return out_.sequence({any(before), items(core), any(behind)});
  }

  Node items(const std::vector<ItemPtr>& parts) {
    std::vector<Node> nodes;
    nodes.reserve(parts.size());
    for (const ItemPtr& part : parts) nodes.push_back(node(*part));
    return out_.sequence(nodes);
  }

  Node node(const Item& item) {
    switch (item.kind) {
      case Kind::kSet:
        return item.set.empty() ? out_.nothing() : spell(item.set);
      case Kind::kSequence:
        return items(item.parts);
      case Kind::kChoice: {
        std::vector<Node> nodes;
        nodes.reserve(item.parts.size());
        for (const ItemPtr& part : item.parts) nodes.push_back(node(*part));
        return out_.choice(nodes);
      }
      case Kind::kRepeat:
        return out_.repeat(node(*item.parts.front()), item.min, item.max);
      case Kind::kBegin:
      case Kind::kEnd:
        break;
    }
    return out_.empty();
  }

  // Items of which one repeats single characters and all others have one length: that one takes the bounds.
  Result<Node> bound_one(const std::vector<ItemPtr>& parts, std::uint64_t min, std::uint64_t max) {
    if (parts.size() == 1 && parts.front()->kind == Kind::kSequence)
      return bound_one(parts.front()->parts, min, max);
    if (parts.size() == 1 && parts.front()->kind == Kind::kChoice) {
      std::vector<Node> choices;
      for (const ItemPtr& part : parts.front()->parts) {
        const Lengths one = lengths_of(*part);
        if (one.min > max || one.max < min) continue;
        const bool fits = one.min >= min && one.max <= max;
        Result<Node> bounded = fits ? Result<Node>(node(*part)) : bound_one({part}, min, max);
        if (!bounded.ok()) return bounded;
        choices.push_back(bounded.value());
      }
      return out_.choice(choices);
    }
    const Item* variable = nullptr;
    std::uint64_t fixed = 0;
    for (const ItemPtr& part : parts) {
      const Lengths lengths = lengths_of(*part);
      if (lengths.min == lengths.max && lengths.max < kUnbounded) {
        fixed += lengths.min;
        continue;
      }
      if (variable != nullptr || part->kind != Kind::kRepeat) return no_length();
      variable = part.get();
    }
    if (variable == nullptr) return fixed < min || fixed > max ? out_.nothing() : items(parts);
    const Lengths one = lengths_of(*variable->parts.front());
    if (one.min != one.max || one.min == 0) return no_length();
    if (max != kUnbounded && fixed > max) return out_.nothing();
    const std::uint64_t rest = min > fixed ? min - fixed : 0;
    const std::uint64_t low =
        std::max<std::uint64_t>(variable->min, (rest + one.min - 1) / one.min);
    const std::uint64_t high =
        max == kUnbounded ? variable->max
                          : std::min<std::uint64_t>(variable->max, (max - fixed) / one.min);
    if (low > high) return out_.nothing();
    std::vector<Node> nodes;
    nodes.reserve(parts.size());
    for (const ItemPtr& part : parts) {
      nodes.push_back(part.get() == variable ? out_.repeat(node(*variable->parts.front()),
                                                           static_cast<std::uint32_t>(low),
                                                           static_cast<std::uint32_t>(high))
                                             : node(*part));
    }
    return out_.sequence(nodes);
  }

  Expressions& out_;
  const RegexOptions& options_;
};

}  // namespace

Result<Node> parse_regex(Expressions& expressions,
                         std::string_view pattern,
                         const RegexOptions& options) {
  const auto item = parse_items(pattern);
  if (!item.ok()) return item.status();
  const auto branches = branches_of(item.value());
  if (!branches.ok()) return branches.status();
  Writer writer(expressions, options);
  std::vector<Node> nodes;
  for (const Branch& branch : branches.value()) {
    auto node = writer.write(branch);
    if (!node.ok()) return node;
    nodes.push_back(node.value());
  }
  return expressions.choice(nodes);
}

}  // namespace coxswain::grammar
