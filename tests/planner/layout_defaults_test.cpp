#include "planner/layout_defaults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planner/rules.h"
#include "planner/spec/read_spec.h"

namespace mega::planner {
namespace {

const std::string kSpecs = std::string(MEGA_SOURCE_DIR) + "/specs";

// The quickstart job is a carrier: what a test is about is set over it.
JobSpec job_with(const std::vector<std::string>& sets) {
  const ReadJob read = read_job(kSpecs + "/jobs/quickstart.yaml", sets, kSpecs);
  EXPECT_TRUE(read.job.ok()) << (read.job.ok() ? "" : render(read.job.errors(), read.sources));
  return read.job.ok() ? read.job.value() : JobSpec{};
}

Strategy layout_with(const std::vector<std::string>& sets) {
  const JobSpec job = job_with(sets);
  const Result<Strategy> layout = complete_layout(job);
  EXPECT_TRUE(layout.ok()) << (layout.ok() ? "" : render(layout.errors(), job.sources));
  return layout.ok() ? layout.value() : Strategy{};
}

TEST(LayoutDefaults, DpFollowsTheWorldAndOverlapIsOnWhereItWorks) {
  const Strategy s = layout_with({"layout.micro_batch=2"});
  EXPECT_EQ(s.dp, 2);  // cpu-2
  EXPECT_EQ(names(s.overlap), (std::vector<std::string>{"gradient_reduce", "parameter_gather"}));
  EXPECT_EQ(s.zero, 1);
  EXPECT_EQ(s.zero_group, s.dp);
  EXPECT_FALSE(s.sequence_parallel);
  EXPECT_TRUE(s.stages.empty());
  const Strategy tensor = layout_with({"layout.micro_batch=2", "layout.tp=2"});
  EXPECT_EQ(tensor.dp, 1);
  EXPECT_TRUE(tensor.sequence_parallel);
  EXPECT_EQ(tensor.overlap, Overlap());
  const Strategy pipeline = layout_with({"layout.micro_batch=2", "layout={pp: 2, micro_batch: 1}"});
  EXPECT_EQ(names(pipeline.overlap), std::vector<std::string>{"pipeline"});
}

TEST(LayoutDefaults, G08_WithoutAClusterTheWorldIsTheLeast) {
  JobSpec job = job_with({"layout={tp: 2, pp: 2, micro_batch: 1}"});
  job.cluster.reset();
  EXPECT_EQ(world_size(complete_layout(job).value()), 4);
}

TEST(LayoutDefaults, GivenFieldsAreKeptAndTheRestIsNamed) {
  const std::vector<std::string> sets = {
      "layout={tp: 2, micro_batch: 4, sequence_parallel: false, stages: even, overlap: []}"};
  const Strategy s = layout_with(sets);
  EXPECT_FALSE(s.sequence_parallel);
  EXPECT_EQ(s.stages, std::vector<int>{4});
  const std::vector<std::string> defaulted = defaulted_fields(job_with(sets));
  EXPECT_EQ(defaulted,
            (std::vector<std::string>{"cp", "pp", "vpp", "dp", "ep", "etp", "schedule", "recompute",
                                      "zero", "zero_group", "context", "rank_order"}));
}

TEST(LayoutDefaults, WhatTheJsonOfACandidatePrintsIsAcceptedBack) {
  const Strategy s = layout_with(
      {"layout={\"tp\":2,\"cp\":1,\"pp\":1,\"vpp\":1,\"dp\":1,\"ep\":1,\"etp\":1,"
       "\"micro_batch\":1,\"schedule\":\"1f1b\",\"sequence_parallel\":true,\"recompute\":\"none\","
       "\"zero\":0,\"zero_group\":1,\"context\":\"ring\",\"overlap\":[],"
       "\"rank_order\":\"tp-cp-ep-dp-pp\",\"stages\":[4]}"});
  EXPECT_EQ(summary(s), "tp2 mb1 sp");
}

// H06: the string gives counts and, where vpp is absent, the chunks a rank.
TEST(LayoutDefaults, H06_MegatronsStringGivesCountsAndChunks) {
  const auto layout_of = [](int pp, const std::string& stages) {
    JobSpec job = job_with({"model.layers=61", "training.global_batch=64",
                            "layout={micro_batch: 1, stages: '" + stages + "'}"});
    job.cluster.reset();
    job.layout.pp = pp;
    return complete_layout(job);
  };
  const Strategy s = layout_of(32, "Et*3|(tt|)*29|L").value();
  EXPECT_EQ(s.vpp, 1);
  EXPECT_EQ(s.stages.size(), 32U);
  EXPECT_EQ(s.stages.front(), 3);
  EXPECT_EQ(s.stages.back(), 0);
  EXPECT_EQ(layout_of(16, "Et*3|(tt|)*29|L").value().vpp, 2);
  const auto message = [&](const std::string& stages) {
    const Errors errors = layout_of(32, stages).errors();
    return errors.size() == 1 ? errors[0].message : std::to_string(errors.size()) + " errors";
  };
  EXPECT_EQ(message("Et*2|(tt|)*29|L"), "layout.stages sums to 60, not to model.layers 61");
  EXPECT_EQ(message("Et*3|(tt|)*29L"),
            "layout.stages has 31 counts for layout.pp 32 * vpp 1 = 32 stages");
}

TEST(LayoutDefaults, AVImpliesTwoChunks) {
  const Strategy s = layout_with({"layout={pp: 2, schedule: zb_v, micro_batch: 1}"});
  EXPECT_EQ(s.vpp, 2);
  EXPECT_EQ(summary(s), "pp2 vpp2 mb1 zb_v +pipeline");
  const Strategy one = layout_with({"layout={schedule: zb_v, micro_batch: 1}"});
  EXPECT_EQ(one.vpp, 1);  // without a pipeline there is no schedule
  EXPECT_EQ(one.schedule, ScheduleKind::OneFOneB);
}

TEST(LayoutDefaults, MicroBatchIsRequiredAndOtherErrorsStillCome) {
  const JobSpec job = job_with({"layout.tp=3"});
  const Errors errors = complete_layout(job).errors();
  ASSERT_GE(errors.size(), 3u);
  EXPECT_EQ(errors[0].message, "layout.micro_batch is missing");
  EXPECT_EQ(errors[1].message.substr(0, 44), "layout.tp 3 * cp 1 * pp 1 = 3 does not divid");
  EXPECT_EQ(errors[1].file, "--set");
}

// Published layouts of dense models: all must be legal with the dp and M that their sources give.
struct Published {
  const char* source;
  int layers, hidden, heads, kv_heads, gpus, tp, pp, vpp, micro_batch, global_batch, dp,
      micro_batches;
};

TEST(LayoutDefaults, Appendix1_PublishedDenseLayoutsAreAccepted) {
  constexpr Published kPublished[] = {
      {"Megatron 1.7B", 24, 2304, 24, 24, 32, 1, 1, 1, 16, 512, 32, 1},
      {"Megatron 3.6B", 30, 3072, 32, 32, 64, 2, 1, 1, 16, 512, 32, 1},
      {"Megatron 18B", 40, 6144, 48, 48, 256, 8, 1, 1, 8, 1024, 32, 4},
      {"Megatron 39B", 48, 8192, 64, 64, 512, 8, 2, 1, 4, 1536, 32, 12},
      {"Megatron 76B", 60, 10240, 80, 80, 1024, 8, 4, 3, 2, 1792, 32, 28},
      {"Megatron 145B", 80, 12288, 96, 96, 1536, 8, 8, 2, 2, 2304, 24, 48},
      {"Megatron 310B", 96, 16384, 128, 128, 1920, 8, 16, 2, 1, 2160, 15, 144},
      {"Megatron 530B", 105, 20480, 128, 128, 2520, 8, 35, 3, 1, 2520, 9, 280},
      {"Megatron 1T", 128, 25600, 160, 160, 3072, 8, 64, 1, 1, 3072, 6, 512},
      {"bigscience 13B", 40, 5120, 32, 32, 512, 2, 4, 1, 1, 1024, 64, 16},
      {"bigscience 6B3", 30, 4096, 32, 32, 128, 4, 4, 1, 1, 512, 8, 64},
      {"bigscience 176B", 70, 14336, 112, 112, 192, 4, 12, 1, 2, 2048, 4, 256},
      {"NeoX 20B", 44, 6144, 64, 64, 96, 2, 4, 1, 4, 1536, 12, 32},
      {"Llama3 70B", 80, 8192, 64, 8, 64, 4, 8, 5, 1, 128, 2, 64},
      {"InternEvo 7B pp3", 32, 4096, 32, 32, 3, 1, 3, 1, 1, 4, 1, 4},
      {"InternEvo 7B pp5", 32, 4096, 32, 32, 5, 1, 5, 1, 1, 4, 1, 4},
      {"InternEvo 7B pp6", 32, 4096, 32, 32, 6, 1, 6, 1, 1, 4, 1, 4},
  };
  for (const Published& row : kPublished) {
    const auto number = [](int value) { return std::to_string(value); };
    const JobSpec job = job_with(
        {"model={family: gpt2, layers: " + number(row.layers) + ", hidden: " + number(row.hidden) +
             ", heads: " + number(row.heads) + ", kv_heads: " + number(row.kv_heads) +
             ", vocab: 50257}",
         "cluster={use: dgx-a100-80g, gpus: " + number(row.gpus) + "}",
         "training={sequence_length: 2048, global_batch: " + number(row.global_batch) + "}",
         "layout={tp: " + number(row.tp) + ", pp: " + number(row.pp) + ", vpp: " + number(row.vpp) +
             ", micro_batch: " + number(row.micro_batch) + "}"});
    const Result<Strategy> layout = complete_layout(job);
    ASSERT_TRUE(layout.ok()) << row.source << render(layout.errors(), job.sources);
    EXPECT_EQ(layout.value().dp, row.dp) << row.source;
    EXPECT_EQ(micro_batches(layout.value(), row.global_batch), row.micro_batches) << row.source;
    const std::vector<int> cut = even_cut(row.layers, row.pp * row.vpp);
    EXPECT_EQ(std::accumulate(cut.begin(), cut.end(), 0), row.layers) << row.source;
  }
}

TEST(LayoutDefaults, Appendix1_TpEightIsRejectedForFiftyTwoHeads) {
  // gpt-neox configs/llama/30B.yml
  const std::vector<std::string> sets = {
      "model={family: llama, layers: 60, hidden: 6656, heads: 52, vocab: 32000, ffn_hidden: 17920}",
      "cluster={use: dgx-a100-80g}", "layout.micro_batch=1"};
  const auto with_tp = [&](const char* set) {
    std::vector<std::string> all = sets;
    all.emplace_back(set);
    return complete_layout(job_with(all));
  };
  EXPECT_TRUE(with_tp("layout.tp=4").ok());
  const auto refused = with_tp("layout.tp=8");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.errors().size(), 2u);  // heads and kv_heads
}

TEST(LayoutDefaults, D15_AVocabularyThatTpDoesNotDivideIsPadded) {
  for (const char* vocab : {"model.vocab=50257", "model.vocab=5"}) {
    layout_with({vocab, "model.vocab_multiple=1", "cluster={use: cpu-2, gpus_per_node: 4}",
                 "layout={tp: 4, micro_batch: 1}"});
  }
}

}  // namespace
}  // namespace mega::planner
