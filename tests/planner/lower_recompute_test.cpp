#include <gtest/gtest.h>

#include "planner/lower/partition.h"
#include "planner/lower/recompute.h"
#include "planner/model/add_backward.h"
#include "planner/model/build_model.h"
#include "planner/model/model_flops.h"
#include "tests/support/training.h"

namespace mega::planner {
namespace {

ModelGraph tiny_graph() {
  const JobSpec job = mega::testing::training_job(false);
  return add_backward(build_model(job.model, job.training.sequence_length));
}

const PartitionedBlock& layer_of(const PartitionedGraph& graph) {
  return graph.kinds[graph.chain[1]];
}

PartitionedGraph partitioned(const std::string& recompute) {
  Strategy strategy;
  strategy.recompute = *recompute_named(recompute);
  return partition(tiny_graph(), strategy);
}

TEST(RecomputeTest, FullKeepsTheInputAlone) {
  const PartitionedGraph graph = partitioned("full");
  EXPECT_EQ(layer_of(graph).saved, Bytes(0));
  EXPECT_GT(layer_of(partitioned("none")).saved, Bytes(0));
}

TEST(RecomputeTest, SelectiveKeepsLessTheMoreIsNamed) {
  const Bytes none = layer_of(partitioned("none")).saved;
  const Bytes norms = layer_of(partitioned("selective:norms")).saved;
  const Bytes both = layer_of(partitioned("selective:activation+norms")).saved;
  const Bytes mlp = layer_of(partitioned("selective:activation+mlp+norms")).saved;
  EXPECT_LT(norms, none);
  EXPECT_LT(both, norms);
  EXPECT_LT(mlp, both);
}

// The last product of the MLP feeds only the residual stream: backward never needs it.
TEST(RecomputeTest, DoesNotRepeatWhatBackwardDoesNotRead) {
  const ModelGraph graph = tiny_graph();
  const Block& layer = graph.kinds[graph.chain[1]];
  const Block full = recompute(layer, *recompute_named("full"));
  int products = 0, repeated = 0;
  for (const GraphOp& op : layer.forward) products += op.kind == OpKind::MatMul;
  for (const GraphOp& op : full.backward) repeated += op.is_recomputed && op.kind == OpKind::MatMul;
  EXPECT_EQ(products, 7);  // q, k, v, out, gate, up, down
  EXPECT_EQ(repeated, 6);
}

// By hand: norms and activations hold no product; full repeats all but the down projection.
TEST(RecomputeTest, CountsTheFlopsThatAreDoneAgain) {
  const ModelGraph graph = tiny_graph();
  EXPECT_EQ(recomputed_flops(graph, *recompute_named("selective:activation+norms")), Flops(0));
  const double s = 16, h = 32, heads = 4, kv = 2, d = 8, f = 64;
  const double products = 2 * s * h * (heads * d * 2 + 2 * kv * d + 2 * f);
  const double attention = 4 * s * s * d * heads / 2;
  EXPECT_EQ(recomputed_flops(graph, *recompute_named("full")), Flops(8 * (products + attention)));
}

// Of experts every op is marked as done again, the moves of rows among them.
TEST(RecomputeTest, MarksTheOpsOfExperts) {
  JobSpec job = mega::testing::training_job(false);
  MoeSpec moe;
  moe.experts = 4;
  moe.top_k = 2;
  moe.ffn_hidden = 24;
  job.model.moe = moe;
  const ModelGraph graph =
      add_backward(build_model(job.model, job.training.sequence_length, job.training.global_batch));
  Strategy strategy;
  strategy.dp = strategy.ep = 2;
  strategy.recompute = *recompute_named("selective:moe");
  const PartitionedGraph sharded = partition(graph, strategy);
  const auto count = [&](OpKind kind, bool is_recomputed) {
    int found = 0;
    for (const LocalOp& op : layer_of(sharded).backward) {
      found += op.kind == kind && op.is_recomputed == is_recomputed;
    }
    return found;
  };
  EXPECT_EQ(count(OpKind::AllToAll, true), 1);
  EXPECT_EQ(count(OpKind::AllToAllV, true), 2);   // there and back, done again
  EXPECT_EQ(count(OpKind::AllToAllV, false), 2);  // of the gradients
  // Gate, up and down: CombineRowsBackward reads what comes back.
  EXPECT_EQ(count(OpKind::GroupedMatMul, true), 3);
  const double rows = 16 * 2, h = 32, m = 24;
  const Recompute none, again = strategy.recompute;
  EXPECT_EQ(recomputed_flops(graph, none), Flops(0));
  EXPECT_EQ(recomputed_flops(graph, again), Flops(8 * (3 * 2 * rows * h * m + 2 * 16 * h * 4)));
}

}  // namespace
}  // namespace mega::planner
