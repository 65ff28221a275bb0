#include "grammar/text_ahead.h"

#include <algorithm>
#include <bitset>

namespace coxswain::grammar {

TextAhead::TextAhead(PlaceSets& sets) : sets_(sets) {
  const auto& class_of = sets_.classes().of;
  std::bitset<256> seen;
  for (std::uint8_t byte = 0; byte < 0x80; ++byte) {
    if ((kPlainGroups >> ascii_group(byte) & 1) == 0 || seen[class_of[byte]]) continue;
    seen.set(class_of[byte]);
    plain_bytes_.push_back(byte);
  }
  for (unsigned byte = 0x80; byte < 0xC0; ++byte) {
    if (byte == 0x80 || class_of[byte] != class_of[byte - 1])
      rest_begins_.push_back(static_cast<std::uint8_t>(byte));
  }
  for (unsigned byte = 0xC2; byte <= 0xF4; ++byte) {
    const Utf8Place place = behind_lead(static_cast<std::uint8_t>(byte));
    if (!leads_.empty() && leads_.back().place == place && class_of[byte] == class_of[byte - 1])
      continue;
    leads_.push_back({static_cast<std::uint8_t>(byte), place});
  }
}

// Whether every rest of a character leads from `from` to `to`, or to more.
bool TextAhead::rests_lead_to(SetId from, const Utf8Place& place, SetId to) {
  const auto& class_of = sets_.classes().of;
  SetId last = kUnknownSet;
  for (unsigned byte = place.first; byte <= place.last; ++byte) {
    if (byte > place.first && class_of[byte] == class_of[byte - 1]) continue;
    const SetId next = sets_.step(from, static_cast<std::uint8_t>(byte));
    if (next == last) continue;
    last = next;
    if (next == kDeadSet || sets_.failed()) return false;
    const Utf8Place then = behind_byte(place);
    if (then.n_left == 0 ? !sets_.covers(next, to) : !rests_lead_to(next, then, to)) return false;
  }
  return true;
}

bool TextAhead::long_characters_lead_to(SetId from, SetId to) {
  SetId last = kUnknownSet;
  Utf8Place last_place;
  for (unsigned byte = 0xC2; byte <= 0xF4; ++byte) {
    const SetId next = sets_.step(from, static_cast<std::uint8_t>(byte));
    const Utf8Place place = behind_lead(static_cast<std::uint8_t>(byte));
    if (next == last && place == last_place) continue;
    last = next;
    last_place = place;
    if (next == kDeadSet || sets_.failed() || !rests_lead_to(next, place, to)) return false;
  }
  return true;
}

const TextAhead::Step& TextAhead::step(SetId from) {
  if (from < steps_.size() && steps_[from].next != kUnknownSet) return steps_[from];
  Step out;
  // Where most characters lead to, if they lead to one set: the vote of Boyer and Moore (1981).
  SetId to = kDeadSet;
  int votes = 0;
  for (std::uint8_t byte = 0x20; byte < 0x7F; ++byte) {
    const SetId next = sets_.step(from, byte);
    if (next == kDeadSet) continue;
    if (votes == 0) to = next;
    votes += next == to ? 1 : -1;
  }
  out.next = to;
  if (to != kDeadSet) {
    TextGroups others = 0;
    for (std::uint8_t byte = 0; byte < 0x80; ++byte) {
      const TextGroups group = TextGroups{1} << ascii_group(byte);
      if ((others & group) == 0 && !sets_.covers(sets_.step(from, byte), to)) others |= group;
      out.groups |= group;
    }
    out.groups &= ~others;
    if (out.groups != 0 && long_characters_lead_to(from, to))
      out.groups |= TextGroups{1} << kManyBytesGroup;
  }
  if (steps_.size() < sets_.size()) steps_.resize(sets_.size());
  return steps_[from] = out;
}

TextGroups TextAhead::look(SetId from, std::size_t level) {
  TextGroups groups = ~(TextGroups{1} << kBrokenGroup);
  std::array<TextGroups, kCharacters.size()> ahead = {};
  std::size_t known = 0;
  SetId at = from;
  for (std::uint8_t i = 0; i < kCharacters[level] && groups != 0; ++i) {
    const Step& taken = step(at);
    groups &= taken.groups;
    while (known <= level && i + 1 == kCharacters[known]) ahead[known++] = groups;
    if (taken.next == at) break;
    at = taken.next;
  }
  // Every further character stays here, or none is read.
  while (known <= level) ahead[known++] = groups;
  Step& kept = steps_[from];
  kept.ahead = ahead;
  kept.n_ahead = static_cast<std::uint8_t>(known);
  return ahead[level];
}

bool TextAhead::look_for_plain(SetId from) {
  bool takes = true;
  SetId at = from;
  for (std::size_t i = 0; i < kPlainCharactersMax && takes; ++i) {
    const Step& taken = step(at);
    takes = (kPlainGroups & ~taken.groups) == 0;
    if (taken.next == at) break;
    at = taken.next;
  }
  if (plain_.size() < sets_.size()) plain_.resize(sets_.size());
  plain_[from] = takes ? Plain::kYes : Plain::kNo;
  return takes;
}

bool TextAhead::all_rests_lead_to(SetId from, const Utf8Place& place, SetId to) {
  const Utf8Place then = behind_byte(place);
  const auto leads = [&](std::uint8_t byte) {
    const SetId next = sets_.step(from, byte);
    return then.n_left == 0 ? next == to : next != kDeadSet && all_rests_lead_to(next, then, to);
  };
  if (!leads(place.first)) return false;
  return std::ranges::all_of(rest_begins_, [&](std::uint8_t byte) {
    return byte <= place.first || byte > place.last || leads(byte);
  });
}

TextAhead::StringPlace& TextAhead::string_place(SetId set) {
  if (set < strings_.size() && strings_[set].follow != Characters::kUnknown) return strings_[set];
  // Most sets are within no string: the first characters tell.
  const SetId to = sets_.step(set, plain_bytes_.front());
  const auto leads = [&](std::uint8_t byte) { return sets_.step(set, byte) == to; };
  bool is_same = std::ranges::all_of(plain_bytes_, leads);
  if (to == kDeadSet) {
    is_same =
        is_same && std::ranges::all_of(leads_, [&](const Lead& lead) { return leads(lead.byte); });
  } else {
    is_same = is_same && !leads('"') && std::ranges::all_of(leads_, [&](const Lead& lead) {
                const SetId next = sets_.step(set, lead.byte);
                return next != kDeadSet && all_rests_lead_to(next, lead.place, to);
              });
  }
  if (strings_.size() < sets_.size()) strings_.resize(sets_.size());
  strings_[set].next = to;
  strings_[set].follow = !is_same         ? Characters::kSome
                         : to == kDeadSet ? Characters::kNone
                                          : Characters::kAll;
  return strings_[set];
}

std::optional<std::uint8_t> TextAhead::string_bound(SetId from) {
  constexpr auto kMax = static_cast<std::uint8_t>(kPlainCharactersMax);
  std::array<SetId, kPlainCharactersMax> path = {};
  std::size_t n = 0;
  std::optional<std::uint8_t> bound;  // of the set behind the path
  const auto keep = [&](SetId set) {
    strings_[set].has_bound = true;
    strings_[set].bound = bound;
  };
  for (SetId at = from;;) {
    if (n == path.size()) {
      bound = kMax;
      keep(from);
      return bound;
    }
    const StringPlace place = string_place(at);
    if (place.has_bound) {
      bound = place.bound;
      break;
    }
    if (place.follow != Characters::kAll) {
      if (place.follow == Characters::kNone) bound = std::uint8_t{0};
      keep(at);
      break;
    }
    path[n++] = at;
    if (place.next == at) {
      bound = kMax;
      break;
    }
    at = place.next;
  }
  while (n > 0) {
    if (bound) bound = std::min<std::uint8_t>(kMax, *bound + 1);
    keep(path[--n]);
  }
  return bound;
}

}  // namespace coxswain::grammar
