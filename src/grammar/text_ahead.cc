#include "grammar/text_ahead.h"

namespace coxswain::grammar {

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

}  // namespace coxswain::grammar
