#ifndef COXSWAIN_KERNELS_CPU_AMX_EMULATED_TILES_H_
#define COXSWAIN_KERNELS_CPU_AMX_EMULATED_TILES_H_
// The tile instructions that linear.h uses, in plain C after their pseudo-code (Intel SDM volume 2,
// TDPBF16PS, TDPBUSD, TILELOADD, TILESTORED), so that layout and logic of the AMX kernels are
// tested on any CPU.
//
// It is stricter than the instructions: a tile must be configured and loaded before it is used, and
// shapes must fit. Included inside an anonymous namespace of coxswain::kernels, after linear.h,
// <assert.h> and <math.h>.

class EmulatedTiles {
 public:
  explicit EmulatedTiles(const TileConfig& config) : config_(config) {
    assert(config.palette == 1);
    for (int i = 0; i < 8; ++i) assert(config.rows[i] <= 16 && config.row_bytes[i] <= 64);
  }

  template <int kTile>
  void zero() {
    assert(config_.rows[kTile] != 0);
    memset(data_[kTile], 0, sizeof data_[kTile]);
    loaded_[kTile] = true;
  }
  template <int kTile>
  void load(const void* base, size_t stride) {
    assert(config_.rows[kTile] != 0);
    memset(data_[kTile], 0, sizeof data_[kTile]);
    for (size_t row = 0; row < config_.rows[kTile]; ++row) {
      memcpy(data_[kTile][row],
             static_cast<const char*>(base) + row * stride,
             config_.row_bytes[kTile]);
    }
    loaded_[kTile] = true;
  }
  template <int kTile>
  void store(void* base, size_t stride) const {
    assert(loaded_[kTile]);
    for (size_t row = 0; row < config_.rows[kTile]; ++row) {
      memcpy(static_cast<char*>(base) + row * stride, data_[kTile][row], config_.row_bytes[kTile]);
    }
  }

  template <int kSum, int kA, int kB>
  void dot_u8s8() {
    check<kSum, kA, kB>();
    for (size_t m = 0; m < config_.rows[kSum]; ++m) {
      for (size_t k = 0; k < config_.row_bytes[kA] / 4U; ++k) {
        for (size_t n = 0; n < config_.row_bytes[kSum] / 4U; ++n) {
          uint32_t sum = 0;
          memcpy(&sum, data_[kSum][m] + 4 * n, 4);
          for (size_t i = 0; i < 4; ++i) {
            const int product = static_cast<int>(data_[kA][m][4 * k + i]) *
                                static_cast<int8_t>(data_[kB][k][4 * n + i]);
            sum += static_cast<uint32_t>(product);
          }
          memcpy(data_[kSum][m] + 4 * n, &sum, 4);
        }
      }
    }
  }

  template <int kSum, int kA, int kB>
  void dot_bf16() {
    check<kSum, kA, kB>();
    for (size_t m = 0; m < config_.rows[kSum]; ++m) {
      for (size_t n = 0; n < config_.row_bytes[kSum] / 4U; ++n) {
        float even = 0.0F;
        float odd = 0.0F;
        for (size_t k = 0; k < config_.row_bytes[kA] / 4U; ++k) {
          even = flushed(fmaf(bf16_at(data_[kA][m], 2 * k), bf16_at(data_[kB][k], 2 * n), even));
          odd = flushed(
              fmaf(bf16_at(data_[kA][m], 2 * k + 1), bf16_at(data_[kB][k], 2 * n + 1), odd));
        }
        float sum = 0.0F;
        memcpy(&sum, data_[kSum][m] + 4 * n, 4);
        sum = flushed(flushed(sum) + flushed(even + odd));
        memcpy(data_[kSum][m] + 4 * n, &sum, 4);
      }
    }
  }

 private:
  template <int kSum, int kA, int kB>
  void check() const {
    assert(loaded_[kSum] && loaded_[kA] && loaded_[kB]);
    assert(config_.rows[kSum] == config_.rows[kA]);
    assert(config_.row_bytes[kSum] == config_.row_bytes[kB]);
    assert(config_.row_bytes[kA] / 4 == config_.rows[kB]);
  }

  // Subnormal inputs and results count as zero.
  static float flushed(float value) {
    return fabsf(value) < 0x1p-126F ? copysignf(0.0F, value) : value;
  }
  static float bf16_at(const uint8_t* row, size_t i) {
    const uint32_t bits =
        (static_cast<uint32_t>(row[2 * i + 1]) << 24) | (static_cast<uint32_t>(row[2 * i]) << 16);
    float value = 0.0F;
    memcpy(&value, &bits, 4);
    return flushed(value);
  }

  TileConfig config_;
  uint8_t data_[8][16][64];
  bool loaded_[8] = {};
};

#endif  // COXSWAIN_KERNELS_CPU_AMX_EMULATED_TILES_H_
