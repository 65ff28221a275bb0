#include "model/guess_heads.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json/json.h"
#include "model/random_checkpoint.h"
#include "model/single_sequence.h"
#include "model/test_heads.h"
#include "model/test_models.h"

namespace coxswain::model {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kHidden = 48;
constexpr std::size_t kVocab = 61;

LoadOptions options_of(const std::string& dir) {
  LoadOptions options;
  options.model_dir = dir;
  options.dtype = tensor::DType::kF32;
  options.kernels = kernels::select_kernels("").value();
  return options;
}

std::unique_ptr<Model> load_model(const std::string& dir) {
  auto model = Model::load(options_of(dir));
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? std::move(model).value() : nullptr;
}

Result<std::unique_ptr<GuessHeads>> load_heads(const std::string& dir, Model& model) {
  return GuessHeads::load(options_of(dir), model, 4, 1);
}

using Vector = std::vector<double>;

Vector times(const std::vector<float>& matrix, const Vector& x) {
  Vector out(matrix.size() / x.size());
  for (std::size_t i = 0; i < matrix.size(); ++i) out[i / x.size()] += matrix[i] * x[i % x.size()];
  return out;
}

Vector normed(const Vector& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  Vector out = x;
  for (double& value : out) value /= std::sqrt(sum / static_cast<double>(x.size()) + 1e-6);
  return out;
}

// The formulas in double: logits of each round.
std::vector<Vector> plain_medusa(const TestHeads& heads,
                                 const TestTensors& t,
                                 const Vector& hidden,
                                 const std::vector<float>& projection) {
  std::vector<Vector> out;
  for (std::size_t i = 0; i < heads.n_heads; ++i) {
    Vector x = hidden;
    for (std::size_t layer = 0; layer < heads.n_layers; ++layer) {
      const std::string name = std::to_string(i) + "." + std::to_string(layer) + ".linear.";
      const Vector y = times(t.at(name + "weight"), x);
      for (std::size_t k = 0; k < x.size(); ++k) {
        const double z = y[k] + t.at(name + "bias")[k];
        x[k] += z / (1 + std::exp(-z));
      }
    }
    const std::string own = std::to_string(i) + "." + std::to_string(heads.n_layers) + ".weight";
    out.push_back(times(heads.own_projection ? t.at(own) : projection, x));
  }
  return out;
}

std::vector<Vector> plain_mlp(const TestHeads& heads,
                              const TestTensors& t,
                              Vector state,
                              TokenId token) {
  std::vector<Vector> out;
  const double share = std::pow(0.5, 0.5 / static_cast<double>(heads.n_heads));
  if (heads.scaled) {
    state = normed(state);
    for (double& value : state) value /= std::sqrt(2.0);
  }
  for (std::size_t i = 0; i < heads.n_heads; ++i) {
    const auto named = [&](const std::string& part, std::size_t of_tied, const char* kind) {
      return t.at("speculator." + part + "." + std::to_string(heads.tied ? of_tied : i) + kind);
    };
    state = times(named("proj", std::min<std::size_t>(i, 1), ".weight"), state);
    const std::size_t inner = state.size();
    const double of_token =
        std::sqrt(1 - share * share) * std::sqrt(static_cast<double>(inner) / 2);
    const std::vector<float> embedding = named("emb", 0, ".weight");
    for (std::size_t k = 0; k < inner; ++k)
      state[k] =
          state[k] * share + of_token * embedding[static_cast<std::size_t>(token) * inner + k];
    state = normed(state);
    for (std::size_t k = 0; k < inner; ++k) {
      const double x = state[k] * named("ln", 0, ".weight")[k] + named("ln", 0, ".bias")[k];
      state[k] = x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    }
    out.push_back(times(named("head", 0, ".weight"), state));
    token = static_cast<TokenId>(std::ranges::max_element(out.back()) - out.back().begin());
  }
  return out;
}

class Heads : public ::testing::TestWithParam<TestHeads> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        write_random_checkpoint(small_config(R"({"model_type":"llama"})"),
                                {.dir = base_.path(), .type = tensor::DType::kF32, .progress = {}})
            .ok());
    model_ = load_model(base_.path());
    ASSERT_NE(model_, nullptr);
    ASSERT_TRUE(model_->reserve(8, 4, exec_).ok());
    tensors_ = write_heads(folder_, GetParam(), kHidden, kVocab);
  }

  // The model's projection, read back through unit vectors.
  std::vector<float> projection() {
    std::vector<float> out(kVocab * kHidden);
    std::vector<float> logits(kVocab);
    for (std::size_t k = 0; k < kHidden; ++k) {
      std::vector<float> unit(kHidden);
      unit[k] = 1;
      EXPECT_TRUE(project(*model_, unit, logits, exec_).ok());
      for (std::size_t v = 0; v < kVocab; ++v) out[v * kHidden + k] = logits[v];
    }
    return out;
  }

  base::TempFolder base_;
  base::TempFolder folder_;
  kernels::ExecContext exec_{1};
  std::unique_ptr<Model> model_;
  TestTensors tensors_;
};

TEST_P(Heads, GuessByTheirFormula) {
  const auto heads = load_heads(folder_.path(), *model_);
  ASSERT_TRUE(heads.ok()) << heads.status().message();
  EXPECT_GT((*heads)->bytes(), 4 * kHidden * kHidden);
  EXPECT_EQ((*heads)->config().n_heads, GetParam().n_heads);
  constexpr std::size_t kRows = 3;
  std::mt19937 random(3);
  std::normal_distribution<float> any;
  std::vector<float> hidden;
  for (std::size_t i = 0; i < kRows * kHidden; ++i) hidden.push_back(any(random));
  std::vector<TokenId> tokens{5, 60, 0};
  std::vector<std::vector<Vector>> expected;
  for (std::size_t r = 0; r < kRows; ++r) {
    const Vector row(hidden.begin() + static_cast<std::ptrdiff_t>(r * kHidden),
                     hidden.begin() + static_cast<std::ptrdiff_t>((r + 1) * kHidden));
    expected.push_back(GetParam().is_mlp ? plain_mlp(GetParam(), tensors_, row, tokens[r])
                                         : plain_medusa(GetParam(), tensors_, row, projection()));
  }
  (*heads)->begin(hidden);
  std::vector<float> logits(kRows * kVocab);
  for (std::size_t round = 0; round < GetParam().n_heads; ++round) {
    ASSERT_TRUE((*heads)->run(tokens, logits, exec_).ok());
    for (std::size_t r = 0; r < kRows; ++r) {
      const Vector& want = expected[r][round];
      for (std::size_t v = 0; v < kVocab; ++v)
        ASSERT_NEAR(logits[r * kVocab + v], want[v], 1e-4) << round << " " << r << " " << v;
      tokens[r] = static_cast<TokenId>(std::ranges::max_element(want) - want.begin());
    }
  }
  EXPECT_FALSE((*heads)->run(tokens, logits, exec_).ok()) << "no round is left";
}

TEST_P(Heads, AreNoModel) {
  const auto model = Model::load(options_of(folder_.path()));
  EXPECT_THAT(model.status().message(), HasSubstr("base_model_name_or_path is ../base"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Heads, ::testing::ValuesIn(test_heads()), [](const auto& heads) {
  return heads.param.name;
});

TEST(GuessConfig, WhatIsWrongIsNamed) {
  const base::TempFolder folder;
  const auto message = [&](const std::string& text) {
    folder.write("config.json", text);
    return read_guess_config(folder.path()).status().message();
  };
  EXPECT_EQ(message(R"({"model_type":"llama"})"), "");
  EXPECT_THAT(message(R"({"model_type":"eagle"})"), HasSubstr("EAGLE"));
  EXPECT_THAT(message(R"({"model_type":"llama","architectures":["LlamaForCausalLMEagle3"]})"),
              HasSubstr("EAGLE"));
  EXPECT_THAT(message(R"({"medusa_num_heads":0,"medusa_num_layers":1})"),
              HasSubstr("medusa_num_heads"));
  EXPECT_THAT(message(R"({"medusa_num_heads":2})"), HasSubstr("medusa_num_layers"));
  EXPECT_THAT(message(R"({"model_type":"mlp_speculator"})"), HasSubstr("n_predict"));
}

// ---- trained heads, against PyTorch ----

class TrainedHeads : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedHeads, GuessWhatPyTorchGuesses) {
  const char* source = std::getenv("COXSWAIN_SOURCE_DIR");
  const std::string models = std::string(source == nullptr ? "" : source) + "/models/";
  const std::string dir = models + GetParam();
  ASSERT_TRUE(std::filesystem::exists(dir + "/golden.json")) << "COXSWAIN_SOURCE_DIR, " << dir;
  const auto model = load_model(models + "demo");
  ASSERT_NE(model, nullptr);
  const auto heads = load_heads(dir, *model);
  ASSERT_TRUE(heads.ok()) << heads.status().message();
  const auto golden = json::parse_file(dir + "/golden.json", std::size_t{1} << 24);
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  kernels::ExecContext exec(1);
  auto sequence =
      SingleSequence::create(*model, exec, {.tokens_max = 2048, .chunk_tokens_max = 2048});
  ASSERT_TRUE(sequence.ok()) << sequence.status().message();
  const auto ids_of = [](const json::Value& list) {
    std::vector<TokenId> out;
    for (const json::Value& id : list.as_array())
      out.push_back(static_cast<TokenId>(*id.to_double()));
    return out;
  };
  std::size_t n_guesses = 0;
  for (const json::Value& entry : golden->find("entries")->as_array()) {
    const std::vector<TokenId> context = ids_of(*entry.find("context"));
    sequence->restart(static_cast<std::uint32_t>(context.size()));
    ASSERT_TRUE(sequence->feed(context).ok());
    const std::uint32_t last = static_cast<std::uint32_t>(context.size() - 1);
    std::vector<float> hidden(model->info().hidden_size);
    ASSERT_TRUE(
        model->final_hidden(sequence->hidden(context.size()), {&last, 1}, hidden, exec).ok());
    (*heads)->begin(hidden);
    std::vector<TokenId> token{static_cast<TokenId>(*entry.find("next")->to_double())};
    std::vector<float> logits(model->info().vocab_size);
    const std::vector<TokenId> guesses = ids_of(*entry.find("guesses"));
    for (std::size_t round = 0; round < guesses.size(); ++round) {
      ASSERT_TRUE((*heads)->run(token, logits, exec).ok());
      token[0] = static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
      EXPECT_EQ(token[0], guesses[round]);
      for (const json::Value& top : entry.find("top")->as_array()[round].as_array()) {
        const json::Array& pair = top.as_array();
        EXPECT_NEAR(
            logits[static_cast<std::size_t>(*pair[0].to_double())], *pair[1].to_double(), 2e-3);
      }
      ++n_guesses;
    }
  }
  EXPECT_GT(n_guesses, 10U);
}

INSTANTIATE_TEST_SUITE_P(Demo,
                         TrainedHeads,
                         ::testing::Values("demo-medusa", "demo-medusa2", "demo-mlp-speculator"),
                         [](const auto& name) {
                           std::string out = name.param;
                           std::ranges::replace(out, '-', '_');
                           return out;
                         });

}  // namespace
}  // namespace coxswain::model
