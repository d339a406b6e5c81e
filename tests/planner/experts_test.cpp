// Layers of experts in the cost model and in plans: the laws of tests/planner/cost_laws_test.cpp,
// and what a rank holds.
#include "planner/lower/experts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/plan_verify.h"
#include "planner/compile.h"
#include "planner/cost/bounds.h"
#include "planner/cost/evaluate.h"
#include "planner/cost/simulate.h"
#include "planner/lower/partition.h"
#include "planner/rules.h"
#include "tests/support/small_jobs.h"

namespace mega::planner {
namespace {

JobSpec experts_job(double row_factor = 0) {
  JobSpec job = small_job(false);
  job.model.layers = 4;
  MoeSpec moe;
  moe.experts = 8;
  moe.top_k = 2;
  moe.ffn_hidden = 96;
  moe.shared_ffn_hidden = 32;
  moe.row_factor = row_factor;
  moe.router.score = RouterScore::Sigmoid;
  moe.router.bias = true;
  moe.router.aux_coefficient = 0.01;
  job.model.moe = moe;
  return job;
}

std::vector<Strategy> expert_layouts(const JobSpec& job) {
  std::vector<Strategy> all;
  for (const int tp : {1, 2}) {
    for (const int pp : {1, 2}) {
      for (const int dp : {1, 2, 4}) {
        for (const int ep : {1, 2, 4, 8}) {
          for (const int etp : {1, 2}) {
            Strategy s;
            s.tp = tp;
            s.pp = pp;
            s.dp = dp;
            s.ep = ep;
            s.etp = etp;
            s.sequence_parallel = tp > 1;
            s.overlap.gradient_reduce = s.overlap.pipeline = true;
            s = normalised(s);
            s.stages = even_cut(job.model.layers, pp);
            if (is_legal(job, s)) all.push_back(s);
          }
        }
      }
    }
  }
  return all;
}

TEST(Experts, EvaluateIsThePlan) {
  for (const double row_factor : {0.0, 1.5}) {
    JobSpec job = experts_job(row_factor);
    job.cluster->gpus = 0;  // any world
    const std::vector<Strategy> layouts = expert_layouts(job);
    EXPECT_GT(layouts.size(), 20u);
    for (const Strategy& strategy : layouts) {
      SCOPED_TRACE(summary(strategy));
      Planner planner(job);
      const Plan plan = planner.compile(strategy);
      const Evaluation evaluation = planner.candidate(strategy).evaluation;
      EXPECT_EQ(simulate(plan).step_ns, evaluation.step_ns);
      for (std::size_t r = 0; r < plan.programs.size(); ++r) {
        EXPECT_EQ(arena_bytes(plan.programs[r]), evaluation.memory[r].total);
      }
      const TimeTerms& t = evaluation.time;
      EXPECT_EQ(t.compute_ns + t.exposed_tp_ns + t.exposed_ep_ns + t.exposed_pp_ns +
                    t.exposed_dp_ns + t.bubble_ns + t.optimizer_ns + t.other_ns,
                evaluation.step_ns);
      EXPECT_EQ(t.exposed_ep_ns > 0, strategy.ep * strategy.etp > 1);
      Setting setting(job);
      const Bounds bounds = lower_bounds(setting.costs, strategy);
      EXPECT_LE(bounds.step_ns, evaluation.step_ns);
      EXPECT_LE(bounds.peak, peak(evaluation));
    }
  }
}

// A wrong operand or order of an all_to_all_v is refused before anything runs.
TEST(Experts, VerifySeesWrongMovesOfRows) {
  JobSpec job = experts_job();
  job.cluster->gpus = 0;
  Strategy strategy;
  strategy.dp = strategy.ep = 4;
  strategy.stages = {job.model.layers};
  const Plan plan = Planner(job).compile(strategy);
  ASSERT_TRUE(verify(plan, "p").empty());
  const auto refused = [&](const auto& fault) {
    Plan broken = plan;
    auto& segments = broken.programs[0].segments;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      for (Op& op : segments[SegmentId{static_cast<std::int32_t>(i)}].ops) {
        if (op.kind != OpKind::AllToAllV) continue;
        fault(op);
        const auto said = verify(broken, "p");
        return said.empty() ? "" : said.front().message;
      }
    }
    return std::string("no move of rows");
  };
  EXPECT_NE(refused([](Op& op) { op.inputs[2] = op.inputs[1]; }).find("counts of [1,8] are not"),
            std::string::npos);
  EXPECT_NE(refused([](Op& op) { op.attributes.stride = 3; }).find("stride=3 is no order"),
            std::string::npos);
  EXPECT_NE(refused([](Op& op) { op.inputs.pop_back(); }).find("it takes 3 inputs"),
            std::string::npos);
  EXPECT_NE(refused([](Op& op) { op.group.reset(); }).find("needs a group"), std::string::npos);
  // Read before the counts have come.
  EXPECT_NE(refused([](Op& op) { std::swap(op.inputs[0], op.outputs[0]); }), "");
}

std::int64_t rows(const PartitionedGraph& graph) {
  for (const PartitionedBlock& block : graph.kinds) {
    for (const LocalTensor& tensor : block.tensors) {
      if (tensor.name == "rows") return tensor.shape[0];
    }
  }
  return 0;
}

// Rows of the arena: local tokens * ep * min(top_k, experts / ep), or the factor times the mean.
TEST(Experts, RowsAreTheWorstCaseOrAFactorOfTheMean) {
  Strategy s;
  s.dp = s.ep = 4;  // 128 tokens a rank, 2 experts held
  const Setting worst(experts_job());
  EXPECT_EQ(rows(partition(worst.graph, s)), 1024);  // 128 * 4 * min(2, 2)
  s.dp = s.ep = 8;
  EXPECT_EQ(rows(partition(worst.graph, s)), 1024);  // 128 * 8 * min(2, 1)
  const Setting factor(experts_job(1.5));
  EXPECT_EQ(rows(partition(factor.graph, s)), 384);  // 1.5 * 128 * 2
}

// Gradients of experts are addends along edp of the second mesh, those of routers along all that
// split tokens.
TEST(Experts, GradientsAreReducedOnTheirOwnMesh) {
  const Setting setting(experts_job());
  Strategy s;
  s.dp = 4;
  s.ep = 2;
  const PartitionedGraph graph = partition(setting.graph, s);
  for (const PartitionedBlock& block : graph.kinds) {
    for (const LocalParameter& parameter : block.parameters) {
      const LocalTensor& weight = block.tensors[parameter.weight];
      const bool is_expert = weight.name.find(".experts.") != std::string::npos;
      const BucketClass& bucket = parameter.bucket;
      EXPECT_EQ(bucket.mesh, is_expert ? 1 : 0) << weight.name;
      EXPECT_EQ(to_string(mesh_of(graph, bucket.mesh), bucket.reduce), is_expert ? "edp" : "dp");
      if (is_expert) {
        EXPECT_EQ(weight.shape[0], 4) << weight.name;
      }
    }
  }
}

}  // namespace
}  // namespace mega::planner
