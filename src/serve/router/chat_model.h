#pragma once
// The chat templates of a model, compiled, and how it writes calls and thoughts, as the router wants them.
//
// Thread rule: loading, one thread; the renderer may be called from any thread.

#include <string>

#include <coxswain/status.h>

#include "router/chat_form.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::serve {

struct ChatModelOptions {
  std::string model_dir;
  std::string tokenizer_config_path;  // --tokenizer-config-path, or empty
  std::string tool_call_parser;       // by name; empty: found from the template and the tokens
  std::string reasoning_parser;       // the same
};

// Empty if the model has no template. All templates are compiled before the first request. Errors: those of the files,
// of the template with its name, line and reason, and of the options by name.
Result<router::ChatModel> load_chat_model(const ChatModelOptions& options,
                                          const tokenizer::Tokenizer& tokenizer);

}  // namespace coxswain::serve
