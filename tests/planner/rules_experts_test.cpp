// The rules about experts, and the cases from the field that made them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/layout_defaults.h"
#include "planner/rules.h"
#include "tests/support/small_jobs.h"

namespace mega::planner {
namespace {

JobSpec job_of(std::int64_t experts, int gpus) {
  JobSpec job = small_job(false);
  MoeSpec moe;
  moe.experts = experts;
  moe.top_k = 2;
  moe.ffn_hidden = 96;
  job.model.moe = moe;
  job.cluster->nodes = 1;
  job.cluster->gpus = job.cluster->gpus_per_node = gpus;
  return job;
}

std::vector<RuleResult> broken(const JobSpec& job, const Strategy& strategy) {
  std::vector<RuleResult> results;
  for (RuleResult& result : check_rules(job, strategy)) {
    if (!result.ok) results.push_back(std::move(result));
  }
  return results;
}

Strategy of(int tp, int dp, int ep, int etp = 1) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  s.ep = ep;
  s.etp = etp;
  s.sequence_parallel = tp > 1;
  return s;
}

TEST(ExpertRules, A08_EpDividesTheExperts) {
  const auto results = broken(job_of(256, 3), of(1, 3, 3));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].message,
            "layout.ep 3 does not divide the model.moe.experts 256 (remainder 1)");
  EXPECT_EQ(results[0].nearest, "layout.ep: 1");
}

TEST(ExpertRules, A08_AllBrokenRulesAtOnce) {
  const auto results = broken(job_of(8, 8), of(1, 8, 6));
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].message,
            "layout.ep 6 does not divide the model.moe.experts 8 (remainder 2)");
  EXPECT_EQ(results[0].nearest, "layout.ep: 4 or 8");
  EXPECT_EQ(results[1].message,
            "layout.ep 6 * etp 1 * pp 1 = 6 does not divide the 8 GPUs of the cluster (remainder "
            "2); the least world is 6");
}

// pp * lcm(tp * cp, ep * etp): neither the product nor the larger of both.
TEST(ExpertRules, A15_LeastWorldIsALeastCommonMultiple) {
  Strategy s = of(2, 1, 8);
  EXPECT_EQ(least_world(s), 8);
  s.pp = 2;
  EXPECT_EQ(least_world(s), 16);
  s = of(2, 1, 4);
  s.cp = 3;
  EXPECT_EQ(least_world(s), 12);
  EXPECT_TRUE(broken(job_of(8, 16), of(2, 8, 8)).empty());
}

// Without a cluster dp fills the least world.
TEST(ExpertRules, A15_DefaultDpFillsTheLeastWorld) {
  JobSpec job = job_of(8, 8);
  job.cluster.reset();
  job.layout.micro_batch = 1;
  job.layout.ep = 8;
  job.layout.tp = 2;
  const auto layout = complete_layout(job);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout.value().dp, 4);
}

TEST(ExpertRules, TensorRanksNeedTokensOfTheirOwn) {
  Strategy s = of(2, 1, 2);
  s.sequence_parallel = false;
  const auto results = broken(job_of(8, 2), s);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].rule, "expert_tokens");
  EXPECT_EQ(results[0].nearest, "layout.sequence_parallel: true");
}

TEST(ExpertRules, EtpDividesTheWidthOfAnExpert) {
  const auto results = broken(job_of(8, 5), of(1, 5, 1, 5));
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].rule, "global_batch");  // 24 % 5
  EXPECT_EQ(results[1].message, "layout.etp 5 does not divide model.moe.ffn_hidden 96");
}

// Else a rank would be in one stage by one mesh and in another by the other.
TEST(ExpertRules, BothMeshesHaveTheSameStages) {
  Strategy s = of(2, 2, 2);
  s.pp = 2;
  s.rank_order = "tp-cp-pp-ep-dp";
  const auto results = broken(job_of(8, 8), s);
  ASSERT_GE(results.size(), 1u);
  EXPECT_EQ(results[0].message,
            "layout.rank_order tp-cp-pp-ep-dp puts 2 ranks inside pp, but 1 of the expert mesh");
}

TEST(ExpertRules, DenseModelsHaveNoExpertMesh) {
  JobSpec job = job_of(8, 2);
  job.model.moe.reset();
  const auto results = broken(job, of(1, 2, 2));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].message, "layout.ep 2 needs a model with experts (model.moe)");
}

}  // namespace
}  // namespace mega::planner
