#pragma once
// SchemaMerger: what several schemas allow together, as a choice of shapes.
//
// A Shape has no alternatives left: its keywords all hold at once, and schemas of members and elements are gathered in
// conjunctions that are merged when they are asked for. anyOf becomes shapes beside each other; oneOf too, where two
// branches cannot hold at once or one can be told from the other; not, if and dependentSchemas become what they forbid.
// A shape may allow less than the schemas do, never more.
//
// Errors: kInvalidArgument with the pointer of what cannot be kept; kResourceExhausted where there are more shapes than
// kShapesMax, or more merges than kMergesMax. Thread rule: belongs to one thread.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "grammar/character_automaton.h"
#include "grammar/schema.h"

namespace coxswain::grammar {

inline constexpr std::size_t kShapesMax = 256;
inline constexpr std::size_t kMergesMax = 50'000;
inline constexpr std::size_t kChecksMax = 400'000;  // of values; beyond, it cannot be told
// More are as much work as another one.
inline constexpr std::size_t kKeyBytesOfACheck = 64;
inline constexpr std::size_t kValuesOfAMerge = 64;

// Schemas that hold together, ascending by id, each once.
using Conjunction = std::vector<const Schema*>;

struct Shape {
  // A keyword's text, and the schema that it stands in, for messages.
  struct Keyword {
    std::string text;
    const Schema* schema = nullptr;
    friend bool operator==(const Keyword& a, const Keyword& b) { return a.text == b.text; }
  };

  Types types = kAllTypes;
  std::optional<std::vector<const json::Value*>> values = {};
  std::vector<const json::Value*> excluded = {};
  NumberRange numbers = {};
  const Schema* multiple_of = nullptr;  // the last that has it
  std::uint32_t length_min = 0;
  std::uint32_t length_max = kUnbounded;
  std::vector<Keyword> patterns = {};
  std::vector<Keyword> excluded_patterns = {};
  std::vector<Keyword> formats = {};
  std::uint32_t items_min = 0;
  std::uint32_t items_max = kUnbounded;
  const Schema* unique = nullptr;  // that asks for it
  std::vector<std::string> required = {};
  std::uint32_t members_min = 0;
  std::uint32_t members_max = kUnbounded;
  const Schema* min_members_of = nullptr;
  Conjunction names = {};
  Schema::List arrays = {};    // with prefix, items
  Schema::List objects = {};   // with properties, patternProperties, additionalProperties
  Schema::List contains = {};  // that have it
  Schema::List refused = {};
  Schema::List schemas = {};  // all that hold
  // Who brought whom, for what has been evaluated.
  std::vector<std::pair<const Schema*, const Schema*>> parents = {};
};
using Shapes = std::vector<Shape>;

enum class Answer : std::uint8_t { kNo, kYes, kUnknown };

class SchemaMerger {
 public:
  SchemaMerger(SchemaArena& arena, bool closes_objects)
      : arena_(arena), closes_objects_(closes_objects) {}

  // Those that provably allow nothing are left out.
  Result<std::shared_ptr<const Shapes>> shapes(const Conjunction& conjunction);
  // It provably allows nothing. Schemas that cannot be kept are not empty.
  bool is_empty(const Conjunction& conjunction, std::size_t depth = 0);

  // What holds for the member of that name; an error if a pattern cannot be read.
  Result<Conjunction> member(const Shape& shape, std::string_view name);
  // What holds for other members, of names that match these patterns of patternProperties and no other.
  Result<Conjunction> other_member(const Shape& shape, const std::vector<std::string>& patterns);
  Conjunction element(const Shape& shape, std::size_t index) const;
  std::size_t prefix_size(const Shape& shape) const;
  // No other members than those that are declared or required.
  bool is_closed(const Shape& shape) const;

  Answer check(const json::Value& value, const Conjunction& conjunction);
  Answer check(const json::Value& value, const Shape& shape);
  Result<const CharacterAutomaton*> automaton(std::string_view pattern,
                                              CharacterAutomaton::Match match);
  // The schemas that say `not`, false and true.
  const Schema* negated(const Schema* schema);
  const Schema* never();
  const Schema* always();

 private:
  // Alternatives that `parent` asks for: one of them holds, or exactly one.
  struct Pending {
    const Schema* parent = nullptr;
    Schema::List alternatives = {};
    bool exactly_one = false;
  };
  struct Draft {
    Shape shape;
    std::vector<Pending> pending = {};
  };
  struct Negation {
    Schema::List alternatives = {};
    bool is_exact = true;  // else there are more values than these allow
  };

  Result<std::shared_ptr<const Shapes>> merged(const Conjunction& conjunction);
  Status add(const Schema* schema, const Schema* parent, Draft& draft);
  Status add_values(const ValueList& values, Shape& shape);
  std::string counted_key(const json::Value& value);
  Status add_pending(const Schema* schema, Draft& draft);
  Status add_negation(const Schema* of, const Schema* schema, Draft& draft);
  Result<Shapes> resolve(Draft draft);
  Result<Schema::List> branches_of_one(const Pending& pending, const Draft& draft);
  bool are_disjoint(const Shape& shape, const Schema* a, const Schema* b);
  void add_evaluated(Shape& shape);
  Types possible_types(const Shape& shape, std::size_t depth);
  bool is_never(const Result<Conjunction>& conjunction, std::size_t depth);
  // What `if` and the dependencies of a schema say, as alternatives.
  const std::vector<Schema::List>& conditions(const Schema* schema);

  const Negation& negation(const Schema* schema);
  Schema& made(const Schema& of, Types types, Negation& out);
  void negate_value(const Schema& schema, Negation& out);
  void negate_array(const Schema& schema, Negation& out);
  void negate_object(const Schema& schema, Negation& out);
  void negate_in_place(const Schema& schema, Negation& out);

  Answer check(const json::Value& value, const Schema& schema);
  Answer check_value(const json::Value& value, const Schema& schema);
  Answer check_string(const std::string& text, const Schema& schema);
  Answer check_array(const json::Array& elements, const Schema& schema);
  Answer check_object(const json::Object& members, const Schema& schema);
  Answer check_in_place(const json::Value& value, const Schema& schema);
  Answer matches(const std::string& text,
                 std::string_view pattern,
                 CharacterAutomaton::Match match);

  SchemaArena& arena_;
  bool closes_objects_;
  std::map<std::vector<std::uint32_t>, std::shared_ptr<const Shapes>> kept_;
  std::map<std::vector<std::uint32_t>, bool> empty_;  // by ids and depth
  std::map<const Schema*, const Schema*> negated_;
  std::map<const Schema*, Negation> negations_;
  std::map<const Schema*, std::vector<Schema::List>> conditions_;
  std::map<std::pair<std::string, CharacterAutomaton::Match>, Result<CharacterAutomaton>> automata_;
  const Schema* never_ = nullptr;
  const Schema* always_ = nullptr;
  std::size_t n_merges_ = 0;
  std::size_t comparing_ = 0;  // branches within branches
  std::size_t n_checks_ = 0;
};

void add_to(Conjunction& conjunction, const Schema* schema);

}  // namespace coxswain::grammar
