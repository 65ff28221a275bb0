#pragma once
// OutputFolder: the folder of a quantised copy while it is made. A file for each layer, one for what is in no layer;
// their index, config.json and what belongs to the tokenizer come last. Until then quantize_state.json says what the
// files are of, so that a later run can take over those that are finished.
//
// Thread rule: one thread.

#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "json/json.h"
#include "quantize/stored_form.h"

namespace coxswain::quantize {

class OutputFolder {
 public:
  // `identity`: all that decides the bytes of the files. Errors: kFailedPrecondition if the folder holds anything but
  // an unfinished run of the same identity.
  static Result<OutputFolder> open(const std::string& path,
                                   const std::string& identity,
                                   std::size_t n_files);

  std::string file_path(std::size_t index) const { return path_ + "/" + file_name(index); }
  bool is_finished(std::size_t index) const;
  Status write(std::size_t index, const std::vector<OutputTensor>& tensors) const;
  // The index, config.json with `quantization`, and what of `model_dir` is neither weights nor config.
  Status finish(const std::string& model_dir, json::Value config, json::Value quantization) const;

 private:
  std::string file_name(std::size_t index) const;
  Status write_text(const std::string& name, const std::string& text) const;
  Status write_index() const;
  Status copy_others(const std::string& model_dir) const;

  std::string path_;
  std::size_t n_files_ = 0;
};

}  // namespace coxswain::quantize
