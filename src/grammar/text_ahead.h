#pragma once
// TextAhead: what may be read from a set of places whatever it is otherwise, so that whole subtrees of the vocabulary
// are taken without a walk: in the midst of a string nearly every word may follow.
//
// A step is known by the groups of characters (text_groups.h) that all lead to one set, or to sets that can go on
// wherever that one can. A text of n characters may follow where n steps in a row take what it is spelled with.
//
// Asking may add sets, as any step does. Thread rule: belongs to one thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "grammar/place_sets.h"
#include "grammar/text_groups.h"

namespace coxswain::grammar {

class TextAhead {
 public:
  // `sets` outlives this.
  explicit TextAhead(PlaceSets& sets);

  void clear() {  // with the sets
    steps_.clear();
    plain_.clear();
    strings_.clear();
  }
  // What may be in a text of `n` characters that follows; 0 for long ones. `asks`: find out what is not known.
  TextGroups groups(SetId from, std::uint8_t n, bool asks) {
    std::size_t level = 0;
    while (level < kCharacters.size() && kCharacters[level] < n) ++level;
    if (level == kCharacters.size()) return 0;
    if (from < steps_.size() && level < steps_[from].n_ahead) return steps_[from].ahead[level];
    return asks ? look(from, level) : 0;
  }

  // Whether every text of kPlainGroups and up to kPlainCharactersMax characters may follow; false also where it is not
  // known and not asked for.
  bool takes_plain(SetId from, bool asks) {
    if (from < plain_.size() && plain_[from] != Plain::kUnknown) return plain_[from] == Plain::kYes;
    return asks && look_for_plain(from);
  }

  // As within a string of JSON: of texts of kPlainGroups all of up to so many characters may follow and no others,
  // kPlainCharactersMax standing for more too. None where it is otherwise, and where a quote is a character as any.
  std::optional<std::uint8_t> string_bound(SetId from);

 private:
  enum class Plain : std::uint8_t { kUnknown, kNo, kYes };
  // How far is looked, in characters.
  static constexpr std::array<std::uint8_t, 7> kCharacters = {2, 4, 6, 9, 14, 20, 32};

  struct Step {
    SetId next = kUnknownSet;  // kUnknownSet: it was not looked for
    TextGroups groups = 0;
    std::array<TextGroups, kCharacters.size()> ahead = {};
    std::uint8_t n_ahead = 0;  // levels that are known
  };

  // Of string_bound().
  enum class Characters : std::uint8_t { kUnknown, kNone, kAll, kSome };
  struct StringPlace {
    SetId next = kDeadSet;  // where all plain characters lead to
    Characters follow = Characters::kUnknown;
    bool has_bound = false;  // the next is known
    std::optional<std::uint8_t> bound = {};
  };
  struct Lead {
    std::uint8_t byte = 0;
    Utf8Place place = {};
  };

  TextGroups look(SetId from, std::size_t level);
  bool look_for_plain(SetId from);
  StringPlace& string_place(SetId set);
  bool all_rests_lead_to(SetId from, const Utf8Place& place, SetId to);
  const Step& step(SetId from);
  bool rests_lead_to(SetId from, const Utf8Place& place, SetId to);
  bool long_characters_lead_to(SetId from, SetId to);

  PlaceSets& sets_;
  std::vector<Step> steps_;           // [set], as far as they were asked for
  std::vector<Plain> plain_;          // likewise
  std::vector<StringPlace> strings_;  // likewise
  // Bytes that the program tells apart: one of each class of plain ASCII characters, the first ones of longer
  // characters, and where classes begin among those that go on with them.
  std::vector<std::uint8_t> plain_bytes_;
  std::vector<Lead> leads_;
  std::vector<std::uint8_t> rest_begins_;
};

}  // namespace coxswain::grammar
