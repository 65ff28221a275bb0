#include "runner/fake_model.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace coxswain::runner {
namespace {

std::uint64_t mixed(std::uint64_t value) {  // splitmix64
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

class FakeModel final : public model::Model {
 public:
  explicit FakeModel(const FakeModelOptions& options) : options_(options) {
    info_.model_type = "fake";
    info_.dtype = "float32";
    info_.vocab_size = options.vocab_size;
    info_.hidden_size = 4;
    info_.n_layers = options.n_groups;
    info_.max_position_embeddings = 512;
    info_.eos_token_ids = {2};
    info_.fingerprint = 7;
    for (std::uint32_t g = 0; g < options.n_groups; ++g) {
      info_.kv_groups.push_back({.layers = {g}});
      info_.kv_layers.push_back({.group = g, .n_kv_heads = 1, .k_head_dim = 1, .v_head_dim = 1});
    }
  }

  const model::ModelInfo& info() const override { return info_; }
  Status reserve(std::size_t, std::size_t, kernels::ExecContext&) override { return {}; }
  std::uint64_t workspace_bytes(std::size_t, std::size_t, std::size_t) const override { return 0; }

  Status forward(const model::Batch& batch,
                 LayerRange,
                 std::span<float> hidden,
                 kvstore::KvStore& kv,
                 kernels::ExecContext&) override {
    for (const model::SequenceRows& rows : batch.sequences) {
      if (static_cast<std::size_t>(rows.first_position) + rows.n_rows > options_.n_positions) {
        return invalid_argument("a position beyond the table");
      }
    }
    for (const model::SequenceRows& rows : batch.sequences) {
      for (std::size_t r = 0; r < rows.n_rows; ++r) {
        const auto position = static_cast<std::size_t>(rows.first_position) + r;
        for (std::uint32_t g = 0; g < options_.n_groups; ++g)
          slot(kv, rows, g, position) = static_cast<float>(batch.tokens[rows.first_row + r]);
      }
    }
    for (const model::SequenceRows& rows : batch.sequences) {
      for (std::size_t r = 0; r < rows.n_rows; ++r) {
        const auto position = static_cast<std::size_t>(rows.first_position) + r;
        std::uint64_t hash = rows.rope_length;
        for (std::size_t p = 0; p <= position; ++p) {
          for (std::uint32_t g = 0; g < options_.n_groups; ++g)
            hash = mixed(hash ^ static_cast<std::uint64_t>(slot(kv, rows, g, p)));
        }
        float* out = hidden.data() + (rows.first_row + r) * info_.hidden_size;
        std::memcpy(out, &hash, sizeof hash);
        out[2] = static_cast<float>(batch.tokens[rows.first_row + r]);
      }
    }
    return {};
  }

  Status logits(std::span<const float> hidden,
                std::span<const std::uint32_t> rows,
                std::span<float> out,
                kernels::ExecContext&) override {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const float* in = hidden.data() + rows[r] * info_.hidden_size;
      std::uint64_t hash = 0;
      std::memcpy(&hash, in, sizeof hash);
      const bool is_nan = options_.nan_after && in[2] == static_cast<float>(*options_.nan_after);
      for (std::uint32_t id = 0; id < info_.vocab_size; ++id) {
        const float value = static_cast<float>(mixed(hash + id) >> 40) * 0x1p-21F;  // [0, 8)
        const bool best = options_.favourite == static_cast<TokenId>(id);
        out[r * info_.vocab_size + id] = is_nan ? std::numeric_limits<float>::quiet_NaN()
                                         : best ? 20.0F
                                                : value;
      }
    }
    return {};
  }

  Status final_hidden(std::span<const float> hidden,
                      std::span<const std::uint32_t> rows,
                      std::span<float> out,
                      kernels::ExecContext&) override {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const float* in = hidden.data() + rows[r] * info_.hidden_size;
      for (std::uint32_t i = 0; i < info_.hidden_size; ++i)
        out[r * info_.hidden_size + i] = i < 2 ? 0.0F : in[i];
    }
    return {};
  }

 private:
  static float& slot(kvstore::KvStore& kv,
                     const model::SequenceRows& rows,
                     std::uint32_t group,
                     std::size_t position) {
    const kernels::KvLayerView view = kv.layer(group);
    const BlockId block = rows.block_tables[group][position / view.block_tokens];
    std::byte* begin = view.k + block * view.k_block_stride_bytes;
    return reinterpret_cast<float*>(begin)[position % view.block_tokens];
  }

  FakeModelOptions options_;
  model::ModelInfo info_;
};

class FakeCodec final : public TextCodec {
 public:
  class FakeStream final : public Stream {
   public:
    explicit FakeStream(const FakeCodec& codec, bool skip_special)
        : codec_(codec), skip_special_(skip_special) {}
    std::string push(TokenId token) override {
      if (token == 3) return std::exchange(half_, true) ? "\xEF\xBF\xBD" : "";
      const bool had_half = std::exchange(half_, false);
      if (token == 4) return had_half ? "\xC3\xA9" : "\xEF\xBF\xBD";
      const std::string broken = had_half ? "\xEF\xBF\xBD" : "";
      return codec_.is_special(token) && skip_special_ ? broken : broken + codec_.token_text(token);
    }
    std::string finish() override { return std::exchange(half_, false) ? "\xEF\xBF\xBD" : ""; }

   private:
    const FakeCodec& codec_;
    bool skip_special_;
    bool half_ = false;
  };

  Result<std::vector<TokenId>> encode(std::string_view text, bool) const override {
    std::vector<TokenId> out;
    for (const char c : text) out.push_back(5 + (c - 'a'));
    return out;
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    FakeStream stream(*this, skip_special);
    std::string out;
    for (const TokenId id : ids) out += stream.push(id);
    return out + stream.finish();
  }
  std::unique_ptr<Stream> stream(std::span<const TokenId>, bool skip_special) const override {
    return std::make_unique<FakeStream>(*this, skip_special);
  }
  std::string token_text(TokenId id) const override {
    if (is_special(id)) return "<" + std::to_string(id) + ">";
    if (id < 5) return "\xEF\xBF\xBD";
    return std::string(1, static_cast<char>('a' + (id - 5) % 26));
  }
  bool is_special(TokenId id) const override { return id >= 0 && id < 3; }
  std::string token_bytes(TokenId id) const override {
    if (is_special(id)) return {};
    return id == 3 ? "\xC3" : id == 4 ? "\xA9" : token_text(id);
  }
};

}  // namespace

std::unique_ptr<model::Model> make_fake_model(const FakeModelOptions& options) {
  return std::make_unique<FakeModel>(options);
}

std::shared_ptr<const TextCodec> make_fake_codec() {
  return std::make_shared<FakeCodec>();
}

}  // namespace coxswain::runner
