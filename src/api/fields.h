#pragma once
// FieldReader reads the members of one JSON object by name and type, for documents that clients send.
//
// Rules for every field: null means absent; a wrong type, a fraction in an integer, a number out of
// range is refused with a message that names the field; numbers for float fields must be finite
// after narrowing. The first failure is kept and later reads do nothing, so a document is read in
// one run and status() is asked once.
//
// Members that no call named are left to refuse_documented(): those that some API documents are refused by name unless
// they are null or hold a value that changes nothing, the others are `unknown()`.
//
// Thread rule: one thread; the object must outlive the reader.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <coxswain/status.h>

#include "api/documented_fields.h"
#include "json/json.h"

namespace coxswain::api {

class FieldReader {
 public:
  explicit FieldReader(const json::Object& object) : object_(object) {}

  // The member, or null if it is absent or null. The name counts as known from now on.
  const json::Value* find(std::string_view name);

  std::optional<bool> read_bool(std::string_view name);
  // What is between two integers stays between them (below 2^23).
  std::optional<float> read_float(std::string_view name);
  std::optional<std::uint32_t> read_u32(std::string_view name);
  std::optional<std::uint64_t> read_u64(std::string_view name);
  std::optional<std::int32_t> read_i32(std::string_view name);
  // 64 bits, with or without a sign: a negative seed stands for its bits, but for -1, which stands for none.
  std::optional<std::uint64_t> read_seed(std::string_view name);
  // At most bytes_max bytes.
  std::optional<std::string> read_string(std::string_view name, std::size_t bytes_max);
  // A string or an array of strings; `bare` says whether the first form is allowed.
  enum class BareString : std::uint8_t { kAllowed, kRefused };
  std::vector<std::string> read_strings(std::string_view name, BareString bare);

  // A field of which only the values in `neutral` are supported (see DocumentedField).
  void require_neutral(std::string_view name, std::string_view neutral);
  // Call it when all fields of the object have been read: refuses, of the rest, what the table of documented fields
  // has, unless it changes nothing.
  void refuse_documented(Place here);
  // Known names without any effect; they are listed for the client like unknown ones.
  void note_without_effect(std::span<const std::string_view> names);

  void fail(std::string message, std::string_view field);
  void fail(Status status);
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  bool has_read(std::string_view name) const { return known_.contains(name); }
  // Members that nobody asked for, in document order.
  std::vector<std::string> unknown() const;
  const std::vector<std::string>& without_effect() const { return without_effect_; }

 private:
  void refuse_unless_neutral(const DocumentedField& field, std::string_view why);
  void fail_type(std::string_view name, std::string_view expected, const json::Value& value);

  const json::Object& object_;
  std::unordered_set<std::string_view> known_;
  std::vector<std::string> without_effect_;
  Status status_;
};

// "a string", "an array", ...
std::string_view type_name(const json::Value& value);
// What a refusal says was given: a number as it stood in the document (at most 64 bytes), the type
// of anything else.
std::string given_text(const json::Value& value);

// A refusal of what this server does not support: `unsupported_parameter` in OpenAI's dialect.
Status unsupported(std::string message, std::string_view field);
// The refusal of a member of `place`, as one of `field` of the whole document.
Status within(const Status& refusal, std::string_view place, std::string field);

}  // namespace coxswain::api
