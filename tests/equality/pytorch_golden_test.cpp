// Tiny models, a GPT-2, a Llama, a Mixtral and the routing of DeepSeek-V3, against what PyTorch
// computes in double precision.
//
// tools/dev/pytorch-goldens wrote the goldens: models in plain tensor operations, the same initial
// weights, all windows of the text in every step. Two SGD steps: only in the second are biases and
// norm weights away from 0 and 1.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planner/compile.h"
#include "planner/spec/read_spec.h"
#include "runtime/session.h"
#include "tests/support/safetensors.h"

namespace {

namespace fs = std::filesystem;
using mega::planner::Planner;
using mega::runtime::GlobalTensor;
using mega::runtime::Session;
using mega::testing::StoredTensor;
using Golden = std::map<std::string, StoredTensor>;

// As the script has them.
constexpr std::int64_t kSequence = 16, kBatch = 8, kVocabulary = 61;

constexpr const char* kTraining = R"(
cluster: {use: cpu-2, gpus_per_node: 1}
training:
  sequence_length: 16
  global_batch: 8
  precision: fp32
  seed: 7
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0, weight_decay: 0, clip_grad: 0}
)";
constexpr const char* kGpt2 = R"(
model: {family: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 61, max_position: 16, init_std: 0.2}
)";
constexpr const char* kLlama = R"(
model: {family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn_hidden: 48, vocab: 61,
        max_position: 16, norm_epsilon: 1e-5, rope: {theta: 10000}, init_std: 0.2}
)";

constexpr const char* kMixtral = R"(
model: {family: mixtral, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn_hidden: 48, vocab: 61,
        max_position: 16, norm_epsilon: 1e-5, rope: {theta: 10000}, init_std: 0.2,
        moe: {experts: 4, top_k: 2, ffn_hidden: 24}}
)";
constexpr const char* kDeepSeek = R"(
model: {family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn_hidden: 48, vocab: 61,
        max_position: 16, norm_epsilon: 1e-5, rope: {theta: 10000}, init_std: 0.2,
        moe: {experts: 8, top_k: 4, ffn_hidden: 16, shared_ffn_hidden: 24, first_dense_layers: 1,
              router: {score: sigmoid, normalize: true, scale: 2.5, groups: 4, group_top_k: 2,
                       bias: true, bias_update_rate: 0.125, aux_coefficient: 0.05,
                       z_coefficient: 0.02}}}
)";

// The families of the script's second half, by what they need beside their sizes.
struct Family {
  const char* name;
  const char* model;
};
const Family kFamilies[] = {
    {"qwen3", "family: qwen3, kv_heads: 2, head_dim: 16, ffn_hidden: 48"},
    {"gemma", "family: gemma, kv_heads: 1, head_dim: 16, ffn_hidden: 48"},
    {"gpt_neox", "family: gpt_neox"},
    {"nemotron", "family: nemotron, kv_heads: 2, ffn_hidden: 48"},
    {"latent",
     "family: deepseek_v3, ffn_hidden: 48, "
     "mla: {q_rank: 20, kv_rank: 12, nope_dim: 10, rope_dim: 6, v_dim: 8}"},
};
std::string model_of(const Family& family) {
  return std::string("model: {") + family.model +
         ", layers: 2, hidden: 32, heads: 4, vocab: 61, max_position: 16, norm_epsilon: 1e-5,\n"
         "        rope: {theta: 10000}, init_std: 0.2}\n";
}

Golden golden_of(const std::string& name) {
  return mega::testing::read_safetensors(std::string(MEGA_SOURCE_DIR) + "/tests/golden/pytorch/" +
                                         name + ".safetensors");
}

mega::Plan compile(const std::string& name, const std::string& model, int micro_batch) {
  const fs::path file = fs::path(::testing::TempDir()) / (name + ".yaml");
  std::ofstream(file) << model << kTraining;
  const mega::planner::ReadJob read =
      mega::planner::read_job(file.string(), {"layout.micro_batch=" + std::to_string(micro_batch)},
                              std::string(MEGA_SOURCE_DIR) + "/specs");
  if (!read.job.ok()) {
    ADD_FAILURE() << mega::render(read.job.errors(), read.sources);
    return {};
  }
  Planner planner(read.job.value());
  const auto layout = planner.layout();
  if (!layout.ok()) {
    ADD_FAILURE() << mega::render(layout.errors(), read.sources);
    return {};
  }
  return planner.compile(layout.value());
}

// Largest difference, relative to the largest value of the golden.
struct Difference {
  double absolute = 0, largest = 0;
};
Difference compare(const std::vector<float>& ours, const std::vector<float>& golden) {
  Difference result;
  EXPECT_EQ(ours.size(), golden.size());
  if (ours.size() != golden.size()) return {HUGE_VAL, 0};
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::abs(static_cast<double>(ours[i]) - golden[i]);
    // A NaN compares false with everything; it must not pass as equal.
    if (!(difference <= result.absolute)) result.absolute = difference;
    result.largest = std::max(result.largest, std::abs(static_cast<double>(golden[i])));
  }
  return result;
}

// The tolerance is that of one SGD step; a second step starts from weights that already differ in
// their last bits. The absolute part is float's rounding of the largest gradient: the gradient of
// GPT-2's key bias is exactly 0, which PyTorch in double finds to 1e-18 and floats to 1e-8.
void compare_gradients(const std::vector<GlobalTensor>& gradients, const Golden& golden, int step) {
  const std::string prefix = "gradient." + std::to_string(step) + ".";
  double largest = 0;
  std::size_t expected = 0;
  for (const auto& [name, tensor] : golden) {
    if (!name.starts_with(prefix)) continue;
    ++expected;
    for (const float value : tensor.as<float>())
      largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  EXPECT_EQ(gradients.size(), expected);
  for (const GlobalTensor& gradient : gradients) {
    const auto found = golden.find(prefix + gradient.name);
    ASSERT_NE(found, golden.end()) << "PyTorch has no " << gradient.name;
    const Difference difference = compare(gradient.data, found->second.as<float>());
    const double tolerance = (step == 1 ? 1e-5 : 2e-5) * difference.largest + 1e-7 * largest;
    EXPECT_LE(difference.absolute, tolerance) << gradient.name << " in step " << step;
  }
}

// [s, b, v padded] of the plan against [b, s, v] of PyTorch.
void compare_logits(const std::vector<std::byte>& bytes, const Golden& golden) {
  std::vector<float> local(bytes.size() / sizeof(float));
  std::memcpy(local.data(), bytes.data(), bytes.size());
  const std::int64_t padded = static_cast<std::int64_t>(local.size()) / (kSequence * kBatch);
  ASSERT_GE(padded, kVocabulary);
  std::vector<float> ours;
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t s = 0; s < kSequence; ++s)
      for (std::int64_t v = 0; v < kVocabulary; ++v)
        ours.push_back(local[static_cast<std::size_t>((s * kBatch + b) * padded + v)]);
  const Difference difference = compare(ours, golden.at("logits").as<float>());
  EXPECT_LE(difference.absolute, 1e-5 * difference.largest);
}

std::string logits_buffer(const mega::Program& program) {
  for (const mega::Buffer& buffer : program.buffers)
    if (buffer.name.ends_with("head.logits")) return buffer.name;
  ADD_FAILURE() << "no buffer holds logits";
  return "";
}

void run(const std::string& name, const std::string& model, int micro_batch) {
  const Golden golden = golden_of(name);
  ASSERT_FALSE(golden.empty());
  std::vector<std::uint8_t> tokens;
  for (const std::int32_t token : golden.at("tokens").as<std::int32_t>())
    tokens.push_back(static_cast<std::uint8_t>(token));
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < kBatch; ++i) windows.push_back(i * (kSequence + 1));

  mega::Plan plan = compile(name, model, micro_batch);
  ASSERT_FALSE(plan.programs.empty());
  const std::string logits = logits_buffer(plan.programs[0]);
  // The backward works in place on the logits: they are read when the first one is about to run.
  std::vector<std::byte> first_logits;
  Session* running = nullptr;
  mega::runtime::SessionOptions options;
  options.before = [&](int, const mega::Instruction& instruction, std::int64_t) -> mega::Status {
    const auto* segment = std::get_if<mega::Run>(&instruction.body);
    const bool is_backward =
        segment && running->plan().programs[0].segments[segment->segment].name.starts_with("b0");
    if (!is_backward || !first_logits.empty()) return mega::Ok{};
    MEGA_TRY(first_logits, running->read(0, logits));
    return mega::Ok{};
  };
  auto session = Session::open(std::move(plan), std::move(options));
  ASSERT_TRUE(session.ok()) << mega::render(session.errors(), {});
  running = session.value().get();
  ASSERT_TRUE(running->start().ok());
  for (int step = 1; step <= 2; ++step) {
    const auto result = running->train({tokens.data(), windows});
    ASSERT_TRUE(result.ok()) << mega::render(result.errors(), {});
    const double loss = golden.at("loss." + std::to_string(step)).as<float>()[0];
    EXPECT_NEAR(*result.value().loss, loss, 1e-5 * loss) << "step " << step;
    const auto aux_loss = golden.find("aux_loss." + std::to_string(step));
    EXPECT_EQ(result.value().aux_loss.has_value(), aux_loss != golden.end());
    if (aux_loss != golden.end()) {
      const double expected = aux_loss->second.as<float>()[0];
      EXPECT_NEAR(result.value().aux_loss.value_or(0), expected, 1e-5 * expected);
    }
    const auto gradients = running->gather(mega::Role::Gradient);
    ASSERT_TRUE(gradients.ok()) << mega::render(gradients.errors(), {});
    compare_gradients(gradients.value(), golden, step);
  }
  if (micro_batch == kBatch) compare_logits(first_logits, golden);
}

TEST(PytorchGolden, Gpt2InOneMicroBatch) {
  run("gpt2", kGpt2, 8);
}
TEST(PytorchGolden, Gpt2InFourMicroBatches) {
  run("gpt2", kGpt2, 2);
}
TEST(PytorchGolden, LlamaInOneMicroBatch) {
  run("llama", kLlama, 8);
}
TEST(PytorchGolden, LlamaInFourMicroBatches) {
  run("llama", kLlama, 2);
}
TEST(PytorchGolden, MixtralInOneMicroBatch) {
  run("mixtral", kMixtral, 8);
}
TEST(PytorchGolden, MixtralInFourMicroBatches) {
  run("mixtral", kMixtral, 2);
}
// Its balance loss is one per micro-batch, so PyTorch's is that of all in one.
TEST(PytorchGolden, DeepSeekRoutingInOneMicroBatch) {
  run("deepseek", kDeepSeek, 8);
}

class PytorchFamily : public ::testing::TestWithParam<Family> {};
TEST_P(PytorchFamily, InOneAndInFourMicroBatches) {
  run(GetParam().name, model_of(GetParam()), 8);
  run(GetParam().name, model_of(GetParam()), 2);
}
INSTANTIATE_TEST_SUITE_P(All, PytorchFamily, ::testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
