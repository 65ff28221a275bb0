#ifndef COXSWAIN_KERNELS_CPU_OPS_H_
#define COXSWAIN_KERNELS_CPU_OPS_H_
// What one instruction set offers: plain C structs and function pointers, no STL, so that files
// compiled with an instruction set's own flags leave no inline library function behind that the
// linker could keep for everyone.
//
// The split of work over threads, rows and panels is in ../linear.cc, ../attention.cc and
// ../elementwise.cc, compiled for the baseline; here is what one thread does with one piece.
// Nothing here allocates, blocks or keeps state. Strides are in elements unless named bytes.

#include <stddef.h>
#include <stdint.h>

namespace coxswain::kernels {

// How a linear kernel wants its activations.
enum ActivationForm : uint8_t {
  kActivationF32,   // as they are
  kActivationBf16,  // rounded to bfloat16
  kActivationU8,    // quantised to [-127, 127], 128 added
  kActivationS8,    // quantised to [-127, 127]
  kActivationS16,   // quantised to [-127, 127], held in 16 bits
};

// Rows times one panel over a range of k. The accumulators are [rows, panel]: float, or int32 for
// quantised forms without groups.
struct TileArgs {
  const void* a;          // first row, at the first k of the range
  size_t a_stride_bytes;  // between rows
  const void* w;          // the panel at the first k of the range
  size_t k;               // values in the range; whole groups but for the last range
  size_t rows;            // 1 .. row_tile
  void* acc;
  // Of chunk() for few rows: so many panels, whose weights and sums lie so many bytes apart.
  size_t n_panels;
  size_t panel_bytes;
  size_t acc_bytes;
  bool first;  // start from zero instead of from acc
  // Bytes wanted soon, or null; of chunk() for many rows: the block that comes next.
  const char* prefetch;
  size_t prefetch_step;  // bytes per unit of the range; without prefetch: stream_ahead
  // Group formats: [groups, panel] words of parameters, the scale (float16) first, from the first group of the range.
  const uint16_t* scales;
  // Group formats: what the first row gives to the sum of each group; a_stride_bytes apart.
  const int32_t* a_starts;
};

// Accumulators of one panel to y.
struct FinishArgs {
  const void* acc;  // [rows, panel]; tiled: [rows / 16][panel / 16][16][16]
  bool tiled;
  size_t panel;
  size_t rows;
  size_t n;  // outputs of this panel that exist
  float* y;
  size_t y_stride;
  const float* bias;           // [n] or null
  bool accumulate;             // add to y
  const float* row_scales;     // [rows], quantised forms
  const float* scales;         // [n], quantised forms without groups
  const int32_t* column_sums;  // [n], quantised forms without groups
  int32_t activation_offset;   // what the activation form added to each value
};

// The same of a gate's panel and of the one beside it, both whole: y = activation(gate) * up, with the bits that
// finish() and VectorOps::activation give.
struct GateArgs {
  FinishArgs gate;
  FinishArgs up;  // without y
  uint8_t kind;   // an ActivationKind
  bool streams;   // past the caches: y and its stride are whole lines
};

// One row of activations to be converted. Only `values` is written where a form has nothing else.
// Kernels work on a copy of it: stores of bytes may alias anything, and would have every value read the fields again.
struct ConvertArgs {
  const float* x;
  size_t k;
  size_t k_padded;  // values are zero from k on
  void* values;
  float* scale;
  int32_t* starts;  // group formats: one for each group of the padded row
};

// The types of rows, and of keys and values. Codes of 8 and 4 bits stand for code * scale + zero, with a scale and a
// zero for each vector (attention_args.h).
enum CacheType : uint8_t {
  kCacheF32,
  kCacheBf16,
  kCacheF16,
  kCacheU8,
  kCacheE4M3,
  kCacheE5M2,
  kCacheU4
};

static inline constexpr bool has_codes(CacheType type) {
  return type == kCacheU8 || type == kCacheU4;
}

// Of any type but kCacheU4.
static inline constexpr size_t value_bytes(CacheType type) {
  return type == kCacheF32 ? 4 : type == kCacheBf16 || type == kCacheF16 ? 2 : 1;
}
// Of a vector of n values.
static inline constexpr size_t vector_bytes(CacheType type, size_t n) {
  return type == kCacheU4 ? n / 64 * 32 + (n % 64 + 1) / 2 : n * value_bytes(type);
}

// One row of weights as they are stored, on its way into int8: formats/int8.cc says what it becomes.
struct EncodeArgs {
  const void* x;
  CacheType type;
  size_t k;
  int8_t* values;  // [k]
  float* scale;
  int32_t* sum;
};

// A linear kernel. Weights are packed as [n / panel][k / unit_values][panel][unit], zero beyond n and k; a unit is
// unit_values inputs of one output. Units of more than four bytes lie word by word, each of all outputs of the panel
// side by side. Each output is one chain of additions in ascending k, whatever the tile.
struct LinearKernel {
  uint32_t layout_id;
  uint32_t panel;         // outputs side by side, <= kPanelMax
  uint32_t unit_values;   // values of one output side by side ...
  uint32_t unit_bytes;    // ... and the bytes that hold them
  uint32_t k_multiple;    // k is padded to this, a multiple of unit_values
  uint32_t group;         // inputs that share a scale, which tiles apply; 0: none, or finish() does
  uint32_t group_starts;  // of a row for each group; 0 counts as 1
  uint32_t row_tile;      // rows that one tile call takes
  // Values of k after which the next rows are worked on, so that the piece of the panel stays
  // in a near cache; whole groups.
  uint32_t k_block;
  ActivationForm form;
  void (*convert_row)(const ConvertArgs*);  // null for kActivationF32
  void (*tile)(const TileArgs*);
  void (*finish)(const FinishArgs*);
  void (*finish_gate)(const GateArgs*);  // null: finish() and VectorOps::activation do it
  // Where set, in tile()'s stead: more than row_tile rows, all of a chunk, by k_block of a panel; fewer by all of k of
  // panels that lie side by side.
  void (*chunk)(const TileArgs*);
  // Whether chunk() leaves sums of 16 rows by 16 outputs side by side.
  bool tiled;
  // Tiles begin at multiples of this row; 0 counts as 1.
  uint32_t row_unit;
  // How many bytes ahead a panel that is read once is asked for, by sets that leave it open; 0:
  // hardware follows the stream best.
  uint32_t stream_ahead;
  // For calls of at most few_rows rows, if not 0: another way to the same bits, with few_tile as its row_tile.
  uint32_t few_rows;
  uint32_t few_tile;
  void (*tile_few)(const TileArgs*);
  // Rows that pass together over a panel, a multiple of row_tile; 0: 96. More rows read the weights less often, and
  // their sums take more of a near cache.
  uint32_t chunk_rows;
  // Of int8: the bits of WeightFormat::encode(). Null: encode() makes them.
  void (*encode_row)(const EncodeArgs*);
};

// Rows of activations below this have no finite 127 / absmax and count as zero.
inline constexpr float kAbsmaxLeast = 0x1p-120F;
// Whether a row of this largest magnitude has values as integers. All are zero otherwise, and the scale, which is NaN
// or infinite where a value was, makes every output of the row NaN.
static inline bool counts(float absmax) {
  return absmax >= kAbsmaxLeast && absmax <= 0x1.FFFFFEp127F;
}
// Writes the scale of such a row and says what makes its values integers in [-127, 127]; 0: none of them counts.
static inline float inverse_of(float absmax, float* scale) {
  *scale = absmax / 127.0F;
  return counts(absmax) ? 127.0F / absmax : 0.0F;
}

// Neither infinite nor NaN.
static inline bool is_number(float x) {
  return x >= -0x1.FFFFFEp127F && x <= 0x1.FFFFFEp127F;
}

inline constexpr size_t kPanelMax = 64;
inline constexpr size_t kPositionsMax = 256;
// Floats between rows of widened keys: rows a power of two apart would meet in a few sets of the first-level cache.
inline constexpr size_t kKeyStride = kPositionsMax + 16;

struct AttentionShape {
  const void* k;
  const void* v;
  size_t k_block_stride_bytes;
  size_t v_block_stride_bytes;
  size_t k_head_bytes;  // of a block
  size_t v_head_bytes;
  CacheType type;
  size_t block_tokens;
  size_t k_head_dim;
  size_t v_head_dim;
  const float* q;
  size_t q_stride;
  float* out;
  size_t out_stride;
  float scale;
  float soft_cap;
  int32_t window;
  int32_t sink_tokens;
  const float* sinks;
  const float* alibi_slopes;
};

// Query rows x heads of some KV heads. n_rows * n_heads * n_kv_heads <= kAttentionTaskRows.
struct AttentionTask {
  const uint32_t* blocks;
  size_t row;  // of the step
  size_t n_rows;
  int32_t position;  // of the first row
  size_t kv_head;    // the first
  size_t n_kv_heads;
  size_t head;     // first query head
  size_t n_heads;  // of a KV head
};

inline constexpr size_t kAttentionTaskRows = 256;
inline constexpr size_t kScoreRows = 16;  // that are worked on at once, at most

// Floats of scratch that a task needs, for head sizes rounded up to 16.
inline constexpr size_t attention_task_floats(size_t dk, size_t dv) {
  return kKeyStride * dk + kPositionsMax * dv + kAttentionTaskRows * (dk + dv + 3 * 16) +
         kScoreRows * (2 * kKeyStride + dv + kPositionsMax / 2);
}

struct NormRow {
  const float* x;
  float* y;
  size_t n;
  const float* weight;
  const float* bias;
  float epsilon;
  float weight_offset;
};

struct RopeHead {
  float* x;
  size_t rotary_dim;
  const float* cos;
  const float* sin;
  bool interleaved;
};

// Same order as Activation in kernel_table.h.
enum ActivationKind : uint8_t {
  kActSilu,
  kActGeluErf,
  kActGeluTanh,
  kActRelu,
  kActReluSquared,
  kActGeluQuick
};

struct SwigluRow {
  const float* gate;
  const float* up;
  float* y;
  size_t n;
  float limit;
  float alpha;
};

struct AngleRow {
  float position;
  const float* frequencies;
  float factor;
  float* cos;
  float* sin;
  size_t n;
};

struct CombineRow {
  const float* x;
  size_t x_stride;
  const uint32_t* slots;
  const float* weights;
  size_t n_used;
  float* y;
  size_t n;
  bool accumulate;
};

struct VectorOps {
  // Of types without codes, and of those.
  void (*attention)(const AttentionShape*, const AttentionTask*, float* scratch);
  void (*attention_codes)(const AttentionShape*, const AttentionTask*, float* scratch);
  void (*store_row)(void* dst, CacheType type, const float* x, size_t n);
  // A vector as codes, its scale and its zero.
  void (*store_codes)(
      uint8_t* codes, CacheType type, float* scale, float* zero, const float* x, size_t n);
  void (*rms_norm)(const NormRow*);
  void (*layer_norm)(const NormRow*);
  void (*rope)(const RopeHead*);
  void (*activation)(ActivationKind, const float* gate, const float* up, float* y, size_t n);
  void (*clamped_swiglu)(const SwigluRow*);
  void (*add)(const float* a, float* y, size_t n, float alpha, float beta);
  float (*sigmoid)(float x);
  void (*clip)(float* x, size_t n, float limit);
  void (*soft_cap)(float* x, size_t n, float scale, float cap);
  void (*softmax)(float* x, size_t n);
  // y = row * scale (+ y)
  void (*load_row)(
      float* y, const void* row, CacheType type, size_t n, float scale, bool accumulate);
  void (*combine)(const CombineRow*);
  void (*angles)(const AngleRow*);
};

// Places in SetOps::linear, a name for each weight format.
enum LinearForm : uint8_t {
#define COXSWAIN_PLAIN_FORMAT(name) kForm##name,
#define COXSWAIN_GROUP_FORMAT(name, codes) kForm##name,
#define COXSWAIN_SUPER_FORMAT(name) kForm##name,
#include "kernels/formats/list.inc"
#undef COXSWAIN_PLAIN_FORMAT
#undef COXSWAIN_GROUP_FORMAT
#undef COXSWAIN_SUPER_FORMAT
  kLinearForms
};

// Everything of one set. Each fill_* overrides what its instructions do better than the set below.
struct SetOps {
  LinearKernel linear[kLinearForms];
  VectorOps vector;
};

void fill_scalar_linear(SetOps* ops);
void fill_scalar_linear_groups(SetOps* ops);
void fill_scalar_linear_super(SetOps* ops);
void fill_avx2_linear_super(SetOps* ops);
void fill_avx512_linear_super(SetOps* ops);
void fill_scalar_vector(SetOps* ops);
void fill_avx2_linear(SetOps* ops);
void fill_avx2_linear_groups(SetOps* ops);
void fill_avx2_vector(SetOps* ops);
void fill_avx512_linear_f32(SetOps* ops);
void fill_avx512_linear_bf16(SetOps* ops);  // needs vdpbf16ps
void fill_avx512_linear_int8(SetOps* ops);
void fill_avx512_linear_groups(SetOps* ops);
void fill_avx512_vector(SetOps* ops);
void fill_avx2_encode(SetOps* ops);
void fill_avx512_encode(SetOps* ops);
void fill_avx512_attention_bf16(SetOps* ops);  // needs vdpbf16ps
void fill_avx512_attention_codes(SetOps* ops);
void fill_amx_attention(SetOps* ops);
void fill_amx_attention_codes(SetOps* ops);
void fill_amx_linear(SetOps* ops);
void fill_amx_linear_groups(SetOps* ops);
void fill_amx_linear_super(SetOps* ops);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_CPU_OPS_H_
