// Every feature of a model, under layouts that split each of its tensors: what one rank computes.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "planner/spec/families.h"
#include "tests/support/training.h"

namespace mega::testing {
namespace {

struct Feature {
  const char* name;
  std::function<void(planner::ModelSpec&)> set;
};

// The tiny Llama (or GPT-2) of training.h with one thing changed, and families with all of theirs.
planner::JobSpec job_of(const Feature& feature, bool is_gpt2) {
  planner::JobSpec job = training_job(is_gpt2);
  job.model.layers = 4;
  feature.set(job.model);
  return job;
}

// Sizes as in training.h, all else as the family says.
std::function<void(planner::ModelSpec&)> family(const std::string& name, std::int64_t kv_heads) {
  return [=](planner::ModelSpec& model) {
    planner::ModelSpec other = planner::family_defaults(name);
    other.name = name;
    other.layers = model.layers;
    other.hidden = model.hidden;
    other.heads = model.heads;
    other.kv_heads = kv_heads;
    other.head_dim = 16;  // not hidden / heads
    other.ffn_hidden = model.ffn_hidden;
    other.vocab = model.vocab;
    other.vocab_multiple = model.vocab_multiple;
    other.max_position = model.max_position;
    other.init_std = model.init_std;
    if (planner::scales_embeddings(name)) other.embedding_scale = 5.66;
    model = other;
  };
}

// Latent attention of DeepSeek-V3, or of V2-Lite without q_rank.
std::function<void(planner::ModelSpec&)> latent(std::int64_t q_rank) {
  return [=](planner::ModelSpec& model) {
    family("deepseek_v3", 4)(model);
    model.mla = planner::MlaSpec{q_rank, 12, 10, 6, 8};
    model.head_dim = 16;
  };
}

using planner::ModelSpec;
const Feature kFeatures[] = {
    {"norm_offset", [](ModelSpec& m) { m.norm_offset = 1; }},
    // Without positions the gradient of a bias on k is exactly 0.
    {"qk_norm", [](ModelSpec& m) { m.qk_norm = true, m.bias_norm = false; }},
    {"multi_query", [](ModelSpec& m) { m.kv_heads = 1; }},
    {"qkv_clip", [](ModelSpec& m) { m.qkv_clip = 0.3; }},
    {"post_norms", [](ModelSpec& m) { m.post_norms = true; }},
    {"parallel", [](ModelSpec& m) { m.parallel_residual = true; }},
    {"parallel_shared", [](ModelSpec& m) { m.parallel_residual = m.shared_residual_norm = true; }},
    {"embedding_norm", [](ModelSpec& m) { m.embedding_norm = true; }},
    {"embedding_scale", [](ModelSpec& m) { m.embedding_scale = 5.5; }},
    {"logit_softcap", [](ModelSpec& m) { m.logit_softcap = 2; }},
    {"relu2", [](ModelSpec& m) { m.activation = planner::ActivationKind::Relu2; }},
    {"geglu", [](ModelSpec& m) { m.activation = planner::ActivationKind::GeGlu; }},
    {"no_norm_bias", [](ModelSpec& m) { m.bias_norm = false; }},
    {"rope_fraction",
     [](ModelSpec& m) {
       m.position = planner::PositionKind::Rope;
       m.rope_fraction = 0.5;
     }},
    {"rope_llama3",
     [](ModelSpec& m) {
       m.position = planner::PositionKind::Rope;
       m.rope_scaling = {planner::RopeScalingKind::Llama3, 4, 8};
     }},
    {"rope_yarn",
     [](ModelSpec& m) {
       m.position = planner::PositionKind::Rope;
       m.rope_scaling = {planner::RopeScalingKind::Yarn, 4, 8};
     }},
    {"qwen2", family("qwen2", 2)},
    {"qwen3", family("qwen3", 2)},
    {"gemma", family("gemma", 1)},
    {"gemma2", family("gemma2", 2)},
    {"gpt_neox", family("gpt_neox", 4)},
    {"falcon", family("falcon", 1)},
    {"nemotron", family("nemotron", 2)},
    {"experts_every_second_layer",
     [](ModelSpec& m) {
       m.activation = planner::ActivationKind::GeGlu;
       m.moe.emplace();
       m.moe->experts = 4;
       m.moe->top_k = 2;
       m.moe->ffn_hidden = 24;
       m.moe->layer_pattern = "de";
       m.norm = planner::NormKind::RmsNorm;
     }},
    // D13: the products to the latents are whole on each rank and count once in the norm.
    {"latent_attention", latent(20)},
    {"latent_attention_plain_q", latent(0)},
};

class Models : public ::testing::TestWithParam<Feature> {};

TEST_P(Models, EveryLayoutEqualsOneRank) {
  for (const bool is_gpt2 : {false, true}) {
    const planner::JobSpec job = job_of(GetParam(), is_gpt2);
    const Outcome one_rank = train(job, {}, 1);
    for (const Degrees degrees :
         {Degrees{.tp = 2}, Degrees{.tp = 4, .sequence_parallel = true},
          Degrees{.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true}, Degrees{.pp = 4}}) {
      SCOPED_TRACE(job.model.family + " " + name_of(degrees));
      const Outcome outcome = train(job, degrees, 1);
      expect_same_steps(outcome, one_rank, 1e-5);
      expect_same_gradients(outcome, one_rank);
    }
  }
}

// Positions, masks and latents where ranks hold zig-zag parts of the sequence.
TEST_P(Models, ASplitSequenceEqualsOneRank) {
  for (const bool is_gpt2 : {false, true}) {
    const planner::JobSpec job = job_of(GetParam(), is_gpt2);
    planner::Strategy strategy =
        strategy_of(job, {.tp = 2, .pp = 2, .vpp = 2, .sequence_parallel = true});
    strategy.cp = 2;
    strategy = planner::normalised(strategy);
    ASSERT_TRUE(planner::is_legal(job, strategy));
    SCOPED_TRACE(job.model.family);
    const Outcome one_rank = train(job, {}, 1);
    const Outcome outcome = train(plan_of(job, strategy), 1);
    expect_same_steps(outcome, one_rank, 1e-5);
    expect_same_gradients(outcome, one_rank);
  }
}

bool are_equal(const Outcome& a, const Outcome& b) {
  if (a.losses != b.losses || a.parameters.size() != b.parameters.size()) return false;
  for (std::size_t t = 0; t < a.parameters.size(); ++t) {
    if (a.parameters[t].data != b.parameters[t].data) return false;
  }
  return true;
}

// The feature is there at all: it changes the loss, or (an offset of norms) what is stored.
TEST_P(Models, TheFeatureChangesTheModel) {
  const Feature plain{"", [](ModelSpec&) {}};
  int changed = 0;
  for (const bool is_gpt2 : {false, true}) {
    const Outcome with = train(job_of(GetParam(), is_gpt2), {}, 2);
    const Outcome without = train(job_of(plain, is_gpt2), {}, 2);
    changed += are_equal(with, without) ? 0 : 1;
  }
  EXPECT_GT(changed, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Models, ::testing::ValuesIn(kFeatures),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace mega::testing
