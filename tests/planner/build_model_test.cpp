#include "planner/model/build_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "planner/lower/sharding.h"
#include "planner/model/add_backward.h"
#include "planner/model/model_flops.h"
#include "planner/spec/read_spec.h"

namespace mega::planner {
namespace {

JobSpec job_with_model(const std::string& model) {
  const ReadJob read = read_job(std::string(MEGA_SOURCE_DIR) + "/specs/jobs/quickstart.yaml",
                                {"model=" + model, "training.sequence_length=128"},
                                std::string(MEGA_SOURCE_DIR) + "/specs");
  if (!read.job.ok()) {
    ADD_FAILURE() << render(read.job.errors(), read.sources);
    return {};
  }
  return read.job.value();
}

std::int64_t parameters(const ModelSpec& model) {
  const ModelGraph graph = build_model(model, 128);
  return parameter_count(graph, graph.extents);
}

TEST(BuildModel, BundledModelsHaveTheirPublishedParameters) {
  // Hugging Face gpt2: 124,439,808; meta-llama/Meta-Llama-3-8B: 8,030,261,248.
  EXPECT_EQ(parameters(job_with_model("gpt2-124m").model), 124439808);
  EXPECT_EQ(parameters(job_with_model("llama3-8b").model), 8030261248);
  // V h + s h + L (12 h^2 + 13 h) + 2 h with V 50257, s 2048, L 96, h 12288.
  EXPECT_EQ(
      parameters(job_with_model("gpt3-175b").model),
      50257LL * 12288 + 2048LL * 12288 + 96 * (12 * 12288LL * 12288 + 13 * 12288LL) + 2 * 12288);
}

// H01: Pythia and NeoX, 2 V h + L (12 h^2 + 13 h) + 2 h with the vocabulary padded by tp.
TEST(BuildModel, H01_PaddedVocabularyCounts) {
  const struct {
    int layers;
    std::int64_t hidden;
    int tp;
    std::int64_t allocated;
  } rows[] = {{6, 512, 1, 70426624},     {12, 768, 1, 162322944},    {24, 1024, 1, 405334016},
              {16, 2048, 1, 1011781632}, {24, 2048, 1, 1414647808},  {32, 2560, 1, 2775208960},
              {32, 4096, 2, 6857302016}, {36, 5120, 4, 11846072320}, {44, 6144, 2, 20554567680}};
  for (const auto& row : rows) {
    ModelSpec model;
    model.family = "gpt2";
    model.layers = row.layers;
    model.hidden = row.hidden;
    model.heads = model.kv_heads = 8;
    model.head_dim = row.hidden / 8;
    model.ffn_hidden = 4 * row.hidden;
    model.vocab = 50277;
    model.max_position = 2048;
    model.position = PositionKind::Rope;
    model.bias_qkv = model.bias_attention_out = model.bias_mlp = true;
    const ModelGraph graph = build_model(model, 128);
    EXPECT_EQ(parameter_count(graph, padded_extents(graph, row.tp)), row.allocated) << row.hidden;
  }
}

// H09, the dense part: head_dim is its own number. Qwen3-0.6B has 16 query and 8 kv heads of 128
// on a width of 1024, so q, k and v have 16 * 128 + 2 * 8 * 128 = 4096 rows; and of a long
// sequence's FLOPs half depend on it.
TEST(BuildModel, H09_HeadDimIsNotHiddenOverHeads) {
  ModelSpec model;
  model.family = "llama";
  model.layers = 1;
  model.hidden = 1024;
  model.heads = 16;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn_hidden = 3072;
  model.vocab = 256;
  model.position = PositionKind::Rope;
  const ModelGraph graph = build_model(model, 8192);
  std::int64_t rows = 0;
  for (const Block& block : graph.kinds) {
    for (const Tensor& tensor : block.tensors) {
      for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight"}) {
        if (!tensor.name.ends_with(name)) continue;
        rows += graph.extents.product(tensor.letters) / 1024;
      }
    }
  }
  EXPECT_EQ(rows, 4096);
  // Causal half: 6 layers heads head_dim sequence^2; products: 6 parameters sequence, with
  // parameters 1024 * 4096 (q, k, v) + 2048 * 1024 (o) + 2 * 1024 * 3072 + 256 * 1024 (head).
  const double products = 1024.0 * 4096 + 2048.0 * 1024 + 2 * 1024.0 * 3072 + 256.0 * 1024;
  EXPECT_DOUBLE_EQ(model_flops(graph).count(),
                   6 * products * 8192 + 6.0 * 16 * 128 * 8192.0 * 8192.0);
}

TEST(BuildModel, FlopsPerTokenAreTheNvidiaConvention) {
  // C06: Llama3-8B at 8192: 6 (7,504,924,672 in products and norms' layers) + causal attention
  // = 51.47 GFLOP per token.
  ModelSpec model = job_with_model("llama3-8b").model;
  const ModelGraph graph = build_model(model, 8192);
  EXPECT_NEAR(model_flops(graph).count() / 8192 / 1e9, 51.47, 0.01 * 51.47);
}

TEST(AddBackward, EveryParameterHasOneGradientThatOpsAddTo) {
  for (const char* name : {"tiny-gpt2", "tiny-llama"}) {
    const ModelGraph graph = add_backward(build_model(job_with_model(name).model, 128));
    for (const Block& block : graph.kinds) {
      for (const Parameter& parameter : block.parameters) {
        int writers = 0;
        for (const GraphOp& op : block.backward) {
          for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            if (op.outputs[i] != parameter.gradient) continue;
            EXPECT_TRUE((op.attributes.accumulate >> i & 1U) != 0);
            ++writers;
          }
        }
        EXPECT_EQ(writers, 1) << block.tensors[parameter.weight].name;
      }
      // The stream's gradient is accumulated in place: what comes in goes out.
      if (block.name == "layer") {
        EXPECT_EQ(block.input_gradient, block.output_gradient);
      }
    }
  }
}

}  // namespace
}  // namespace mega::planner
