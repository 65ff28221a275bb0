#include "kvspill/other_folders.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/file.h>
#include <sys/stat.h>

#include "kvspill/block_name.h"

namespace coxswain::kvspill {
namespace {

namespace fs = std::filesystem;

struct BlockFile {
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type used_at;
};

// The blocks of a folder, the one used longest ago first.
std::vector<BlockFile> blocks_of(const fs::path& folder) {
  std::vector<BlockFile> out;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    batch::BlockKey key;
    TierIndex::Entry entry;
    std::error_code gone;
    if (!parse_block_name(it->path().filename().string(), key, entry) ||
        it->symlink_status(gone).type() != fs::file_type::regular)
      continue;
    BlockFile file{
        .path = it->path(), .bytes = it->file_size(gone), .used_at = it->last_write_time(gone)};
    if (!gone) out.push_back(std::move(file));
  }
  std::ranges::sort(out, {}, &BlockFile::used_at);
  return out;
}

bool is_at(int fd, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace

int lock_folder(const fs::path& folder, bool create) {
  const std::string path = folder / kLockName;
  for (;;) {
    const int fd =
        ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
    if (fd < 0) return -1;
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd);
      errno = EWOULDBLOCK;
      return -1;
    }
    if (is_at(fd, path)) return fd;
    ::close(fd);  // removed meanwhile, with its folder
    if (!create) return -1;
    std::error_code error;
    fs::create_directories(folder, error);
  }
}

OtherFolders::OtherFolders(const fs::path& path, const fs::path& own) {
  std::error_code error;
  for (auto it = fs::directory_iterator(path, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code gone;
    if (!is_folder_name(it->path().filename().string()) || it->path() == own ||
        it->symlink_status(gone).type() != fs::file_type::directory)
      continue;
    const int lock = lock_folder(it->path(), false);
    if (lock < 0) continue;
    Folder folder{.path = it->path(), .used_at = fs::file_time_type::min()};
    for (const BlockFile& file : blocks_of(it->path())) {
      folder.bytes += file.bytes;
      folder.used_at = std::max(folder.used_at, file.used_at);
    }
    ::close(lock);
    n_bytes_ += folder.bytes;
    folders_.push_back(std::move(folder));
  }
  std::ranges::sort(folders_, {}, &Folder::used_at);
}

void OtherFolders::shrink_to(std::uint64_t bytes_max) {
  while (n_bytes_ > bytes_max) {
    Folder& folder = folders_.front();
    const std::uint64_t rest = n_bytes_ - folder.bytes;
    shrink(folder, bytes_max - std::min(bytes_max, rest));
    n_bytes_ = rest + folder.bytes;
    if (folder.bytes == 0) folders_.pop_front();
  }
}

// Until its blocks take no more than bytes_max. One that is in use now is its user's.
void OtherFolders::shrink(Folder& folder, std::uint64_t bytes_max) {
  folder.bytes = 0;
  const int lock = lock_folder(folder.path, false);
  if (lock < 0) return;
  const std::vector<BlockFile> files = blocks_of(folder.path);
  for (const BlockFile& file : files) folder.bytes += file.bytes;
  for (auto file = files.begin(); file != files.end() && folder.bytes > bytes_max; ++file) {
    ::unlink(file->path.c_str());
    folder.bytes -= file->bytes;
  }
  if (folder.bytes == 0) {
    ::unlink((folder.path / kSecretName).c_str());
    ::unlink((folder.path / kLockName).c_str());
    ::rmdir(folder.path.c_str());  // stays, if others keep something there
  }
  ::close(lock);
}

}  // namespace coxswain::kvspill
