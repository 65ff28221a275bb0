#pragma once
// What the server answers to: every operation and every document, said once. document.h makes OpenAPI of it, page.h a
// page, and the tests of this folder compare it with what the readers of src/api take.
//
// One file for each family of the API has one function that adds to it (families.h).
//
// Thread rule: values.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/errors.h"

namespace coxswain::openapi {

struct Member {
  std::string_view name;
  std::string_view type;  // notation.h
  std::string_view about = {};
  std::string_view otherwise = {};  // JSON: what holds where it is left out
  // Of a request: it has to be there. Of an answer: it may be absent.
  enum class Presence : std::uint8_t {
    kUsual,
    kRequired,
    kMayBeAbsent
  } presence = Presence::kUsual;
};
inline constexpr auto kRequired = Member::Presence::kRequired;
inline constexpr auto kMayBeAbsent = Member::Presence::kMayBeAbsent;

struct Object {
  // In requests members may be left out or null, unless they are required; in answers they are there.
  enum class Side : std::uint8_t { kRequest, kAnswer };

  std::string_view name;
  Side side = Side::kRequest;
  std::string_view about = {};
  std::vector<Member> members = {};
  std::string type = {};  // in place of members: what the name stands for
  // Of a request: JSON, as small as it may be.
  std::string_view smallest = "{}";

  const Member* find(std::string_view member) const;
};

struct Operation {
  // kGenerates and kTokens read a JSON body; kGenerates waits for the engine. kTells answers at once.
  enum class Kind : std::uint8_t { kGenerates, kTokens, kTells };
  enum class Access : std::uint8_t {
    kKey,
    kOpen,
    kHealth
  };  // kHealth: open with --protect-all, too

  std::string_view method;
  std::string_view path;  // with {NAME} for a part that the client chooses
  std::string_view id;    // operationId
  std::string_view about;
  std::string_view also = {};  // other paths of the same, separated by blanks
  Kind kind = Kind::kTells;
  Access access = Access::kKey;
  std::string_view request = {};  // name of an object
  std::string_view example = {};  // JSON of a body that is answered with 200
  std::string_view answer = {};   // type of the 200; empty: there is no body
  std::string_view answer_type = "application/json";
  int also_status = 0;  // another status that has this answer, in place of an error; 0: none
  std::string_view event = {};  // type of what a stream consists of; empty: it never streams
  std::string_view event_type = "text/event-stream";
  std::string_view last_data = {};  // what a stream ends with where that is no JSON
  bool always_streams = false;
  std::vector<ErrorKind> refusals = {};  // beside those of its kind
  std::string_view family = {};          // set by Description
};

class Description {
 public:
  using Groups = std::initializer_list<std::span<const Member>>;

  // The family of the operations that are added from here on.
  void begin_family(std::string_view name, std::string_view about);
  void request(std::string_view name,
               Groups groups,
               std::string_view about = {},
               std::string_view smallest = "{}");
  void answer(std::string_view name, Groups groups, std::string_view about = {});
  // A name for a type.
  void alias(std::string_view name,
             Object::Side side,
             std::string type,
             std::string_view about = {});
  void operation(Operation operation);

  struct Family {
    std::string_view name;
    std::string_view about;
  };
  const std::vector<Family>& families() const { return families_; }
  const std::vector<Object>& objects() const { return objects_; }
  const std::vector<Operation>& operations() const { return operations_; }
  const Object* find(std::string_view object) const;

 private:
  void add(Object object, Groups groups);

  std::vector<Family> families_;
  std::vector<Object> objects_;
  std::vector<Operation> operations_;
};

// Of all families. `v1`: the dialect of the routes below /v1.
Description describe(api::ApiStyle v1);

}  // namespace coxswain::openapi
