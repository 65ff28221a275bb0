#pragma once
// ModelSource: which folder or GGUF file a --model-id means, and what keeps it from being served.
//
// An existing folder wins; one of a hub cache (`models--org--name`, with `refs` and `snapshots`) stands for the
// snapshot that its refs name. Else a plain name may be a model that comes with the programs: it is looked up in the
// folder of the installed tree (<prefix>/share/coxswain/models) or of the source tree (<source>/models), found from
// where the programs themselves lie. Else `org/name` is looked up in the hub cache. Nothing is
// downloaded here: that is model_download.h.
//
// A folder without config.json that holds one GGUF model stands for that file; `FOLDER:Q4_K_M` picks the one of several
// whose name has that word, upper or lower case.
//
// Thread rule: pure functions of their arguments and the file system.

#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::serve {

// The cache that tools of the Hugging Face hub keep: <folder>/models--org--name/{refs/main, snapshots/<commit>/...}.
struct HubCache {
  std::string folder;                     // empty: none
  std::optional<std::string> revision{};  // a name in refs, or a commit; main if not given
};

// Where it lies: the first of these that is not empty; HF_HOME has it as `hub`. Else XDG_CACHE_HOME or HOME say where;
// empty if there is neither.
std::string hub_cache_folder(const std::string& hub_cache_option,
                             const std::string& hf_hub_cache,
                             const std::string& hf_home);

struct ModelSource {
  // To read from, a folder or a GGUF file; the model id itself if nothing else is known by that name.
  std::string folder;
  std::string name;         // to show to clients: always the model id as given
  std::string hub_entry{};  // the folder models--org--name, if `folder` is a snapshot of it

  bool has_revision() const { return !hub_entry.empty(); }
};

// `program_folder`: where the programs lie, <prefix>/bin or <source>/build/<preset>/bin.
ModelSource find_model(const std::string& model_id,
                       const std::string& program_folder,
                       const HubCache& hub);

// Names of the models that come with the programs, sorted.
std::vector<std::string> bundled_models(const std::string& program_folder);

// What keeps the model from being served, seen without reading weights. Ok, or a cause; `cure` is filled then.
// `bundled`: names of models that could have been meant.
Status check_model_folder(const ModelSource& model,
                          const std::vector<std::string>& bundled,
                          std::string& cure);

// Where the folder of `model` holds heads that guess tokens, `model` becomes the one that they are for (named in their
// config.json, relative to that folder or like a model id) and keeps its name. Else `speculative_model` is looked up
// like a model. What guesses tokens then: a folder, or empty. Errors: as check_model_folder(), `cure` is filled then.
Result<std::string> find_guesser(const std::string& speculative_model,
                                 const std::string& program_folder,
                                 const HubCache& hub,
                                 ModelSource& model,
                                 std::string& cure);

// Where the program of this process lies.
std::string program_folder();

}  // namespace coxswain::serve
