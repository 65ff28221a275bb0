#pragma once
// The kind "templates" of coxswain-conformance:
//
//   DIR/chat-templates/expected/*.json
//     Every template with every conversation. What the template raised must be raised with the same message,
//     other errors must be errors, and what is a property of the Python sandbox must not crash.
//
//   DIR/chat-templates/from-repos/*.json
//     Small programs and conversations of other projects, with Python's output.
//
//   DIR/chat-templates/end_to_end_ids.json
//     Renderings encoded with the tokenizer of their model.
//
// Thread rule: one thread.

#include "conformance/conformance.h"

namespace coxswain::conformance {

ConformanceCounts run_templates_conformance(const ConformanceOptions& options);

}  // namespace coxswain::conformance
