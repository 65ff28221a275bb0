#pragma once
// WeightsFile: the anonymous file in which replicas share their packed weights (weights/shared_image.h). The launcher
// makes it empty and hands it down to every shard; the first one fills it.
//
// Thread rule: values; one owner.

#include <cstdint>
#include <optional>
#include <utility>

#include <coxswain/status.h>

namespace coxswain::serve {

// "FD:N": the descriptor that a shard inherits, and how many share the file.
inline constexpr const char* kWeightsFileVariable = "COXSWAIN_WEIGHTS_FILE";

class WeightsFile {
 public:
  // Errors: kUnavailable: the system makes none.
  static Result<WeightsFile> make();
  WeightsFile(WeightsFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  WeightsFile& operator=(WeightsFile&&) = delete;
  ~WeightsFile();

  int fd() const { return fd_; }
  // An empty one in its place, of the same number. What was in it is gone with the last process that maps it.
  Status renew();

 private:
  explicit WeightsFile(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// What a shard was told. Closed on exec from then on.
struct InheritedWeights {
  int fd = -1;
  std::uint32_t sharers = 1;
};
// Of kWeightsFileVariable's value; null: not set. Errors: kInvalidArgument: it names no such file.
Result<std::optional<InheritedWeights>> inherited_weights(const char* value);

}  // namespace coxswain::serve
