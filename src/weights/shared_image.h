#pragma once
// SharedImage: packed weights of one model in memory that the processes of a machine share. What they share is an
// anonymous file (memfd_create(2)) whose descriptor each of them was started with. The first one fills it, the others
// wait for that and map it:
//
//   empty ----- lock ----> filling ----- sealed: nobody writes, grows or shrinks it ----> filled
//                  ^          | its process ends: the lock is free, the next one begins again
//                  '----------'
//
// The seal is the mark that all is there. In the file: the images as they were placed; the key, text that names all
// that decides their bytes; of each image u64 identity, u64 begin, u64 bytes; and at the very end u64 fingerprint,
// u64 bytes of the key, u64 images, "CXWSHM1\n".
//
// Pages of 2 MiB are asked for by name (MADV_COLLAPSE), which the kernel grants even where shmem_enabled is `never`.
//
// Thread rule: one thread; the bytes may be used by any once they are there.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::base {
class ThreadPool;
}

namespace coxswain::weights {

// Whether shared memory of this process gets pages of 2 MiB, and whether its own does.
bool shared_memory_is_huge();
bool own_memory_is_huge();

class SharedImage {
 public:
  // Waits while another process fills it. `fd` stays the caller's. Whoever fills it places up to `bytes_max`; `pool`
  // gets the pages, null: the calling thread does. Errors: kUnavailable: nothing that can be shared; kInvalidArgument:
  // filled with weights of another key.
  static Result<std::shared_ptr<SharedImage>> open(int fd,
                                                   std::string_view key,
                                                   std::uint64_t bytes_max,
                                                   base::ThreadPool* pool = nullptr);
  ~SharedImage();
  SharedImage(const SharedImage&) = delete;
  SharedImage& operator=(const SharedImage&) = delete;

  // Somebody has filled it: bytes are read-only.
  bool filled() const { return filled_; }
  // The next image, filled() or to be filled: then it is zero. They live as long as this object. Errors:
  // kFailedPrecondition: filled with another one there; kResourceExhausted.
  Result<std::span<std::byte>> next(std::uint64_t identity, std::size_t bytes);
  // All images are there, and not written to any more. Does nothing where it was filled. Errors: kUnavailable: another
  // process would begin again.
  Status finish(std::uint64_t fingerprint);

  std::uint64_t fingerprint() const { return fingerprint_; }  // as finish() was told
  std::uint64_t bytes() const { return file_bytes_; }  // of memory, of all processes together

 private:
  struct Image {
    std::uint64_t identity = 0;
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };

  SharedImage() = default;
  Status begin(std::uint64_t bytes_max);
  Status map_filled(std::string_view key);
  Status grow(std::uint64_t end);
  Status reserve(std::uint64_t bytes);

  int fd_ = -1;  // an opening of our own, which holds the lock
  bool filled_ = false;
  std::string key_;
  base::ThreadPool* pool_ = nullptr;
  std::byte* base_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;  // from base_ on
  std::uint64_t file_bytes_ = 0;
  std::uint64_t used_bytes_ = 0;  // by images
  std::vector<Image> images_;
  std::size_t n_given_ = 0;  // of a filled one
  std::uint64_t fingerprint_ = 0;
};

}  // namespace coxswain::weights
