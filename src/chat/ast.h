#pragma once
// The syntax tree of a template. Nodes are plain data; the interpreter switches over their kinds.
//
// Names are interned: a NameId is an index into Program::names.
//
// Thread rule: a parsed Program does not change; any number of threads may read it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/value.h"

namespace coxswain::chat {

struct FilterEntry;
struct TestEntry;

using NameId = std::uint32_t;
inline constexpr NameId kNoName = static_cast<NameId>(-1);

enum class ExprKind : std::uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,       // children: key, value, key, value ...
  kAttribute,  // children[0] . text
  kItem,       // children[0] [ children[1] ]
  kSlice,      // begin, end, step, any may be null
  kCall,       // children[0] ( arguments )
  kFilter,     // children[0] | text ( arguments )
  kTest,       // children[0] is text ( arguments )
  kNot,
  kNegative,
  kPositive,
  kSum,          // children added from the left
  kBinary,       // op: "-", "*", "/", "//", "%", "**"
  kConcat,       // children joined by ~
  kCompare,      // children[0] ops[0] children[1] ops[1] ...
  kAnd,          // of all children
  kOr,           // of all children
  kConditional,  // then, condition, else (may be null)
};

enum class Operator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *args, may be null
  ExprPtr double_star;  // **kwargs, may be null
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  Operator op = Operator::kAdd;
  // A constant, a name, or a member of a place by a constant key: looking it up changes nothing.
  bool is_place = false;
  bool hides_member = false;  // kAttribute: the name of a method of mappings
  std::size_t height = 1;     // nodes on the longest way down, this one included
  Value constant;
  NameId name = 0;
  std::string text;  // attribute, filter or test
  const FilterEntry* filter = nullptr;
  const TestEntry* test = nullptr;
  std::vector<Operator> ops;
  std::vector<ExprPtr> children;
  CallArguments arguments;
};

enum class StmtKind : std::uint8_t {
  kText,
  kPrint,
  kIf,  // branches in order; a branch without condition is the else
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
  kScope,  // generation: the body in a scope of its own
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

// Where `set` and `for` store: names (nested for tuples), or an attribute of a namespace.
struct Target {
  enum class Kind : std::uint8_t { kName, kTuple, kAttribute } kind = Kind::kName;
  NameId name = 0;
  std::string attribute;
  std::vector<Target> items;
};

struct MacroDefinition {
  NameId name = 0;
  std::string text;  // the name, for messages
  std::vector<NameId> parameters;
  std::vector<std::string> parameter_texts;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  bool uses_caller = false;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  Text text;
  ExprPtr expr;    // print, iterable of for, value of set, call of a call block
  ExprPtr filter;  // condition of for; filters of set and filter blocks around a null constant
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<std::pair<Target, ExprPtr>> bindings;  // with
  Target target;
  Body body;
  Body else_body;
  bool recursive = false;
  std::shared_ptr<MacroDefinition> macro;
};

// The names that the interpreter itself gives values to; kNoName for those not in the template.
struct KnownNames {
  NameId messages = kNoName;
  NameId tools = kNoName;
  NameId documents = kNoName;
  NameId bos_token = kNoName;
  NameId eos_token = kNoName;
  NameId add_generation_prompt = kNoName;
  NameId loop = kNoName;
  NameId caller = kNoName;
};

struct Program {
  std::vector<std::string> names;
  std::unordered_map<std::string, NameId> ids;  // of names
  KnownNames known;
  Body body;

  NameId intern(const std::string& name);
  NameId find(std::string_view name) const;  // kNoName if the template does not mention it
};

}  // namespace coxswain::chat
