#pragma once
// The kind "grammar" of coxswain-conformance: every case of DIR/goldens/grammar/cases.json.
//
// Before each token of each text, and before its end token: what both engines of a pair allow is allowed, what both
// forbid is forbidden, over the vocabulary in `tokenizer` beside the file. Free are only the ends of lines that '.' of
// a regular expression takes. A case without anything to compare fails.
//
// Format: goldens/README-formats.md beside the data.
//
// Thread rule: one thread.

#include "conformance/conformance.h"

namespace coxswain::conformance {

ConformanceCounts run_grammar_conformance(const ConformanceOptions& options);

}  // namespace coxswain::conformance
