#include "kvspill/file_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/random.h>
#include <sys/stat.h>

#include "kvspill/block_file.h"
#include "kvspill/block_name.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;
using batch::BlockKey;
using batch::TierBlock;
using batch::TierPlace;

Status failure(const std::string& path, const char* what) {
  char text[128];
  return {Code::kUnavailable,
          "`" + path + "`: " + what + ": " + strerror_r(errno, text, sizeof text)};
}

}  // namespace

FileStore::FileStore(Options options, const std::string& description, const KvLayout& layout)
    : options_(std::move(options)),
      layout_(layout),
      hash_(layout_hash(layout)),
      folder_(options_.path + "/" + folder_name(description)) {}

FileStore::~FileStore() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

Result<std::unique_ptr<FileStore>> FileStore::open(Options options,
                                                   const std::string& description,
                                                   const KvLayout& layout) {
  // A new version of the files is another folder.
  std::unique_ptr<FileStore> out(
      new FileStore(std::move(options),
                    "blocks=" + std::to_string(kBlockFileVersion) + "\n" + description,
                    layout));
  COXSWAIN_RETURN_IF_ERROR(out->open_folder());
  out->find_files();
  out->others_ = OtherFolders(out->options_.path, out->folder_);
  std::vector<BlockKey> gone;  // nobody knew of them
  out->make_room(0, gone);
  return out;
}

Status FileStore::open_folder() {
  std::error_code error;
  fs::create_directories(folder_, error);
  lock_fd_ = lock_folder(folder_, true);
  if (lock_fd_ < 0 && errno == EWOULDBLOCK)
    return {Code::kUnavailable, "`" + folder_ + "` is in use by another process"};
  if (lock_fd_ < 0) return failure(folder_, "cannot be locked");
  return read_secret();
}

// Drawn by the first process; without it no file would be found.
Status FileStore::read_secret() {
  const std::string path = folder_ + "/" + std::string(kSecretName);
  std::string bytes(sizeof(Secrets), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in) {
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      return failure(path, "cannot be drawn");
    COXSWAIN_ASSIGN_OR_RETURN(base::AtomicFile file,
                              base::AtomicFile::create(path, *options_.calls));
    COXSWAIN_RETURN_IF_ERROR(file.write(bytes));
    COXSWAIN_RETURN_IF_ERROR(file.commit());
  }
  std::memcpy(&secrets_, bytes.data(), sizeof secrets_);
  return {};
}

// What former processes have left, the oldest use first.
void FileStore::find_files() {
  struct Found {
    fs::file_time_type time;
    BlockKey key;
    TierIndex::Entry entry;
  };
  std::vector<Found> found;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder_, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const fs::directory_entry& file = *it;
    const std::string name = file.path().filename();
    if (name.find(base::AtomicFile::kUnfinished) != std::string::npos) {
      ::unlink(file.path().c_str());
      continue;
    }
    Found f;
    std::error_code gone;
    if (!parse_block_name(name, f.key, f.entry) || !file.is_regular_file(gone)) continue;
    f.entry.bytes = file.file_size(gone);
    f.time = file.last_write_time(gone);
    if (!gone) found.push_back(f);
  }
  std::ranges::sort(found, {}, &Found::time);
  base::MutexLock lock(mu_);
  for (const Found& f : found) index_.put(f.key, f.entry);
}

std::string FileStore::path_of(const BlockKey& key, const TierIndex::Entry& entry) const {
  return folder_ + "/" + block_name(key, entry);
}

TierPlace FileStore::find(const BlockKey& key) const {
  base::MutexLock lock(mu_);
  const TierIndex::Entry* entry = index_.find(key);
  if (entry == nullptr) return {};
  return {.groups = entry->groups, .priority = entry->priority};
}

void FileStore::touch(const BlockKey& key) {
  base::MutexLock lock(mu_);
  index_.touch(key);
}

StoreCounts FileStore::counts() const {
  base::MutexLock lock(mu_);
  return {.blocks = index_.n_blocks(), .bytes = index_.n_bytes(), .refused = n_refused_};
}

// Until the files, those of models that are not served, and `bytes` more are no more than bytes_max.
void FileStore::make_room(std::uint64_t bytes, std::vector<BlockKey>& gone) {
  const std::uint64_t own = counts().bytes + bytes;
  others_.shrink_to(options_.bytes_max - std::min(options_.bytes_max, own));
  for (;;) {
    std::string path;
    {
      base::MutexLock lock(mu_);
      const auto first = index_.first_to_go();
      if (!first || index_.n_bytes() + bytes <= options_.bytes_max) return;
      path = path_of(*first, *index_.find(*first));
      index_.remove(*first);
      gone.push_back(*first);
    }
    ::unlink(path.c_str());
  }
}

std::uint64_t FileStore::capacity(std::uint64_t block_bytes) const {
  return options_.bytes_max / write_bytes_max(block_bytes, layout_.block_tokens);
}

Status FileStore::put(const TierBlock& block, std::string_view bytes, std::vector<BlockKey>& gone) {
  const std::string file = write_block(hash_, block, bytes);
  if (file.size() > options_.bytes_max) {
    return {Code::kResourceExhausted,
            "a block takes " + std::to_string(file.size()) + " bytes, `kv_spill_bytes_max` is " +
                std::to_string(options_.bytes_max)};
  }
  std::string former;
  {
    base::MutexLock lock(mu_);
    if (const TierIndex::Entry* entry = index_.find(block.key)) former = path_of(block.key, *entry);
    index_.remove(block.key);
  }
  if (!former.empty()) ::unlink(former.c_str());
  make_room(file.size(), gone);
  const TierIndex::Entry entry{
      .bytes = file.size(), .priority = block.priority, .groups = block.groups};
  COXSWAIN_ASSIGN_OR_RETURN(base::AtomicFile out,
                            base::AtomicFile::create(path_of(block.key, entry), *options_.calls));
  COXSWAIN_RETURN_IF_ERROR(out.write(file));
  // What a crash leaves unwritten has a wrong checksum.
  COXSWAIN_RETURN_IF_ERROR(out.commit(false));
  base::MutexLock lock(mu_);
  index_.put(block.key, entry);
  return {};
}

Result<std::string> FileStore::read(const TierBlock& block,
                                    const std::string& path,
                                    std::uint64_t bytes) const {
  std::string file(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(file.data(), static_cast<std::streamsize>(file.size()));
  file.resize(static_cast<std::size_t>(in.gcount()));
  if (in.good() && in.peek() != std::ifstream::traits_type::eof())
    return Status(Code::kDataLoss, "is longer than it was");
  return read_block(hash_, block, block_bytes(layout_, block.groups), file);
}

Result<std::string> FileStore::get(const TierBlock& block) {
  TierIndex::Entry entry;
  {
    base::MutexLock lock(mu_);
    const TierIndex::Entry* const found = index_.find(block.key);
    if (found == nullptr || (block.groups & ~found->groups) != 0)
      return Status(Code::kNotFound, "the block has gone meanwhile");
    entry = *found;
  }
  const std::string path = path_of(block.key, entry);
  TierBlock whole = block;
  whole.groups = entry.groups;
  auto out = read(whole, path, entry.bytes);
  if (out.ok()) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // the last use, for the next process
    return select_groups(layout_, entry.groups, out.value(), block.groups);
  }
  options_.warn("KV block `" + path + "` is removed: " + out.status().message());
  ::unlink(path.c_str());
  base::MutexLock lock(mu_);
  index_.remove(block.key);
  ++n_refused_;
  return out;
}

}  // namespace coxswain::kvspill
