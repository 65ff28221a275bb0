#pragma once
// What the verbs of coxswain take from the environment.

#include <cstdlib>
#include <string>

#include "serve/model_source.h"

namespace coxswain::apps {

inline std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// As the launcher's without options.
inline std::string hub_cache_folder() {
  return serve::hub_cache_folder(
      variable("HUGGINGFACE_HUB_CACHE"), variable("HF_HUB_CACHE"), variable("HF_HOME"));
}

}  // namespace coxswain::apps
