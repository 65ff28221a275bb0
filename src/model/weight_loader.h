#pragma once
// WeightLoader: makes weights of what a WeightReader hands it, in the formats that are asked for: rows are packed by
// the threads that read them, so the peak of memory is the packed size and what the reader holds. What is made does
// not depend on the number of threads.
//
// Thread rule: one thread, which is one of those of the context.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "base/function_ref.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "model/tensor_map.h"
#include "model/weight_cache.h"
#include "model/weight_parts.h"
#include "model/weight_reader.h"
#include "weights/image_source.h"
#include "weights/image_store.h"
#include "weights/shared_image.h"

namespace coxswain::model {

// Where images come from and go to besides.
struct ImageRoute {
  weights::ImageSource* source = nullptr;  // asked before the cache, until it has failed
  weights::ImageStore* store = nullptr;    // told of all of them
  // Null: images are made. Else a load in two passes, which take the same images in the same order: the first one only
  // takes their memory and notes it here, the second one fills it and makes nothing else.
  std::vector<std::span<std::byte>>* places = nullptr;
  bool is_filling = false;  // the second one
};

class WeightLoader {
 public:
  // As WeightReader's. `table` must outlive the loader, and so must `cache`, where matrices are looked for first; null:
  // all are made. Matrices lie in `shared`, and are there already where it is filled; null: in memory of their own.
  WeightLoader(const weights::Checkpoint& checkpoint,
               const std::vector<std::string>& prefixes,
               const kernels::KernelTable& table,
               WeightReader::Progress progress,
               kernels::ExecContext* exec = nullptr,
               WeightCache* cache = nullptr,
               std::shared_ptr<weights::SharedImage> shared = nullptr,
               ImageRoute route = {});

  WeightReader& reader() { return reader_; }
  const WeightReader& reader() const { return reader_; }

  // An empty map gives an empty weight.
  Result<Linear> linear(const MatrixMap& map, const Holding& how);
  Result<RowTable> rows(const MatrixMap& map, tensor::DType type);
  Result<NormWeights> norm(const NormMap& map);
  Result<std::vector<float>> vector(const VectorMap& map);

  // What is made from now on belongs to this part of the model, for shares(); which may have been begun before.
  void begin_part(std::string name);
  // Of everything made so far: parts in the order in which they were begun, most bytes first.
  std::vector<WeightShare> shares() const;

  std::uint64_t bytes() const;  // held by everything made so far
  // The format of most bytes of the linear layers made so far. REQUIRES: there is one.
  const kernels::WeightFormat& main_format() const;
  const LinearLimits& limits() const { return limits_; }  // of all of them
  // Why images are made here although there was a source.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // Rows of one tensor, as they are stored or as `otherwise`.
  Result<kernels::MatrixImage> image_as_stored(const MatrixMap& map,
                                               const kernels::WeightFormat& otherwise);
  Result<kernels::MatrixImage> image_of_codes(const MatrixMap& map, const kernels::LinearOps& ops);
  Result<kernels::MatrixImage> image_of_values(const MatrixMap& map,
                                               const kernels::WeightFormat& format);
  // Takes memory for `map` in that form, with what it is to hold: as shared, from the cache, else as make() fills it.
  Status fill(tensor::AlignedBuffer& buffer,
              std::size_t n_bytes,
              const MatrixMap& map,
              std::string_view form,
              std::uint64_t layout_id,
              base::FunctionRef<Status()> make);
  // From the cache, else as make() fills it.
  Status fill_here(std::span<std::byte> bytes,
                   const MatrixMap& map,
                   std::uint64_t identity,
                   base::FunctionRef<Status()> make);
  // The same of what a source has begun: what has arrived may be in use already and is not written again.
  Status fill_rest(tensor::AlignedBuffer& buffer,
                   std::size_t n_arrived,
                   const MatrixMap& map,
                   std::uint64_t identity,
                   base::FunctionRef<Status()> make);
  // Memory for the next image. Whether the image is there already.
  Result<bool> take_memory(tensor::AlignedBuffer& buffer,
                           std::size_t n_bytes,
                           std::uint64_t identity);
  // Room in what is shared. Whether the image is there already.
  Result<bool> take_shared(tensor::AlignedBuffer& buffer,
                           std::size_t n_bytes,
                           std::uint64_t identity);
  void count(std::string_view format, std::uint64_t bytes);

  WeightReader reader_;
  const kernels::KernelTable& table_;
  WeightCache* cache_;
  std::shared_ptr<weights::SharedImage> shared_;
  ImageRoute route_;
  std::size_t n_images_ = 0;
  std::vector<std::string> warnings_;
  std::map<const kernels::WeightFormat*, std::uint64_t> bytes_of_;  // of linear layers
  LinearLimits limits_;
  std::vector<std::pair<std::string, std::map<std::string, std::uint64_t, std::less<>>>> parts_;
  std::size_t part_ = 0;  // that is being made
};

}  // namespace coxswain::model
