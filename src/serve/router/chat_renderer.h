#pragma once
// The chat templates of a model, compiled, behind the one function that the router calls.
//
// Thread rule: loading, one thread; the renderer may be called from any thread.

#include <string>

#include <coxswain/status.h>

#include "router/api.h"

namespace coxswain::serve {

// Empty if the model has no template. `config`: --tokenizer-config-path, or empty. All templates
// are compiled before the first request. Errors: those of the files, and of the template with its
// name, line and reason.
Result<router::ChatRenderer> load_chat_renderer(const std::string& model_dir,
                                                const std::string& config);

}  // namespace coxswain::serve
