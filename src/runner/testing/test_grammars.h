#pragma once
// Test help: grammars of a few words, compiled.
//
// Thread rule: pure functions.

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "grammar/compiler.h"
#include "grammar/testing/texts.h"

namespace coxswain::runner::testing {

inline grammar::Program regex_program(const std::string& pattern) {
  auto program = grammar::compile({.kind = grammar::Source::Kind::kRegex, .text = pattern});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return std::move(program).value();
}

inline CompiledGrammar regex_grammar(const std::string& pattern) {
  return {std::make_shared<const std::string>(regex_program(pattern).to_bytes())};
}

inline bool matches(const std::string& pattern, const std::string& text) {
  return grammar::testing::Acceptor(regex_program(pattern)).accepts(text);
}

}  // namespace coxswain::runner::testing
