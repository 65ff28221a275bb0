#pragma once
// Schema: the keywords of one JSON Schema, checked for their form, with references followed.
//
// A Schema allows what all of its keywords allow; those that are not there allow everything. Schemas are made by
// SchemaReader from a document and by schema_merge.h in place of what `not` and its like say.
//
// Thread rule: belongs to one thread.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "base/keyed_hash.h"
#include "grammar/expression.h"
#include "grammar/json_numbers.h"
#include "grammar/schema_document.h"
#include "json/json.h"

namespace coxswain::grammar {

// What a value may be, a bit for each; numbers are integers by value (1.0 is one) or not.
using Types = std::uint8_t;
inline constexpr Types kNullType = 1;
inline constexpr Types kBoolType = 2;
inline constexpr Types kIntegerType = 4;
inline constexpr Types kFractionType = 8;
inline constexpr Types kNumberType = kIntegerType | kFractionType;
inline constexpr Types kStringType = 16;
inline constexpr Types kArrayType = 32;
inline constexpr Types kObjectType = 64;
inline constexpr Types kAllTypes = 127;

// The same text for the same value: 1 is 1.0, and members have no order.
std::string value_key(const json::Value& value);
using ValueKeys = std::unordered_set<std::string, base::KeyedHash, std::equal_to<>>;

// Of an `enum` or `const`, in their order.
struct ValueList {
  std::vector<const json::Value*> all;
  ValueKeys keys;
};

struct Schema {
  using List = std::vector<const Schema*>;

  std::uint32_t id = 0;
  std::string pointer = {};
  Types types = kAllTypes;
  std::vector<std::shared_ptr<const ValueList>> values = {};  // one of each list
  std::shared_ptr<const ValueList> excluded = {};             // none of these; may be null

  NumberRange numbers = {};

  std::uint32_t length_min = 0;  // in characters
  std::uint32_t length_max = kUnbounded;
  std::optional<std::string> pattern = {};
  std::optional<std::string> excluded_pattern = {};
  std::optional<std::string> format = {};

  List prefix = {};
  const Schema* items = nullptr;  // behind the prefix
  std::uint32_t items_min = 0;
  std::uint32_t items_max = kUnbounded;
  bool unique = false;
  const Schema* contains = nullptr;
  std::uint32_t contains_min = 1;
  std::uint32_t contains_max = kUnbounded;
  const Schema* unevaluated_items = nullptr;

  std::vector<std::pair<std::string, const Schema*>> properties = {};
  std::vector<std::pair<std::string, const Schema*>> pattern_properties = {};
  const Schema* additional = nullptr;
  const Schema* names = nullptr;
  std::vector<std::string> required = {};
  std::uint32_t members_min = 0;
  std::uint32_t members_max = kUnbounded;
  const Schema* unevaluated_members = nullptr;
  std::vector<std::pair<std::string, std::vector<std::string>>> dependent_required = {};
  std::vector<std::pair<std::string, const Schema*>> dependent_schemas = {};

  List all_of = {};  // the target of $ref first, if there is one
  bool has_reference = false;
  std::vector<List> any_of = {};
  List one_of = {};
  List none_of = {};
  const Schema* condition = nullptr;
  const Schema* then = nullptr;
  const Schema* otherwise = nullptr;

  // A keyword that nothing here can keep.
  std::string refused = {};
  // Made in place of a negation: what it names is not `evaluated`.
  bool is_made = false;

  bool has_array_keywords() const { return !prefix.empty() || items != nullptr; }
  bool has_object_keywords() const {
    return !properties.empty() || !pattern_properties.empty() || additional != nullptr;
  }
};

// Owns schemas; their addresses last as long as it does.
class SchemaArena {
 public:
  Schema& add(std::string pointer);
  std::size_t size() const { return schemas_.size(); }

 private:
  std::deque<Schema> schemas_;
};

inline constexpr std::size_t kSchemasMax = 100'000;
inline constexpr std::size_t kSchemaDepthMax = 100;  // of schemas that apply to the same value

class SchemaReader {
 public:
  SchemaReader(const json::Value& root, SchemaArena& arena) : document_(root), arena_(arena) {}

  // Errors: kInvalidArgument with the pointer of a keyword whose value is of the wrong form, of a reference that cannot
  // be followed, of schemas that refer to each other without end; kResourceExhausted beyond the limits above.
  Result<const Schema*> read();

 private:
  const Schema* schema_at(SchemaPlace place);
  void read_object(const SchemaPlace& place, Schema& out);
  void read_types(const SchemaPlace& place, Schema& out);
  void read_values(const SchemaPlace& place, Schema& out);
  void read_numbers(const SchemaPlace& place, Schema& out);
  void read_strings(const SchemaPlace& place, Schema& out);
  void read_arrays(const SchemaPlace& place, Schema& out);
  void read_members(const SchemaPlace& place, Schema& out);
  void read_dependencies(const SchemaPlace& place, Schema& out);
  void read_in_place(const SchemaPlace& place, Schema& out);
  void read_dynamic_reference(const SchemaPlace& place, Schema& out);

  const Schema* schema(const SchemaPlace& place, std::string_view key);  // null where there is none
  Schema::List schemas(const SchemaPlace& place, std::string_view key);
  std::vector<std::pair<std::string, const Schema*>> schema_map(const SchemaPlace& place,
                                                                std::string_view key);
  void read_count(const SchemaPlace& place, std::string_view key, std::uint32_t& out);
  std::optional<Decimal> number(const SchemaPlace& place, std::string_view key);
  std::optional<std::string> text(const SchemaPlace& place, std::string_view key);
  std::optional<std::vector<std::string>> texts(const json::Value& value);
  void fail(const SchemaPlace& place, std::string_view key, std::string_view what);
  Status check_cycles(const Schema* root) const;
  void drop_neighbours();

  SchemaDocument document_;
  SchemaArena& arena_;
  Status status_;
  std::map<const json::Value*, Schema*> known_;
  std::vector<std::pair<SchemaPlace, Schema*>> waiting_;
};

// "the schema at '/a/b' ...": every refusal is worded so.
Status refused_schema(std::string_view pointer, std::string_view keyword, std::string_view what);

Types type_of(const json::Value& value);

}  // namespace coxswain::grammar
