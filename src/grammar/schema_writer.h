#pragma once
// SchemaWriter: shapes (schema_merge.h) as expressions. Each conjunction of schemas is a rule, made once.
//
// Errors: kInvalidArgument with the pointer of what cannot be kept; kResourceExhausted beyond the limits below.
// Thread rule: belongs to one thread.

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <coxswain/status.h>

#include "grammar/json_text.h"
#include "grammar/schema_merge.h"

namespace coxswain::grammar {

// Of values within each other, before a rule comes back; of the expressions.
inline constexpr std::size_t kWrittenDepthMax = 150;
inline constexpr std::size_t kWrittenSizeMax = 1'000'000;
// Of arrays with a bound; more are not written.
inline constexpr std::uint32_t kElementsMax = 4'096;
// Of patternProperties beside each other.
inline constexpr std::size_t kPatternsMax = 4;

class SchemaWriter {
 public:
  SchemaWriter(JsonText& text, SchemaMerger& merger)
      : text_(text), e_(text.expressions()), merger_(merger) {}

  Result<Node> write(const Conjunction& conjunction);

 private:
  // What comes in a fixed order, each at most once.
  struct Part {
    Node node = 0;
    bool required = false;
  };
  // Parts between `min` and `max`, with commas; then any number of `more`, of which one alone counts for `min`, because
  // they may be the same.
  struct Parts {
    std::vector<Part> list = {};
    std::optional<Node> more = {};
    std::uint32_t min = 0;
    std::uint32_t max = kUnbounded;
    Node comma = 0;
    Node opening = 1;  // what all begin with; it is not in `list` and `more`
  };

  // Bounds, patterns of each kind, texts that are excluded.
  using StringKey =
      std::tuple<std::uint32_t, std::uint32_t, std::vector<std::string>, std::vector<std::string>>;

  Result<Node> write_shapes(const Conjunction& conjunction);
  Result<Node> write_shape(const Shape& shape);
  Result<Node> write_string(const Shape& shape);
  Result<Node> write_values(const Shape& shape);
  Result<Node> write_numbers(const Shape& shape);
  Result<Node> write_range(const Shape& shape, const NumberRange& range);
  Result<Node> write_array(const Shape& shape);
  Result<Node> write_elements(const Shape& shape);
  Result<Node> write_places(const std::vector<Conjunction>& places,
                            Node tail,
                            std::uint32_t min,
                            std::uint32_t max);
  Result<Node> write_unique(const Shape& shape);
  Result<Node> write_object(const Shape& shape);
  Result<std::optional<Node>> other_members(const Shape& shape,
                                            const std::vector<std::string>& declared);
  Result<std::optional<Node>> members_by_pattern(const Shape& shape,
                                                 const std::vector<std::string>& declared,
                                                 const std::vector<std::string>& patterns,
                                                 const Schema* at);
  Result<Node> write_member(Node name, const Conjunction& conjunction);
  Result<std::optional<CharacterAutomaton>> names_language(const Shape& shape);
  Result<Node> write_parts(const Parts& parts);
  Status cannot_exclude(const Shape& shape, Types types) const;
  Node rule_of(Node node);

  JsonText& text_;
  Expressions& e_;
  SchemaMerger& merger_;
  std::map<std::vector<std::uint32_t>, Node> written_;
  std::map<StringKey, Node> strings_;
  std::size_t depth_ = 0;
};

}  // namespace coxswain::grammar
