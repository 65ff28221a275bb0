#pragma once
// SchemaDocument: where the schemas of a document are, by JSON pointer, $id and $anchor.
//
// Errors: kInvalidArgument for a reference that leads out of the document or to nothing in it.
// Thread rule: belongs to one thread. The document must outlive it.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::grammar {

// A place in the document: the base that references there are resolved against, and its pointer for messages.
struct SchemaPlace {
  const json::Value* value = nullptr;
  std::string base = {};
  std::string pointer = {};
};

class SchemaDocument {
 public:
  explicit SchemaDocument(const json::Value& root);

  // Of drafts 4 to 7, which pass over what stands beside $ref.
  bool is_draft7() const { return is_draft7_; }
  bool names_draft() const { return names_draft_; }
  const SchemaPlace& root() const { return root_; }
  Result<SchemaPlace> resolve(const SchemaPlace& from, std::string_view reference) const;
  // Of $dynamicRef, where it leads to one schema whatever has led to it: a place that is no $dynamicAnchor, or the only
  // one of its name. Null where it depends on the way.
  Result<std::optional<SchemaPlace>> resolve_dynamic(const SchemaPlace& from,
                                                     std::string_view reference) const;
  // The place of a part: one key, or a key and a key or index within it.
  SchemaPlace child(const SchemaPlace& parent, std::string_view key) const;
  SchemaPlace child(const SchemaPlace& parent, std::string_view key, std::string_view name) const;

 private:
  void index(const SchemaPlace& place);
  std::string_view id_of(const json::Value& schema) const;
  SchemaPlace enter(SchemaPlace place) const;

  bool names_draft_ = false;
  bool is_draft7_ = false;
  bool is_draft4_ = false;
  SchemaPlace root_;
  std::map<std::string, SchemaPlace, std::less<>> resources_;  // by URI without fragment
  std::map<std::string, SchemaPlace, std::less<>> anchors_;    // by URI, '#' and name
};

// "/a~1b" for the part "a/b" of a JSON pointer.
std::string pointer_part(std::string_view name);

}  // namespace coxswain::grammar
