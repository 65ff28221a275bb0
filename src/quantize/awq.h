#pragma once
// AWQ (Lin et al. 2023, arXiv:2306.00978): inputs that are large are made smaller, and their weights larger by as much,
// so that rounding touches them less. How much is searched for; what makes the inputs smaller is folded into the norm
// or the matrix ahead, so the model stays what it was but for the rounding.
//
// Folded are a norm into the matrices behind it, and the up-projection of a gated MLP into the down-projection. What
// has neither ahead is rounded as it is.
//
// Thread rule: the calling thread, which is one of those of the pool.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "base/thread_pool.h"
#include "model/architecture.h"
#include "quantize/gptq.h"
#include "quantize/layer_plan.h"

namespace coxswain::quantize {

struct AwqOptions {
  NumberKind kind = NumberKind::kInt4;
  std::uint64_t group_size = 128;  // 0: all
};

// What is multiplied into a layer before it is rounded, by stored name.
struct AwqFolding {
  std::map<std::string, std::vector<float>> inputs;      // of matrices: factors of the inputs
  std::map<std::string, std::vector<float>> outputs;     // of matrices: divisors of the outputs
  std::map<std::string, std::vector<float>> plain = {};  // vectors, as they are now

  void apply(const std::string& stored, Weights& weights) const;
};

// Divisors of the inputs [k] that `matrices` share: those of a grid that leave the least error of outputs, as seen on
// some of the rows.
std::vector<float> search_divisors(const std::vector<const Weights*>& matrices,
                                   const InputMoments& moments,
                                   const AwqOptions& options,
                                   base::ThreadPool& pool);

class AwqLayer {
 public:
  // By Target::seen_as.
  using Moments = std::map<std::string, InputMoments>;

  AwqLayer(const model::Architecture& architecture,
           const weights::Checkpoint& checkpoint,
           const AwqOptions& options,
           base::ThreadPool& pool)
      : architecture_(architecture), checkpoint_(checkpoint), options_(options), pool_(pool) {}

  // Whether there is anything to fold in layers of this architecture.
  static bool folds(const model::ArchSpec& arch);
  // Errors: those of reading.
  Result<AwqFolding> search(std::size_t index, const LayerPlan& plan, const Moments& moments) const;

 private:
  Result<std::vector<Weights>> weights_seen_as(const LayerPlan& plan,
                                               const std::string& seen_as) const;
  Status fold_norm(const model::NormMap& norm,
                   const std::string& seen_as,
                   const LayerPlan& plan,
                   const Moments& moments,
                   AwqFolding& out) const;
  Status fold_up(const model::MlpMap& map,
                 std::uint64_t intermediate,
                 const LayerPlan& plan,
                 const Moments& moments,
                 AwqFolding& out) const;

  const model::Architecture& architecture_;
  const weights::Checkpoint& checkpoint_;
  AwqOptions options_;
  base::ThreadPool& pool_;
};

}  // namespace coxswain::quantize
