#pragma once
// How a model speaks: whether it is shown functions, and what it writes where it calls them or thinks.
//
// Thread rule: pure functions.

#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "chat/template_set.h"
#include "reply/parser.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::speech {

struct Manner {
  bool reads_tools = false;     // its template shows it the functions of a request
  reply::Formats formats = {};  // what it writes
};

// A parser by name, and the option that names it; empty: found from the template and the tokens.
struct NamedParser {
  std::string_view name = {};
  std::string_view option = {};
};

// Errors: kInvalidArgument for names that are unknown, also where there is no template.
Result<Manner> manner_of(const chat::TemplateSet& templates,
                         const tokenizer::Tokenizer& tokenizer,
                         const NamedParser& tools,
                         const NamedParser& thoughts);

}  // namespace coxswain::speech
