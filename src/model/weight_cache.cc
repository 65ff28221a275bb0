#include "model/weight_cache.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <xxhash.h>

#include "base/atomic_file.h"
#include "base/mutex.h"
#include "base/numbers.h"

namespace coxswain::model {
namespace {

namespace fs = std::filesystem;
using weights::ImageFile;

constexpr std::string_view kEnding = ".weights";
// Of a process that was killed while it wrote.
constexpr std::chrono::hours kUnfinishedMax{1};

std::string path_for(const std::string& folder, const std::string& key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  char name[40];
  std::snprintf(name,
                sizeof name,
                "/%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return folder + name + std::string(kEnding);
}

}  // namespace

WeightCache::WeightCache(const WeightCacheOptions& options,
                         std::string key,
                         kernels::ExecContext* exec)
    : options_(options),
      key_("maker " + options.maker + "\n" + std::move(key)),
      path_(path_for(options.folder, key_)),
      exec_(exec) {
  auto file = ImageFile::open(path_, key_);
  if (!file.ok()) {
    if (file.status().code() != Code::kNotFound) give_up(file.status());
    return;
  }
  file_ = std::move(file).value();
  fingerprint_ = file_->fingerprint();
  std::error_code error;
  fs::last_write_time(path_, fs::file_time_type::clock::now(), error);  // when it was used
}

void WeightCache::give_up(const Status& why) {
  warnings_.push_back("packed weights are made anew: " + why.message());
  file_.reset();
}

bool WeightCache::read(std::uint64_t identity, std::span<std::byte> out) {
  if (!file_) return false;
  const std::size_t index = images_.size();
  if (!file_->has(index, identity, out.size())) {
    give_up({Code::kDataLoss, path_ + ": holds other weights than this build asks for"});
    return false;
  }
  const std::size_t n = base::ceil_div(out.size(), ImageFile::kPieceBytes);
  base::Mutex mu;
  Status status;
  const auto read_one = [&](std::size_t piece, std::size_t) {
    const std::size_t begin = piece * ImageFile::kPieceBytes;
    const std::size_t size = std::min(ImageFile::kPieceBytes, out.size() - begin);
    Status read = file_->read_piece(index, piece, out.subspan(begin, size));
    if (read.ok()) return;
    const base::MutexLock lock(mu);
    status = std::move(read);
  };
  if (exec_ != nullptr) {
    exec_->pool().run(n, read_one);
  } else {
    for (std::size_t piece = 0; piece < n; ++piece) read_one(piece, 0);
  }
  if (!status.ok()) {
    give_up(status);
    std::ranges::fill(out, std::byte{0});
    return false;
  }
  images_.push_back({identity, out});
  bytes_read_ += out.size();
  return true;
}

void WeightCache::keep(std::uint64_t identity, std::span<const std::byte> bytes) {
  images_.push_back({identity, bytes});
  made_any_ = true;
}

void WeightCache::pass(std::uint64_t identity, std::span<const std::byte> bytes) {
  images_.push_back({identity, bytes});
  if (!file_) made_any_ = true;
}

std::optional<std::uint64_t> WeightCache::fingerprint() const {
  return bytes_read_ > 0 ? fingerprint_ : std::nullopt;
}

void WeightCache::save(std::uint64_t fingerprint) {
  if (!made_any_) return;
  std::error_code error;
  fs::create_directories(options_.folder, error);  // or write() says what is wrong
  const std::uint64_t bytes = ImageFile::bytes_for(key_, images_);
  Status status = make_room(bytes);
  if (status.ok()) status = ImageFile::write(path_, key_, fingerprint, images_);
  if (!status.ok())
    warnings_.push_back("packed weights are not kept: " + status.message());
  else
    bytes_written_ = bytes;
}

WeightCacheUse WeightCache::use() const {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - began_;
  return {.path = path_,
          .bytes_read = bytes_read_,
          .bytes_written = bytes_written_,
          .seconds = time.count()};
}

Status WeightCache::make_room(std::uint64_t bytes) const {
  const auto refuse = [&](const std::string& what, std::uint64_t limit) {
    return Status(
        Code::kResourceExhausted,
        "they take " + std::to_string(bytes) + " bytes, " + what + " " + std::to_string(limit));
  };
  if (options_.bytes_max != 0 && bytes > options_.bytes_max)
    return refuse("the limit of their folder is", options_.bytes_max);
  struct Kept {
    fs::file_time_type used;
    fs::path path;
    std::uint64_t bytes = 0;
  };
  std::vector<Kept> kept;
  std::uint64_t total = bytes;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder, error)) {
    std::error_code gone;  // another process may remove it meanwhile
    const Kept file{entry.last_write_time(gone), entry.path(), entry.file_size(gone)};
    if (gone || file.path == path_) continue;
    const std::string name = file.path.filename().string();
    if (name.find(base::AtomicFile::kUnfinished) != std::string::npos) {
      if (fs::file_time_type::clock::now() - file.used > kUnfinishedMax)
        fs::remove(file.path, gone);
    } else if (name.ends_with(kEnding)) {
      total += file.bytes;
      kept.push_back(file);
    }
  }
  std::ranges::sort(kept, {}, &Kept::used);
  for (const Kept& file : kept) {
    if (options_.bytes_max == 0 || total <= options_.bytes_max) break;
    std::error_code gone;
    fs::remove(file.path, gone);
    total -= file.bytes;
  }
  const fs::space_info space = fs::space(options_.folder, error);
  if (!error && space.available < bytes) return refuse("the disk has", space.available);
  return {};
}

}  // namespace coxswain::model
