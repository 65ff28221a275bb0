#pragma once
// ModelFolder: a test fixture with a folder for the files of a tokenizer.
//
// Thread rule: as the test's.

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::tokenizer {

class ModelFolder : public ::testing::Test {
 protected:
  void write(std::string_view name, std::string_view text) { folder_.write(name, text); }
  Result<std::shared_ptr<const Tokenizer>> load() const { return Tokenizer::load(folder_.path()); }

  // What the files make of the text, each token with a blank behind it, or "!" and the error.
  std::string tokens(std::string_view text) const {
    const auto loaded = load();
    if (!loaded.ok()) return "!" + loaded.status().message();
    const auto encoding = (*loaded)->encode(text, {});
    if (!encoding.ok()) return "!" + encoding.status().message();
    std::string out;
    for (const TokenId id : encoding->ids) out += (*loaded)->token(id) + " ";
    return out;
  }

  const base::TempFolder folder_;
};

}  // namespace coxswain::tokenizer
