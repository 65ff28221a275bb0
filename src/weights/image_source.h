#pragma once
// ImageSource: packed weights that somebody else has already, such as other shards (peers/peer_weights.h), image by
// image in the order of a load.
//
// Thread rule: one thread; stop() from any.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <coxswain/status.h>

#include "base/function_ref.h"

namespace coxswain::weights {

class ImageSource {
 public:
  // The first `n_bytes` of an image are there and will not change.
  using Arrived = base::FunctionRef<void(std::size_t n_bytes)>;

  virtual ~ImageSource() = default;

  // Before anything else: whether somebody has the weights that `key` names. The fingerprint of what they were made of.
  // Errors: kUnavailable: nobody does, and why.
  virtual Result<std::uint64_t> open(const std::string& key) = 0;

  // The next image. Errors: kUnavailable: nobody is left who could go on; what has arrived of this one stays, and
  // nothing more is asked for.
  virtual Status read(std::uint64_t identity, std::span<std::byte> out, Arrived arrived) = 0;

  // read() fails soon, and from then on.
  virtual void stop() = 0;
};

}  // namespace coxswain::weights
