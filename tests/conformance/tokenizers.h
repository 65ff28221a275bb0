#pragma once
// The kind "tokenizers" of coxswain-conformance: reference ids and texts below DIR/tokenizers.
//
//   expected/*.json
//     Ids, ids with special tokens, and decoded texts of one tokenizer over one file of inputs.
//
//   vectors/*
//     Ids that other projects publish.
//
//   gguf-vocab/*
//     Vocabularies inside GGUF files with inputs and ids.
//
// Each file is a case; a failure names the text's index and the first differing place.
// Formats: the README beside the data.
//
// Thread rule: one thread.

#include "conformance/conformance.h"

namespace coxswain::conformance {

ConformanceCounts run_tokenizers_conformance(const ConformanceOptions& options);

}  // namespace coxswain::conformance
