#pragma once
// What a hub says of a repository, checked, and which of its files make a model.
//
// The list is the answer of GET /api/models/ID/revision/REVISION?blobs=true. Names in it are outside bytes: one that
// would leave its folder, or that no file system holds, makes the list an error.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::hub {

struct RepoFile {
  std::string name;    // relative, with '/'
  std::string digest;  // 64 or 40 hexadecimal digits, see Digest; the name of its blob in the cache
  std::uint64_t size_bytes = 0;
};

struct Repo {
  std::string commit;  // 40 hexadecimal digits
  std::vector<RepoFile> files;
};

// Errors: kInvalidArgument if `id` is neither `name` nor `org/name` of letters, digits, '.', '_' and '-'.
Status check_repo_id(std::string_view id);

// Errors: kInvalidArgument if `revision` is not 1 to 256 letters, digits, '.', '_', '-' and '/', or has "..".
Status check_revision(std::string_view revision);

// Errors: kDataLoss, naming the member and its value.
Result<Repo> parse_repo(std::string_view text);

// The files in the root that a model is read from: safetensors with configuration and tokenizer, else its one GGUF
// model. With a `type` such as Q4_K_M the GGUF model, all parts of it, whose name has that word.
// Errors: kNotFound, which says what there is: no weights, pickle files only, several GGUF models.
Result<std::vector<RepoFile>> choose_files(const Repo& repo, const std::string& type);

}  // namespace coxswain::hub
