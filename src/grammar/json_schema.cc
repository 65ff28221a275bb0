#include "grammar/json_schema.h"

#include "grammar/json_text.h"
#include "grammar/schema.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_writer.h"

namespace coxswain::grammar {

Result<Node> schema_expression(Expressions& expressions,
                               const json::Value& schema,
                               const SchemaOptions& options) {
  SchemaArena arena;
  COXSWAIN_ASSIGN_OR_RETURN(const Schema* root, SchemaReader(schema, arena).read());
  SchemaMerger merger(arena, options.closes_objects);
  JsonText text(expressions, options.space);
  COXSWAIN_ASSIGN_OR_RETURN(const Node node, SchemaWriter(text, merger).write({root}));
  if (node == expressions.nothing()) return refused_schema({}, {}, "it allows no value at all");
  return node;
}

Node any_json_object(Expressions& expressions, const SchemaOptions& options) {
  return JsonText(expressions, options.space).any_object();
}

}  // namespace coxswain::grammar
