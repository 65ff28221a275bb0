#pragma once
// WeightCache: packed weights of one load, from a file where an equal load has left one, else on their way into it.
//
// Images come in the order in which a loader asks for them. One that the file does not hold as it should ends its use:
// that image and all behind it are made from the checkpoint, and the file is written anew. Nothing here is an error of
// the load: what went wrong is a warning.
//
// Thread rule: one thread, which is one of those of the context.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/exec_context.h"
#include "weights/image_file.h"

namespace coxswain::model {

struct WeightCacheOptions {
  std::string folder = {};      // made where it is missing; empty = no cache
  std::uint64_t bytes_max = 0;  // of all its files, those used longest ago go first; 0 = no limit
  std::string maker = {};       // all of the program that decides what an image holds
};

// What a load had of its file, and what it left there.
struct WeightCacheUse {
  std::string path = {};            // empty: no cache
  std::uint64_t bytes_read = 0;     // of images, as an earlier load packed them
  std::uint64_t bytes_written = 0;  // of the file; 0: it held all, or could not be written
  double seconds = 0;               // of the load, with the writing
};

class WeightCache {
 public:
  // `key` names the stored weights and what is made of them, without paths. `exec` may be null.
  WeightCache(const WeightCacheOptions& options, std::string key, kernels::ExecContext* exec);

  // As construction's, from now on.
  void use_threads_of(kernels::ExecContext* exec) { exec_ = exec; }

  // Whether the next image could be read; `out` is zero before, and after where it could not.
  bool read(std::uint64_t identity, std::span<std::byte> out);
  // The next image; its bytes stay until save().
  void keep(std::uint64_t identity, std::span<const std::byte> bytes);
  // The same of one that came from elsewhere, which is no reason to write a file that is there.
  void pass(std::uint64_t identity, std::span<const std::byte> bytes);
  // The last image lies there until save(), in the place of where it was read to or kept from.
  void move_last(std::span<const std::byte> bytes) { images_.back().bytes = bytes; }
  // Of the checkpoint, where not all of it was read.
  std::optional<std::uint64_t> fingerprint() const;
  // Writes the file, if an image had to be made.
  void save(std::uint64_t fingerprint);

  // Since construction.
  WeightCacheUse use() const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void give_up(const Status& why);
  Status make_room(std::uint64_t bytes) const;

  const WeightCacheOptions options_;
  const std::string key_;
  const std::string path_;
  kernels::ExecContext* exec_;
  std::optional<weights::ImageFile> file_;
  std::vector<weights::StoredImage> images_;
  std::optional<std::uint64_t> fingerprint_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::uint64_t bytes_read_ = 0;
  std::uint64_t bytes_written_ = 0;
  bool made_any_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace coxswain::model
