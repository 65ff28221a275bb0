#include "kernels/cpu_features.h"

namespace coxswain::kernels {

// Alone in its file: tests link another one, with tiles performed in software.
const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect_cpu_features();
  return features;
}

}  // namespace coxswain::kernels
