// What is decided, what is written, and runs over the model that comes along. tests/quantize decodes the files once
// more, without any of this code.

#include "quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "model/stored_quant_config.h"
#include "quantize/awq.h"
#include "quantize/command_line.h"
#include "quantize/gptq.h"
#include "quantize/output_folder.h"
#include "tensor/dtype.h"
#include "weights/checkpoint.h"

namespace coxswain::quantize {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// The same numbers on every machine, from -1 to 1.
float noise(std::uint64_t i) {
  std::uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<float>(static_cast<double>(x >> 11) * 0x1p-52 - 1.0);
}

Weights weights_of(std::uint64_t n, std::uint64_t k) {
  Weights out{n, k, std::vector<float>(n * k)};
  for (std::uint64_t i = 0; i < n * k; ++i) out.values[i] = noise(i) * 0.1F;
  return out;
}

QuantisedMatrix rounded(const Weights& weights, NumberKind kind, std::uint64_t group_size) {
  QuantisedMatrix out = QuantisedMatrix::of(kind, weights.n, weights.k, group_size);
  for (std::uint64_t i = 0; i < weights.n; ++i) round_row(weights.row(i), i, out);
  return out;
}

InputMoments moments_of(const std::vector<float>& rows,
                        std::uint64_t k,
                        std::size_t n_threads = 1) {
  InputMoments out(k);
  kernels::ExecContext exec(n_threads);
  EXPECT_TRUE(out.add(rows.data(), k, rows.size() / k, **kernels::select_kernels(""), exec).ok());
  return out;
}

// Inputs that go together: each is a mixture of a few hidden ones.
std::vector<float> mixed_inputs(std::uint64_t n_rows, std::uint64_t k) {
  constexpr std::uint64_t kHidden = 6;
  std::vector<float> out(n_rows * k);
  for (std::uint64_t t = 0; t < n_rows; ++t) {
    for (std::uint64_t i = 0; i < k; ++i) {
      float sum = 0.1F * noise(7'000'000 + t * k + i);
      for (std::uint64_t h = 0; h < kHidden; ++h)
        sum += noise(1'000'000 + t * kHidden + h) * noise(2'000'000 + h * k + i);
      out[t * k + i] = sum;
    }
  }
  return out;
}

double output_error(const Weights& weights, const QuantisedMatrix& matrix, const InputMoments& of) {
  double out = 0;
  std::vector<float> off(weights.k);
  for (std::uint64_t i = 0; i < weights.n; ++i) {
    for (std::uint64_t j = 0; j < weights.k; ++j) off[j] = weights.row(i)[j] - matrix.value(i, j);
    out += of.error_of(off);
  }
  return out;
}

TEST(Matrix, FloatsOfEightBits) {
  EXPECT_EQ(float8_value(0x38), 1.0F);
  EXPECT_EQ(float8_value(0x7E), 448.0F);
  EXPECT_EQ(float8_value(0x01), 0x1p-9F);
  EXPECT_TRUE(std::isnan(float8_value(0xFF)));
  for (int code = 0; code < 256; ++code) {
    if (code % 128 == 127) continue;
    EXPECT_EQ(float8_code(float8_value(static_cast<std::uint8_t>(code))), code);
  }
  EXPECT_EQ(float8_code(1000.0F), 0x7E);
  EXPECT_EQ(float8_code(-1000.0F), 0xFE);
  // Halfway between 0x38 and 0x39, and between 0x39 and 0x3A: to the even one.
  EXPECT_EQ(float8_code(1.0625F), 0x38);
  EXPECT_EQ(float8_code(1.1875F), 0x3A);
}

// How far the nearest value of a kind is.
float nearest_of(NumberKind kind, float value, float scale) {
  float least = std::numeric_limits<float>::infinity();
  for (int code = 0; code < (kind == NumberKind::kInt4 ? 16 : 256); ++code) {
    const float off = std::abs(value_of(kind, static_cast<std::uint8_t>(code), scale) - value);
    if (!std::isnan(off)) least = std::min(least, off);
  }
  return least;
}

TEST(Matrix, RoundsToTheNearestWithinTheRange) {
  const Weights weights = weights_of(5, 70);
  for (const NumberKind kind : {NumberKind::kInt4, NumberKind::kInt8, NumberKind::kFloat8}) {
    const QuantisedMatrix matrix = rounded(weights, kind, 32);
    ASSERT_EQ(matrix.n_groups(), 3U);
    for (std::uint64_t at = 0; at < weights.values.size(); ++at) {
      const float value = weights.values[at];
      const float off = std::abs(matrix.value(at / 70, at % 70) - value);
      ASSERT_LE(off, nearest_of(kind, value, matrix.scale(at / 70, at % 70 / 32)) + 1e-7F);
    }
  }
}

TEST(Matrix, ScalesOfIntegersAreFloat16AndZerosStayZero) {
  const QuantisedMatrix matrix = rounded(weights_of(3, 64), NumberKind::kInt4, 16);
  for (const float scale : matrix.scales)
    EXPECT_EQ(tensor::f16_to_float(tensor::float_to_f16(scale)), scale);
  const QuantisedMatrix zeros = rounded({1, 8, std::vector<float>(8)}, NumberKind::kInt8, 0);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(zeros.value(0, i), 0.0F);
}

TEST(Gptq, IndependentInputsLeaveRoundingAsItIs) {
  constexpr std::uint64_t kInputs = 32;
  std::vector<float> rows(kInputs * kInputs);
  for (std::uint64_t i = 0; i < kInputs; ++i) rows[i * kInputs + i] = 2.0F;
  const InputMoments moments = moments_of(rows, kInputs);
  const Weights weights = weights_of(18, kInputs);
  kernels::ExecContext exec(1);
  const auto matrix = gptq(weights, moments, {.kind = NumberKind::kInt4, .group_size = 16}, exec);
  ASSERT_TRUE(matrix.ok());
  const QuantisedMatrix expected = rounded(weights, NumberKind::kInt4, 16);
  EXPECT_EQ(matrix->codes, expected.codes);
  EXPECT_EQ(matrix->scales, expected.scales);
}

TEST(Gptq, OutputsAreNearerThanRoundingLeavesThem) {
  constexpr std::uint64_t kInputs = 96;
  const InputMoments moments = moments_of(mixed_inputs(400, kInputs), kInputs);
  const Weights weights = weights_of(40, kInputs);
  const double of_rounding =
      output_error(weights, rounded(weights, NumberKind::kInt4, 32), moments);
  for (const bool act_order : {false, true}) {
    kernels::ExecContext exec(1);
    const auto matrix = gptq(weights, moments, {.group_size = 32, .act_order = act_order}, exec);
    ASSERT_TRUE(matrix.ok());
    EXPECT_LT(output_error(weights, *matrix, moments), 0.5 * of_rounding) << act_order;
  }
}

TEST(Gptq, ThreadsDoNotCount) {
  constexpr std::uint64_t kInputs = 80;
  const Weights weights = weights_of(50, kInputs);
  std::vector<std::vector<std::uint8_t>> codes;
  for (const std::size_t n_threads : {1U, 3U}) {
    const InputMoments moments = moments_of(mixed_inputs(600, kInputs), kInputs, n_threads);
    kernels::ExecContext exec(n_threads);
    const auto matrix = gptq(weights, moments, {.group_size = 0, .act_order = true}, exec);
    ASSERT_TRUE(matrix.ok());
    codes.push_back(matrix->codes);
  }
  EXPECT_EQ(codes[0], codes[1]);
}

// One input of each group is large and has small weights: these should get more of the steps.
TEST(Awq, LargeInputsLoseLess) {
  constexpr std::uint64_t kInputs = 64;
  constexpr std::uint64_t kLarge = 13;
  std::vector<float> rows(300 * kInputs);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = noise(5'000'000 + i) * (i % 32 == kLarge ? 30.0F : 1.0F);
  const InputMoments moments = moments_of(rows, kInputs);
  Weights weights = weights_of(20, kInputs);
  for (std::size_t i = kLarge; i < weights.values.size(); i += 32) weights.values[i] *= 0.2F;
  base::ThreadPool pool(2);
  const std::vector<float> divisors =
      search_divisors({&weights}, moments, {NumberKind::kInt4, 32}, pool);
  ASSERT_EQ(divisors.size(), kInputs);
  EXPECT_GT(divisors[kLarge], 2 * divisors[kLarge + 1]);
  AwqFolding folding;
  folding.inputs["w"] = divisors;
  Weights scaled = weights;
  folding.apply("w", scaled);
  EXPECT_EQ(scaled.row(4)[kLarge], weights.row(4)[kLarge] * divisors[kLarge]);
  const QuantisedMatrix rounded_scaled = rounded(scaled, NumberKind::kInt4, 32);
  double error = 0;
  std::vector<float> off(kInputs);
  for (std::uint64_t i = 0; i < weights.n; ++i) {
    for (std::uint64_t j = 0; j < kInputs; ++j)
      off[j] = weights.row(i)[j] - rounded_scaled.value(i, j) / divisors[j];
    error += moments.error_of(off);
  }
  EXPECT_LT(error, 0.5 * output_error(weights, rounded(weights, NumberKind::kInt4, 32), moments));
}

// Every value as our own readers of checkpoints have it.
std::vector<float> read_back(const StoredOptions& options,
                             const std::vector<OutputTensor>& tensors,
                             const std::string& name) {
  const base::TempFolder folder;
  std::vector<weights::TensorDeclaration> declarations;
  declarations.reserve(tensors.size());
  for (const OutputTensor& tensor : tensors) declarations.push_back(tensor.declaration);
  auto writer =
      weights::SafetensorsWriter::create(folder.path() + "/model.safetensors", declarations);
  EXPECT_TRUE(writer.ok());
  for (const OutputTensor& tensor : tensors) EXPECT_TRUE(writer->append(tensor.bytes).ok());
  EXPECT_TRUE(writer->finish().ok());
  auto checkpoint = weights::Checkpoint::open(folder.path());
  EXPECT_TRUE(checkpoint.ok());
  const auto quant = model::parse_stored_quant(quantization_config(options, {"lm_head"}), "config");
  EXPECT_TRUE(quant.ok()) << quant.status().message();
  const Status derived = weights::derive_tensors(*quant, *checkpoint);
  EXPECT_TRUE(derived.ok()) << derived.message();
  const auto at = checkpoint->find(name);
  if (at.derived == nullptr) return {};
  const auto rows = at.derived->open(
      [](const weights::StoredTensor& part, std::uint64_t offset, std::span<std::byte> out) {
        return part.file->read(*part.info, offset, out);
      });
  EXPECT_TRUE(rows.ok());
  const std::uint64_t n = at.tensor->shape[0];
  std::vector<float> out(n * at.tensor->shape[1]);
  EXPECT_TRUE((*rows)->read(0, n, out.data()).ok());
  return out;
}

void expect_read_as_decided(const StoredOptions& options) {
  constexpr std::uint64_t kOutputs = 24;
  constexpr std::uint64_t kInputs = 64;
  const InputMoments moments = moments_of(mixed_inputs(200, kInputs), kInputs);
  kernels::ExecContext exec(1);
  const auto matrix =
      gptq(weights_of(kOutputs, kInputs),
           moments,
           {options.kind, options.group_size, 0.01, options.act_order, options.groups_in_order()},
           exec);
  ASSERT_TRUE(matrix.ok());
  const auto values = read_back(options, stored_tensors(options, "a.b", *matrix), "a.b.weight");
  ASSERT_EQ(values.size(), kOutputs * kInputs);
  for (std::uint64_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], matrix->value(i / kInputs, i % kInputs)) << i;
}

TEST(StoredForm, ReadersFindWhatWasDecided) {
  for (const bool act_order : {false, true}) {
    for (const StoredForm form : {StoredForm::kGptq, StoredForm::kCompressedTensors}) {
      for (const std::uint64_t group : {0U, 16U}) {
        expect_read_as_decided({form, NumberKind::kInt4, group, act_order});
        expect_read_as_decided({form, NumberKind::kInt8, group, act_order});
      }
    }
    expect_read_as_decided({StoredForm::kCompressedTensors, NumberKind::kFloat8, 0, act_order});
  }
}

TEST(StoredForm, ShapesThatDoNotFitAreRefused) {
  const StoredOptions gptq{.form = StoredForm::kGptq, .kind = NumberKind::kInt4};
  EXPECT_THAT(check_shape(gptq, "a.down", 64, 172).message(), HasSubstr("multiples of 8"));
  EXPECT_TRUE(check_shape(gptq, "a.down", 64, 192).ok());
  const StoredOptions packed{.form = StoredForm::kCompressedTensors, .group_size = 128};
  EXPECT_THAT(check_shape(packed, "a.down", 64, 192).message(), HasSubstr("--groupsize 128"));
  EXPECT_TRUE(check_shape(packed, "a.down", 64, 256).ok());
}

TEST(OutputFolder, TakesOverItsOwnUnfinishedFilesAlone) {
  const base::TempFolder folder;
  const std::string path = folder.path() + "/out";
  const auto first = OutputFolder::open(path, "one", 2);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->is_finished(0));
  ASSERT_TRUE(first->write(0, {{{"a", weights::StoredType::kU8, {1}}, {std::byte{7}}}}).ok());
  const auto again = OutputFolder::open(path, "one", 2);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->is_finished(0));
  EXPECT_FALSE(again->is_finished(1));
  EXPECT_EQ(OutputFolder::open(path, "two", 2).status().code(), Code::kFailedPrecondition);
  folder.write("out/quantize_state.json", "");
  std::filesystem::remove(path + "/quantize_state.json");
  EXPECT_THAT(OutputFolder::open(path, "one", 2).status().message(), HasSubstr("is not empty"));
}

class DemoModel : public testing::Test {
 protected:
  QuantizeOptions options(const std::string& name) const {
    QuantizeOptions out;
    out.model_dir = std::string(std::getenv("COXSWAIN_SOURCE_DIR")) + "/models/demo";
    out.output_dir = folder_.path() + "/" + name;
    out.stored.group_size = 64;
    out.samples_max = 2;
    out.sample_tokens_max = 96;
    out.n_threads = 2;
    return out;
  }
  // What is told.
  static std::vector<std::string> run(const QuantizeOptions& options) {
    std::vector<std::string> lines;
    const Status status =
        quantize(options, [&](const std::string& line) { lines.push_back(line); });
    EXPECT_TRUE(status.ok()) << status.message();
    return lines;
  }
  static std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const base::TempFolder folder_;
};

struct Interrupted {};

void interrupt_behind_layer_2(const std::string& line) {
  if (line.starts_with("layer 2 ")) throw Interrupted();
}

TEST_F(DemoModel, AnInterruptedRunGoesOn) {
  const QuantizeOptions whole = options("whole");
  EXPECT_THAT(run(whole), Not(Contains(HasSubstr("kept"))));

  const QuantizeOptions cut = options("cut");
  EXPECT_THROW((void)quantize(cut, interrupt_behind_layer_2), Interrupted);
  QuantizeOptions other = cut;
  other.stored.act_order = true;
  EXPECT_EQ(quantize(other, [](const std::string&) {}).code(), Code::kFailedPrecondition);
  const auto lines = run(cut);
  EXPECT_THAT(lines, Contains("layer 2 of 6: kept"));
  EXPECT_THAT(lines, Not(Contains("layer 3 of 6: kept")));
  std::size_t n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(whole.output_dir)) {
    EXPECT_EQ(bytes_of(entry.path()),
              bytes_of(std::filesystem::path(cut.output_dir) / entry.path().filename()))
        << entry.path();
    ++n_files;
  }
  EXPECT_GT(n_files, 7U);
  EXPECT_FALSE(std::filesystem::exists(cut.output_dir + "/quantize_state.json"));
  EXPECT_THAT(quantize(cut, [](const std::string&) {}).message(), HasSubstr("is not empty"));
}

// "perplexity after: 12.3456 (+1.00 %)"
double after_of(const std::vector<std::string>& lines) {
  return std::strtod(lines.back().substr(lines.back().find(": ") + 2).c_str(), nullptr);
}

TEST_F(DemoModel, GptqIsNoWorseThanRounding) {
  QuantizeOptions gptq = options("gptq");
  gptq.samples_max = 8;
  gptq.sample_tokens_max = 512;
  gptq.calibration_path = folder_.path() + "/text";
  QuantizeOptions rtn = options("rtn");
  rtn.method = Method::kRoundToNearest;
  // What the model was made for, and is good at.
  std::string calibration;
  std::string evaluation;
  for (int i = 0; i < 60; ++i) {
    std::string& text = i % 3 == 0 ? evaluation : calibration;
    text += "<|user|>What is " + std::to_string(37 + 11 * i) + " plus " + std::to_string(7 * i) +
            "?<|end|><|assistant|>" + std::to_string(37 + 11 * i) + " + " + std::to_string(7 * i) +
            " = " + std::to_string(37 + 18 * i) + "<|end|>";
  }
  folder_.write("text", calibration);
  folder_.write("evaluation", evaluation);
  gptq.evaluation_path = rtn.evaluation_path = folder_.path() + "/evaluation";
  EXPECT_LE(after_of(run(gptq)), after_of(run(rtn)));
}

// What is folded into norms and matrices takes out what the inputs get: 8 bits then change next to nothing.
TEST_F(DemoModel, AwqLeavesTheModelWhatItIs) {
  QuantizeOptions awq = options("awq");
  awq.method = Method::kAwq;
  awq.stored.kind = NumberKind::kInt8;
  const std::vector<std::string> lines = run(awq);
  const auto before = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("perplexity before"); });
  ASSERT_NE(before, lines.end());
  EXPECT_NEAR(after_of(lines) / after_of({*before}), 1.0, 0.02);
}

TEST_F(DemoModel, WhatCannotBeIsRefusedByName) {
  QuantizeOptions wrong = options("wrong");
  wrong.stored.form = StoredForm::kCompressedTensors;
  wrong.stored.group_size = 128;
  EXPECT_THAT(quantize(wrong, [](const std::string&) {}).message(),
              HasSubstr("self_attn.q_proj\" has 192 inputs"));
  wrong = options("wrong");
  wrong.calibration_path = "/nowhere/text";
  EXPECT_THAT(quantize(wrong, [](const std::string&) {}).message(), HasSubstr("/nowhere/text"));
  EXPECT_FALSE(std::filesystem::exists(wrong.output_dir));
}

Status refused(std::vector<std::string_view> words) {
  return parse_command(words).status();
}

TEST(CommandLine, OptionsOfTgi) {
  const std::vector<std::string_view> words{"org/name",
                                            "out",
                                            "--revision",
                                            "v1",
                                            "--percdamp",
                                            "0.05",
                                            "--act-order",
                                            "--groupsize",
                                            "-1",
                                            "--trust-remote-code",
                                            "--json-output"};
  const auto command = parse_command(words);
  ASSERT_TRUE(command.ok()) << command.status().message();
  EXPECT_EQ(command->options.model_dir, "org/name");
  EXPECT_EQ(command->options.output_dir, "out");
  EXPECT_EQ(command->revision, "v1");
  EXPECT_EQ(command->options.stored.percdamp, 0.05);
  EXPECT_TRUE(command->options.stored.act_order);
  EXPECT_EQ(command->options.stored.group_size, 0U);
  EXPECT_EQ(command->options.method, Method::kGptq);
  EXPECT_TRUE(command->log_json);
}

TEST(CommandLine, ErrorsNameTheWord) {
  EXPECT_THAT(refused({"a"}).message(), HasSubstr("OUTPUT_DIR"));
  EXPECT_THAT(refused({"a", "b", "c"}).message(), HasSubstr("`c`"));
  EXPECT_THAT(refused({"a", "b", "--percdamp", "2"}).message(), HasSubstr("at most 1"));
  EXPECT_THAT(refused({"a", "b", "--groupsize", "0"}).message(), HasSubstr("from 1"));
  EXPECT_THAT(refused({"a", "b", "--groupsize"}).message(), HasSubstr("needs a value"));
  EXPECT_THAT(refused({"a", "b", "--upload-to-model-id", "x/y"}).message(), HasSubstr("hub"));
  EXPECT_THAT(refused({"a", "b", "--type", "int3"}).message(), HasSubstr("int4, int8, fp8"));
  EXPECT_THAT(refused({"a", "b", "--method", "hqq"}).message(), HasSubstr("gptq, awq, rtn"));
  EXPECT_THAT(refused({"a", "b", "--type", "Q4_0"}).message(), HasSubstr("--format gguf"));
  EXPECT_THAT(refused({"a", "b", "--format", "gguf", "--type", "Q3_K"}).message(),
              HasSubstr("Q4_K_M, Q4_0, Q8_0"));
  EXPECT_THAT(refused({"a", "b", "--format", "gguf", "--method", "gptq"}).message(),
              HasSubstr("--method rtn"));
  EXPECT_THAT(refused({"a", "b", "--type", "fp8"}).message(), HasSubstr("compressed-tensors"));
  EXPECT_THAT(refused({"a", "b", "--method", "rtn", "--act-order"}).message(), HasSubstr("gptq"));
}

}  // namespace
}  // namespace coxswain::quantize
