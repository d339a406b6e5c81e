// The bundled models have the parameters that their sources print.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "planner/lower/sharding.h"
#include "planner/model/build_model.h"
#include "planner/spec/read_spec.h"

namespace mega::planner {
namespace {

// Exact counts: Hugging Face prints them for the checkpoints (safetensors metadata), a paper or a
// configuration for the rest. `rounded` is a figure in billions that is all that is published.
struct Published {
  const char* spec;
  std::int64_t exact;  // 0: only `rounded` is known
  double rounded = 0, within = 0;
};

const Published kPublished[] = {
    // openai-community/*
    {"gpt2-124m", 124439808},
    {"gpt2-355m", 354823168},
    {"gpt2-774m", 774030080},
    {"gpt2-1.5b", 1557611200},
    // NeMo and Paxml benchmarks: names in whole billions. Brown et al. 2020, table 2.1: 175B.
    {"gpt3-5b", 0, 5, 0.1},
    {"gpt3-20b", 0, 20, 0.3},
    {"gpt3-175b", 0, 174.6, 0.05},
    // huggyllama/*, meta-llama/*
    {"llama-7b", 6738415616},
    {"llama-13b", 13015864320},
    {"llama-30b", 32528943616},
    {"llama-65b", 65285660672},
    {"llama2-7b", 6738415616},
    {"llama2-13b", 13015864320},
    {"llama2-70b", 68976648192},
    {"llama3-8b", 8030261248},
    {"llama3-70b", 70553706496},
    {"llama3.1-405b", 405853388800},
    {"llama3.2-1b", 1235814400},
    {"llama3.2-3b", 3212749824},
    {"tinyllama-1.1b", 1100048384},
    {"yi-6b", 6061035520},
    {"yi-34b", 34388917248},
    {"codellama-34b", 33743970304},
    {"smollm2-135m", 134515008},
    {"smollm2-1.7b", 1711376384},
    {"mistral-7b", 7248023552},
    // Hagemann et al. 2023, with both embeddings.
    {"aleph-alpha-13b", 0, 14.0, 0.005},
    {"aleph-alpha-30b", 0, 33.81, 0.005},
    // Qwen/*; of tied models the head is counted once.
    {"qwen2-7b", 7615616512},
    {"qwen2.5-0.5b", 494032768},
    {"qwen2.5-1.5b", 1543714304},
    {"qwen2.5-7b", 7615616512},
    {"qwen2.5-14b", 14770033664},
    {"qwen2.5-32b", 32763876352},
    {"qwen2.5-72b", 72706203648},
    {"qwen3-0.6b", 596049920},
    {"qwen3-1.7b", 1720574976},
    {"qwen3-4b", 4022468096},
    {"qwen3-8b", 8190735360},
    {"qwen3-14b", 14768307200},
    {"qwen3-32b", 32762123264},
    // mistralai/*, Qwen/*: experts
    {"mixtral-8x7b", 46702792704},
    {"mixtral-8x22b", 140620634112},
    {"qwen3-30b-a3b", 30532122624},
    {"qwen3-235b-a22b", 235093634560},
    // deepseek-ai/*, moonshotai/*: experts and latent attention
    {"deepseek-v2", 235741434880},
    {"deepseek-v2-lite", 15706484224},
    {"deepseek-v3", 671026404352},
    {"moonlight-16b-a3b", 0, 16, 0.05},
    // meta-llama/Llama-4-* (text models), xai-org/grok-1 (published as 314B)
    {"llama4-scout", 0, 107.8, 0.05},
    {"llama4-maverick", 0, 400.7, 0.05},
    {"grok-1", 0, 314, 2},
    // google/gemma-*
    {"gemma-2b", 2506172416},
    {"gemma-7b", 8537680896},
    // tiiuae/falcon-*
    {"falcon-7b", 6921720704},
    {"falcon-40b", 41303293952},
    // NeMo; Parmar et al. 2024; Adler et al. 2024
    {"nemotron-8b", 0, 8.5, 0.05},
    {"nemotron-22b", 0, 21.3, 0.05},
    {"nemotron4-15b", 0, 15.6, 0.05},
    {"nemotron4-340b", 0, 341, 0.5},
    // C07: llm-foundry's benchmark, L (12 h^2 + 13 h) + 50368 h + 2048 h + 2 h
    {"mpt-125m", 125311488},
    {"mpt-350m", 0, 0.356, 0.0005},
    {"mpt-760m", 0, 0.76, 0.0005},
    {"mpt-1b", 1315950592},
    {"mpt-3b", 0, 2.651, 0.001},
    {"mpt-7b", 6658859008},
    {"mpt-13b", 12853954560},
    {"mpt-30b", 29975214080},
    {"mpt-70b", 64862437376},
};

JobSpec job_of(const std::string& model) {
  const ReadJob read = read_job(std::string(MEGA_SOURCE_DIR) + "/specs/jobs/quickstart.yaml",
                                {"model=" + model, "training.sequence_length=128"},
                                std::string(MEGA_SOURCE_DIR) + "/specs");
  if (!read.job.ok()) {
    ADD_FAILURE() << model << ": " << render(read.job.errors(), read.sources);
    return {};
  }
  return read.job.value();
}

ModelGraph graph_of(const std::string& model) {
  return build_model(job_of(model).model, 128);
}

TEST(PublishedModels, HaveTheirParameters) {
  for (const Published& published : kPublished) {
    const ModelGraph graph = graph_of(published.spec);
    const std::int64_t count = parameter_count(graph, graph.extents);
    if (published.exact > 0) {
      EXPECT_EQ(count, published.exact) << published.spec;
    } else {
      EXPECT_NEAR(static_cast<double>(count) / 1e9, published.rounded, published.within)
          << published.spec;
    }
  }
}

// H01: totals that GPT-NeoX prints count the padded vocabulary: 128 tp times a whole number.
TEST(PublishedModels, H01_PythiaAndNeoxCountTheirPadding) {
  const struct {
    const char* spec;
    int tp;
    std::int64_t allocated;
  } rows[] = {{"pythia-70m", 1, 70426624},     {"pythia-160m", 1, 162322944},
              {"pythia-410m", 1, 405334016},   {"pythia-1b", 1, 1011781632},
              {"pythia-1.4b", 1, 1414647808},  {"pythia-2.8b", 1, 2775208960},
              {"pythia-6.9b", 2, 6857302016},  {"pythia-12b", 4, 11846072320},
              {"gpt-neox-20b", 2, 20554567680}};
  for (const auto& row : rows) {
    const ModelGraph graph = graph_of(row.spec);
    EXPECT_EQ(parameter_count(graph, padded_extents(graph, row.tp)), row.allocated) << row.spec;
  }
}

// A bundled model that nobody checks is a guess.
TEST(PublishedModels, EverySpecIsChecked) {
  std::set<std::string> checked = {"tiny-gpt2", "tiny-llama", "tiny-mixtral"};
  for (const Published& published : kPublished) checked.insert(published.spec);
  const std::filesystem::path folder = std::string(MEGA_SOURCE_DIR) + "/specs/models";
  std::size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    ++models;
    if (name.starts_with("pythia-") || name == "gpt-neox-20b") continue;  // H01, above
    EXPECT_TRUE(checked.contains(name)) << name;
  }
  EXPECT_GE(models, 42U);
}

}  // namespace
}  // namespace mega::planner
