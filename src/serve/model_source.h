#pragma once
// ModelSource: which folder a --model-id means.
//
// An existing folder wins. Else a plain name may be a model that comes with the programs: it is
// looked up in the folder of the installed tree (<prefix>/share/coxswain/models) or of the source
// tree (<source>/models), found from where the programs themselves lie.
//
// Thread rule: pure functions of their arguments and the file system.

#include <string>
#include <vector>

namespace coxswain::serve {

struct ModelSource {
  std::string folder;  // to read from; the model id itself if it is no bundled name
  std::string name;    // to show to clients: always the model id as given
};

// `program_folder`: where the programs lie, <prefix>/bin or <source>/build/<preset>/bin.
ModelSource find_model(const std::string& model_id, const std::string& program_folder);

// Names of the models that come with the programs, sorted.
std::vector<std::string> bundled_models(const std::string& program_folder);

}  // namespace coxswain::serve
