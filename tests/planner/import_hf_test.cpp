#include "planner/spec/import_hf.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "planner/model/build_model.h"
#include "planner/spec/read_spec.h"

namespace mega::planner {
namespace {

ImportedModel import(const std::string& json) {
  Result<ImportedModel> imported = import_hf("config.json", json);
  if (!imported.ok()) {
    ADD_FAILURE() << render(imported.errors(), {{"config.json", json}});
    return {};
  }
  return std::move(imported).value();
}

// The imported model as a job reads it.
std::int64_t parameters_of(const std::string& yaml) {
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / "imported_model.yaml";
  std::ofstream(file) << yaml;
  const ReadJob read = read_job(std::string(MEGA_SOURCE_DIR) + "/specs/jobs/quickstart.yaml",
                                {"model=" + file.string(), "training.sequence_length=128"},
                                std::string(MEGA_SOURCE_DIR) + "/specs");
  if (!read.job.ok()) {
    ADD_FAILURE() << render(read.job.errors(), read.sources);
    return 0;
  }
  const ModelGraph graph = build_model(read.job.value().model, 128);
  return parameter_count(graph, graph.extents);
}

TEST(ImportHf, Gpt2) {
  const ImportedModel imported = import(R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "embd_pdrop": 0.0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
    "n_positions": 1024, "vocab_size": 50257})");
  EXPECT_EQ(imported.yaml,
            "family: gpt2\nlayers: 12\nhidden: 768\nheads: 12\nvocab: 50257\nmax_position: 1024\n");
  // Dropout that is on would be another training; off it says nothing.
  EXPECT_EQ(imported.not_understood, (std::vector<std::string>{"attn_pdrop: 0.1"}));
  EXPECT_EQ(parameters_of(imported.yaml), 124439808);
}

TEST(ImportHf, LlamaOfBothStyles) {
  const std::string sizes = R"("model_type": "llama", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    "hidden_act": "silu", "rms_norm_eps": 1e-05, "attention_bias": false,
    "tie_word_embeddings": false, )";
  const ImportedModel old_style =
      import("{" + sizes + R"("rope_theta": 500000.0, "rope_scaling": null})");
  const ImportedModel new_style = import(
      "{" + sizes + R"("rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}})");
  EXPECT_EQ(old_style.yaml, new_style.yaml);
  EXPECT_NE(old_style.yaml.find("rope: {theta: 500000}\n"), std::string::npos) << old_style.yaml;
  EXPECT_TRUE(old_style.not_understood.empty());
  EXPECT_TRUE(new_style.not_understood.empty());
  EXPECT_EQ(parameters_of(old_style.yaml), 8030261248);
}

TEST(ImportHf, ScalingOfRotaryFrequencies) {
  const ImportedModel imported = import(R"({"model_type": "llama", "hidden_size": 2048,
    "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": true,
    "rope_theta": 500000.0, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
    "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}})");
  EXPECT_NE(imported.yaml.find("rope: {theta: 500000, scaling: {kind: llama3, factor: 32, "
                               "original_max_position: 8192, low_frequency_factor: 1, "
                               "high_frequency_factor: 4}}\n"),
            std::string::npos)
      << imported.yaml;
}

TEST(ImportHf, QwenWithAndWithoutBiases) {
  const ImportedModel qwen2 = import(R"({"model_type": "qwen2", "hidden_size": 896,
    "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
    "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "tie_word_embeddings": true, "use_sliding_window": false, "sliding_window": 32768,
    "max_window_layers": 24})");
  EXPECT_EQ(parameters_of(qwen2.yaml), 494032768);
  EXPECT_TRUE(qwen2.not_understood.empty());
  const ImportedModel qwen3 = import(R"({"model_type": "qwen3", "hidden_size": 1024,
    "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "rms_norm_eps": 1e-06,
    "hidden_act": "silu", "attention_bias": false, "rope_theta": 1000000, "rope_scaling": null,
    "tie_word_embeddings": true, "sliding_window": null, "use_sliding_window": false})");
  EXPECT_EQ(parameters_of(qwen3.yaml), 596049920);
  EXPECT_TRUE(qwen3.not_understood.empty());
}

TEST(ImportHf, NeoxFalconGemmaNemotron) {
  EXPECT_EQ(parameters_of(import(R"({"model_type": "gpt_neox", "hidden_size": 6144,
    "intermediate_size": 24576, "num_hidden_layers": 44, "num_attention_heads": 64,
    "vocab_size": 50432, "hidden_act": "gelu_fast", "rotary_pct": 0.25, "rotary_emb_base": 10000,
    "layer_norm_eps": 1e-05, "use_parallel_residual": true})")
                              .yaml),
            20554567680);
  EXPECT_EQ(parameters_of(import(R"({"model_type": "falcon", "hidden_size": 4544,
    "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": true, "alibi": false,
    "new_decoder_architecture": false, "parallel_attn": true, "bias": false,
    "layer_norm_epsilon": 1e-05, "vocab_size": 65024})")
                              .yaml),
            6921720704);
  EXPECT_EQ(parameters_of(import(R"({"model_type": "falcon", "hidden_size": 8192,
    "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8, "alibi": false,
    "new_decoder_architecture": true, "parallel_attn": true, "bias": false,
    "vocab_size": 65024})")
                              .yaml),
            41303293952);
  EXPECT_EQ(parameters_of(import(R"({"model_type": "gemma", "hidden_size": 2048,
    "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8,
    "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000, "hidden_act": "gelu",
    "rms_norm_eps": 1e-06, "rope_theta": 10000.0})")
                              .yaml),
            2506172416);
  EXPECT_NEAR(static_cast<double>(parameters_of(import(R"({"model_type": "nemotron",
    "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 32,
    "num_attention_heads": 48, "num_key_value_heads": 8, "vocab_size": 256000,
    "partial_rotary_factor": 0.5, "norm_eps": 1e-05, "hidden_act": "relu2",
    "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false})")
                                                    .yaml)),
              15.6e9, 0.05e9);
}

TEST(ImportHf, ExpertsAndLatentAttention) {
  const ImportedModel imported = import(R"({"model_type": "deepseek_v3", "hidden_size": 7168,
    "intermediate_size": 18432, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "vocab_size": 129280, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc",
    "norm_topk_prob": true, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
    "num_nextn_predict_layers": 1})");
  EXPECT_NE(imported.yaml.find("moe: {experts: 256, top_k: 8, ffn_hidden: 2048, "
                               "shared_ffn_hidden: 2048, first_dense_layers: 3, router: "
                               "{normalize: true, scale: 2.5, groups: 8, group_top_k: 4}}\n"),
            std::string::npos)
      << imported.yaml;
  EXPECT_NE(imported.yaml.find("mla: {q_rank: 1536, kv_rank: 512, nope_dim: 128, rope_dim: 64, "
                               "v_dim: 128}\n"),
            std::string::npos);
  EXPECT_NE(imported.yaml.find("mtp_layers: 1\n"), std::string::npos);
}

TEST(ImportHf, ListsWhatItDoesNotUnderstand) {
  const ImportedModel imported = import(R"({"model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "residual_multiplier": 0.22, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8"}})");
  EXPECT_EQ(imported.not_understood,
            (std::vector<std::string>{"quantization_config.quant_method: \"fp8\"",
                                      "residual_multiplier: 0.22"}));
}

std::string error_of(const std::string& json) {
  const auto imported = import_hf("config.json", json);
  if (imported.ok()) return "imported";
  return imported.errors().front().message;
}

TEST(ImportHf, RefusesByName) {
  EXPECT_EQ(error_of("{\"model_type\": \"llama\",\n  oops}"), "this is no JSON");
  EXPECT_EQ(error_of("[1, 2]"), "a config.json is a mapping");
  EXPECT_EQ(error_of("{}"), "no 'model_type': this is no config.json of a model");
  EXPECT_EQ(error_of(R"({"model_type": "mamba"})"), "models of the type 'mamba' can't be imported");
  EXPECT_EQ(error_of(R"({"model_type": "llama"})"), "no layers: 'num_hidden_layers' is missing");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": "two"})"),
            "'num_hidden_layers' must be a whole number up to 2^31, got \"two\"");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": -2})"),
            "'num_hidden_layers' must be a whole number up to 2^31, got -2");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": 0})"),
            "'num_hidden_layers' must be at least 1, got 0");
  // Neither recursion nor a product of sizes may end in a crash.
  const std::string deep(100'000, '[');
  EXPECT_EQ(error_of("{\"x\": " + deep + std::string(100'000, ']') + "}"),
            "it is nested more than 16 levels deep");
  EXPECT_EQ(error_of(R"({"model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4,
    "vocab_size": 100, "expansion_ratio": 9223372036854775807})"),
            "'expansion_ratio' must be a whole number up to 2^31, got 9223372036854775807");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "vocab_size": 100, "hidden_act": "relu"})"),
            "the activation 'relu' is not known");
  const auto broken = import_hf("config.json", "{\"model_type\": \"llama\",\n  oops}");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.errors().front().where.line, 2);
}

}  // namespace
}  // namespace mega::planner
