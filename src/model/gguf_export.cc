#include "model/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "model/end_tokens.h"
#include "model/families/family.h"
#include "model/gguf_config.h"
#include "model/gguf_names.h"
#include "model/rope.h"
#include "model/stored_quant_config.h"
#include "model/weight_reader.h"

namespace coxswain::model {
namespace {

Status refused(const std::string& model_dir, const std::string& what) {
  return {Code::kUnimplemented, ErrorKind::kValidation, model_dir + ": " + what};
}

bool near(double a, double b) {
  constexpr double kShare = 1e-6;  // keys are float32
  return std::abs(a - b) <= kShare * std::max(std::abs(a), std::abs(b));
}

// Gathers the names of tensors that a map visits, each with another under which it may lie.
struct TensorNames {
  std::map<std::string, std::string> found = {};

  void operator()(const MatrixMap& map) {
    for (const Rows& rows : map.rows) {
      add(rows.tensor, rows.otherwise);
      add(rows.bias, {});
    }
  }
  void operator()(const VectorMap& map) {
    for (const std::string& name : map.tensors) add(name, {});
  }
  void operator()(const NormMap& map) {
    (*this)(map.weight);
    (*this)(map.bias);
  }
  void add(const std::string& name, const std::string& otherwise) {
    if (!name.empty()) found.emplace(name, otherwise);
  }
};

std::map<std::string, std::string> names_of(const TensorMap& tensors) {
  TensorNames out;
  tensors.embedding.visit(out);
  for (const LayerMap& layer : tensors.layers) layer.visit(out);
  tensors.head.visit(out);
  out(tensors.head.matrix);
  return std::move(out.found);
}

// ---- whether a model that was read back is the same ----

bool same_norm(const NormSpec& a, const NormSpec& b) {
  return a.kind == b.kind && near(a.epsilon, b.epsilon);
}

bool same_mlp(const MlpSpec& a, const MlpSpec& b) {
  return a.gate == b.gate && a.activation == b.activation && near(a.swiglu_limit, b.swiglu_limit) &&
         near(a.swiglu_alpha, b.swiglu_alpha) && a.intermediate == b.intermediate;
}

bool same_feed_forward(const LayerSpec& a, const LayerSpec& b) {
  if (a.has_experts() != b.has_experts()) return false;
  if (!a.has_experts()) return same_mlp(a.mlp(), b.mlp());
  const ExpertsSpec& x = a.experts();
  const ExpertsSpec& y = b.experts();
  return x.n_experts == y.n_experts && x.n_used == y.n_used && x.routing == y.routing &&
         x.normalize == y.normalize && same_mlp(x.expert, y.expert) &&
         x.shared.has_value() == y.shared.has_value() &&
         (!x.shared || same_mlp(*x.shared, *y.shared)) && x.shared_gate == y.shared_gate;
}

// A window that holds every position is none.
bool same_window(const ArchSpec& arch, std::uint32_t a, std::uint32_t b) {
  const auto used = [&](std::uint32_t window) { return window < arch.max_positions ? window : 0; };
  return used(a) == used(b);
}

bool same_attention(const AttentionSpec& a, const AttentionSpec& b) {
  return a.n_heads == b.n_heads && a.n_kv_heads == b.n_kv_heads && a.head_dim == b.head_dim &&
         a.sink_tokens == b.sink_tokens && a.rope == b.rope && near(a.scale, b.scale) &&
         near(a.soft_cap, b.soft_cap) && near(a.clip_qkv, b.clip_qkv) && a.qk_norm == b.qk_norm &&
         same_norm(a.qk_norm_spec, b.qk_norm_spec) && a.alibi_slopes == b.alibi_slopes;
}

// By the frequencies: a file has those of llama3's scaling as factors.
bool same_rope(const ArchSpec& arch, const RopeSpec& a, const RopeSpec& b) {
  if (a.rotary_dim != b.rotary_dim || !near(a.attention_factor, b.attention_factor) ||
      a.style != kernels::RopeStyle::kHalves)
    return false;
  const auto trained = static_cast<std::uint32_t>(a.original_max_positions);
  std::vector<float> x(a.rotary_dim / 2);
  std::vector<float> y(x.size());
  for (const std::uint32_t length : {1U, trained, trained + 1, arch.max_positions}) {
    rope_frequencies(a, length, x);
    rope_frequencies(b, length, y);
    if (!std::ranges::equal(
            x, y, [](float p, float q) { return std::abs(p - q) <= 1e-5F * std::abs(p); }))
      return false;
  }
  return true;
}

// What of the model is another one; empty: nothing.
std::string difference(const ArchSpec& a, const ArchSpec& b) {
  if (a.hidden_size != b.hidden_size || a.max_positions != b.max_positions ||
      a.vocab_size != b.vocab_size || a.n_layers() != b.n_layers())
    return "its sizes";
  if (!near(a.embedding.scale, b.embedding.scale) ||
      a.embedding.n_positions != b.embedding.n_positions)
    return "the scale of its embedding";
  if (!same_norm(a.norm, b.norm) || a.norm_before != b.norm_before ||
      a.norm_after != b.norm_after || a.placement != b.placement || a.parallel != b.parallel)
    return "its norms";
  if (!near(a.residual_multiplier, b.residual_multiplier)) return "its residual multiplier";
  if (a.head.tied != b.head.tied || !near(a.head.scale, b.head.scale) ||
      !near(a.head.soft_cap, b.head.soft_cap))
    return "its head";
  if (a.ropes.size() != b.ropes.size()) return "its rotary embedding";
  for (std::size_t i = 0; i < a.ropes.size(); ++i) {
    if (!same_rope(a, a.ropes[i], b.ropes[i]))
      return "its rotary embedding (rope_theta, rope_scaling)";
  }
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const std::string layer = " of layer " + std::to_string(i);
    const AttentionSpec& of_a = a.layers[i].attention();
    const AttentionSpec& of_b = b.layers[i].attention();
    if (!same_window(a, of_a.window, of_b.window)) return "the sliding window" + layer;
    if (!same_attention(of_a, of_b)) return "the attention" + layer;
    if (!same_feed_forward(a.layers[i], b.layers[i])) return "the feed-forward" + layer;
  }
  return {};
}

// ---- keys and tensors ----

class Exporter {
 public:
  Exporter(const std::string& model_dir,
           const GgufArchitecture& gguf,
           const Architecture& architecture,
           const weights::Checkpoint& checkpoint,
           const json::Value& config)
      : model_dir_(model_dir),
        gguf_(gguf),
        architecture_(architecture),
        arch_(architecture.arch),
        checkpoint_(checkpoint),
        config_(config) {}

  Status add_all(const std::string& name);
  // REQUIRES: add_all().
  Status check() const;

  GgufExport out;

 private:
  std::string key(std::string_view name) const {
    return std::string(gguf_.name) + "." + std::string(name);
  }
  void add(std::string_view name, std::uint32_t value) { out.keys.add_u32(key(name), value); }
  void add_real(std::string_view name, double value) {
    out.keys.add_f32(key(name), static_cast<float>(value));
  }

  void add_sizes();
  void add_experts();
  void add_windows();
  void add_rope();
  void add_multipliers();
  Status add_tensors();
  // `otherwise`: another name under which it may lie.
  Status add_tensor(const std::string& name, const std::string& otherwise);
  void add_factors(std::string_view name, std::vector<float> values);

  const std::string& model_dir_;
  const GgufArchitecture& gguf_;
  const Architecture& architecture_;
  const ArchSpec& arch_;
  const weights::Checkpoint& checkpoint_;
  const json::Value& config_;
  std::map<std::string, std::size_t> placed_;  // names in the file -> out.tensors
};

Status Exporter::add_all(const std::string& name) {
  out.vocab_size = arch_.vocab_size;
  out.n_layers = arch_.n_layers();
  out.keys.add_text("general.architecture", gguf_.name);
  out.keys.add_text("general.type", "model");
  out.keys.add_text("general.name", name);
  if (arch_.ropes.empty())
    return refused(model_dir_, "a GGUF file cannot say that there is no rotary embedding");
  add_sizes();
  if (arch_.layers.front().has_experts()) add_experts();
  add_windows();
  add_rope();
  add_multipliers();
  return add_tensors();
}

void Exporter::add_sizes() {
  const AttentionSpec& attention = arch_.layers.front().attention();
  add("vocab_size", arch_.vocab_size);
  add("context_length", arch_.max_positions);
  add("embedding_length", arch_.hidden_size);
  add("block_count", arch_.n_layers());
  // With experts everywhere no layer has this size.
  const json::Value* const inner = config_.find("intermediate_size");
  add("feed_forward_length",
      inner == nullptr ? 0 : static_cast<std::uint32_t>(inner->to_uint64().value_or(0)));
  add("attention.head_count", attention.n_heads);
  add("attention.head_count_kv", attention.n_kv_heads);
  add("attention.key_length", attention.head_dim);
  add("attention.value_length", attention.head_dim);
  add_real("attention.layer_norm_rms_epsilon", arch_.norm.epsilon);
}

void Exporter::add_experts() {
  const ExpertsSpec& experts = arch_.layers.front().experts();
  out.n_experts = experts.n_experts;
  add("expert_count", experts.n_experts);
  add("expert_used_count", experts.n_used);
  add("expert_feed_forward_length", experts.expert.intermediate);
  if (experts.shared) add("expert_shared_feed_forward_length", experts.shared->intermediate);
}

void Exporter::add_windows() {
  const auto window = [&](std::size_t i) { return arch_.layers[i].attention().window; };
  std::uint32_t size = 0;
  for (std::size_t i = 0; i < arch_.layers.size(); ++i) size = std::max(size, window(i));
  // Of phi3 the value 0 tells programs something, too.
  if (size == 0 && gguf_.name != "phi3") return;
  if (gguf_.name == "llama") return;  // has no such key; check() tells whether that matters
  add("attention.sliding_window", size);
  if (gguf_.name != "gemma3" || size == 0) return;
  // Every so many layers one sees everything.
  constexpr std::uint32_t kUsualPattern = 6;
  const auto fits = [&](std::uint32_t pattern) {
    for (std::size_t i = 0; i < arch_.layers.size(); ++i) {
      if ((window(i) == 0) != ((i + 1) % pattern == 0)) return false;
    }
    return true;
  };
  if (fits(kUsualPattern)) return;
  for (std::uint32_t pattern = 2; pattern <= arch_.n_layers(); ++pattern) {
    if (!fits(pattern)) continue;
    add("attention.sliding_window_pattern", pattern);
    return;
  }
}

void Exporter::add_factors(std::string_view name, std::vector<float> values) {
  const std::uint64_t n = values.size();
  GgufExportTensor made;
  made.tensor = {std::string(name), gguf::find_tensor_type("F32"), {n}};
  made.values = std::move(values);
  out.tensors.push_back(std::move(made));
}

void Exporter::add_rope() {
  const RopeSpec& rope = arch_.ropes.front();
  constexpr double kUsualLocalTheta = 1e4;
  add("rope.dimension_count", rope.rotary_dim);
  add_real("rope.freq_base", rope.theta);
  if (arch_.ropes.size() > 1 && arch_.ropes[1].theta != kUsualLocalTheta)
    add_real("rope.freq_base_swa", arch_.ropes[1].theta);
  const auto add_trained = [&] {
    add("rope.scaling.original_context_length",
        static_cast<std::uint32_t>(rope.original_max_positions));
  };
  const auto add_type = [&](std::string_view type) {
    out.keys.add_text(key("rope.scaling.type"), type);
  };
  switch (rope.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamic:  // check() tells
      break;
    case RopeScaling::kLinear:
      add_type("linear");
      add_real("rope.scaling.factor", rope.factor);
      break;
    case RopeScaling::kYarn:
      add_type("yarn");
      add_real("rope.scaling.factor", rope.factor);
      add_trained();
      add_real("rope.scaling.yarn_beta_fast", rope.beta_fast);
      add_real("rope.scaling.yarn_beta_slow", rope.beta_slow);
      break;
    case RopeScaling::kLlama3: {
      // What the plain frequencies are divided by.
      RopeSpec plain = rope;
      plain.scaling = RopeScaling::kNone;
      std::vector<float> factors(rope.rotary_dim / 2);
      std::vector<float> scaled(factors.size());
      rope_frequencies(plain, 1, factors);
      rope_frequencies(rope, 1, scaled);
      for (std::size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
      add_factors(kGgufRopeFactors, std::move(factors));
      break;
    }
    case RopeScaling::kLongRope: {
      if (gguf_.name != "phi3") add_type("longrope");
      add_trained();
      add_real("rope.scaling.attn_factor", rope.attention_factor);
      add_factors(kGgufLongFactors, {rope.long_factor.begin(), rope.long_factor.end()});
      add_factors(kGgufShortFactors, {rope.short_factor.begin(), rope.short_factor.end()});
      break;
    }
  }
}

void Exporter::add_multipliers() {
  const AttentionSpec& attention = arch_.layers.front().attention();
  if (attention.soft_cap != 0.0F) add_real("attn_logit_softcapping", attention.soft_cap);
  if (arch_.head.soft_cap != 0.0F) add_real("final_logit_softcapping", arch_.head.soft_cap);
  if (gguf_.name != "granite") return;
  add_real("attention.scale", attention.scale);
  add_real("embedding_scale", arch_.embedding.scale);
  add_real("residual_scale", arch_.residual_multiplier);
  add_real("logit_scale", 1.0 / static_cast<double>(arch_.head.scale));
}

Status Exporter::add_tensors() {
  for (const auto& [name, otherwise] : names_of(architecture_.tensors))
    COXSWAIN_RETURN_IF_ERROR(add_tensor(name, otherwise));
  for (const GgufExportTensor& each : out.tensors) {
    if (each.stored.size() > 1 &&
        (each.stored.size() != out.n_experts || std::ranges::count(each.stored, "") > 0))
      return refused(model_dir_, "the layer of \"" + each.tensor.name + "\" has not all experts");
  }
  return {};
}

Status Exporter::add_tensor(const std::string& name, const std::string& otherwise) {
  std::string stored;
  for (const std::string& each : {name, otherwise}) {
    for (const std::string& prefix : architecture_.tensors.prefixes) {
      if (stored.empty() && !each.empty() && checkpoint_.find(prefix + each))
        stored = prefix + each;
    }
  }
  if (stored.empty()) return invalid_argument(model_dir_ + ": tensor \"" + name + "\" is missing");
  const weights::TensorInfo& info = *checkpoint_.find(stored).tensor;
  const auto type = weights::float_type(info.type);
  if (!type)
    return invalid_argument("tensor \"" + stored + "\" has type " + std::string(info.type_name()) +
                            ", not F32, F16 or BF16");
  const GgufPlace place =
      place_in_gguf(gguf_, name.starts_with("lm_head.") ? name : "model." + name);
  if (place.name.empty())
    return refused(model_dir_,
                   "tensor \"" + stored + "\" has no name in GGUF files of the architecture " +
                       std::string(gguf_.name));
  if (const auto known = placed_.find(place.name); known != placed_.end()) {
    GgufExportTensor& all = out.tensors[known->second];
    const std::uint64_t expert = place.expert.value_or(0);
    if (expert >= all.stored.size()) all.stored.resize(expert + 1);
    all.stored[expert] = stored;
    all.tensor.shape.front() = all.stored.size();
    return {};
  }
  GgufExportTensor made;
  std::vector<std::uint64_t> shape = info.shape;
  const bool is_row = place.part == "ffn_gate_inp_shexp";
  if (is_row && shape.size() == 2) shape.erase(shape.begin());
  // Converters leave what is small as float32, and programs count on that.
  const bool stays_float = shape.size() == 1 || place.part == "ffn_gate_inp";
  made.tensor = {place.name,
                 gguf::find_tensor_type(stays_float ? "F32" : weights::name_of(info.type)),
                 std::move(shape)};
  if (gguf_.interleaves && (place.part == "attn_q" || place.part == "attn_k")) {
    made.change = GgufChange::kInterleaved;
    made.head_rows = arch_.layers.front().attention().head_dim;
  }
  if (gguf_.adds_norm_offset && place.name.ends_with("norm.weight"))
    made.change = GgufChange::kPlusOne;
  if (place.expert) {
    made.stored.resize(*place.expert + 1);
    made.tensor.shape.insert(made.tensor.shape.begin(), made.stored.size());
  }
  made.stored.resize(std::max<std::size_t>(made.stored.size(), 1));
  made.stored.back() = stored;
  placed_.emplace(place.name, out.tensors.size());
  out.tensors.push_back(std::move(made));
  return {};
}

Status Exporter::check() const {
  std::vector<gguf::NewTensor> tensors;
  std::uint64_t n_bytes = 0;
  for (const GgufExportTensor& each : out.tensors) {
    tensors.push_back(each.tensor);
    n_bytes += each.tensor.n_bytes() + gguf::kWrittenAlignment;
  }
  const std::string front = gguf::front_of(out.keys, tensors);
  COXSWAIN_ASSIGN_OR_RETURN(const gguf::Header header,
                            gguf::Header::parse(front, front.size() + n_bytes));
  const auto find = [&](std::string_view name) -> const gguf::TensorInfo* {
    const auto found = std::ranges::find(header.tensors(), name, &gguf::TensorInfo::name);
    return found == header.tensors().end() ? nullptr : &*found;
  };
  const auto floats = [&](std::string_view name) -> Result<std::vector<float>> {
    for (const GgufExportTensor& each : out.tensors) {
      if (each.tensor.name == name) return each.values;
    }
    return std::vector<float>();
  };
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value config,
                            gguf_config(model_dir_, header, gguf_, {find, floats}));
  COXSWAIN_ASSIGN_OR_RETURN(const Architecture read, read_architecture(config));
  const std::string what = difference(arch_, read.arch);
  if (!what.empty())
    return refused(
        model_dir_,
        "a GGUF file of the architecture " + std::string(gguf_.name) + " cannot say " + what);
  const auto found = names_of(read.tensors);
  for (const auto& [name, otherwise] : names_of(architecture_.tensors)) {
    if (!found.contains(name))
      return refused(model_dir_,
                     "models of GGUF's architecture " + std::string(gguf_.name) +
                         " have no tensor \"" + name + "\"");
  }
  return {};
}

// A head of its own wins over a config that ties it, as where the folder is loaded.
Status split_untied_head(const weights::Checkpoint& checkpoint, Architecture& architecture) {
  TensorMap& map = architecture.tensors;
  WeightReader reader(checkpoint, map.prefixes, {}, nullptr);
  COXSWAIN_ASSIGN_OR_RETURN(const bool differs,
                            reader.other_name_differs(map.embedding.table.rows.front()));
  if (!differs) return {};
  map.head.matrix = map.embedding.table;
  map.head.matrix.rows.front().tensor = map.embedding.table.rows.front().otherwise;
  architecture.arch.head.tied = false;
  return {};
}

}  // namespace

Result<GgufExport> export_to_gguf(const std::string& model_dir,
                                  const std::string& name,
                                  std::optional<TokenId> tokenizer_eos) {
  COXSWAIN_ASSIGN_OR_RETURN(const ModelFiles files, ModelFiles::open(model_dir));
  if (files.stored_quant().method != weights::StoredMethod::kNone)
    return invalid_argument(model_dir + " is stored as " + quantize_name(files.stored_quant()) +
                            " already; quantise the model that it was made from");
  COXSWAIN_ASSIGN_OR_RETURN(Architecture architecture, files.architecture());
  const GgufArchitecture* const gguf = gguf_architecture_of(architecture.arch.model_type);
  if (gguf == nullptr) {
    std::string known;
    for (const GgufArchitecture& each : gguf_architectures())
      known += ", " + std::string(each.model_type);
    return refused(model_dir,
                   "models of the family " + architecture.arch.model_type +
                       " are not written as GGUF; these are: mistral, mixtral" + known);
  }
  COXSWAIN_ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint, files.open_weights());
  COXSWAIN_RETURN_IF_ERROR(split_untied_head(checkpoint, architecture));
  Exporter exporter(model_dir, *gguf, architecture, checkpoint, files.config());
  COXSWAIN_RETURN_IF_ERROR(exporter.add_all(name));
  COXSWAIN_RETURN_IF_ERROR(exporter.check());
  LoadOptions options;
  options.model_dir = model_dir;
  options.tokenizer_eos = tokenizer_eos;
  ModelInfo info;
  info.vocab_size = architecture.arch.vocab_size;
  COXSWAIN_RETURN_IF_ERROR(read_end_tokens(options, files.config(), files.config_path(), info));
  exporter.out.end_tokens = std::move(info.eos_token_ids);
  return std::move(exporter.out);
}

}  // namespace coxswain::model
