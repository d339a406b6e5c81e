// Groups on nodes, collectives, single ops.
#include <gtest/gtest.h>

#include "planner/cost/collective_time.h"
#include "planner/cost/op_time.h"
#include "planner/cost/topology.h"

namespace mega::planner {
namespace {

// Nodes of four, 100 GB/s and 1 us inside, 10 GB/s per NIC and 5 us between.
ClusterSpec cluster() {
  ClusterSpec c;
  c.gpu.peak_fp32 = FlopsPerSecond(1e12);
  c.gpu.peak_bf16 = FlopsPerSecond(312e12);
  c.gpu.bandwidth = BytesPerSecond(1e12);
  c.gpu.launch = Seconds(1e-6);
  c.nodes = 4;
  c.gpus_per_node = 4;
  c.gpus = 16;
  c.node = {"nvlink", BytesPerSecond(100e9), Seconds(1e-6)};
  c.network = {"infiniband", BytesPerSecond(10e9), Seconds(5e-6)};
  c.network.nics = 4;
  return c;
}

Mesh mesh(int pp, int dp, int tp) {
  return {"dense", {{"pp", pp}, {"dp", dp}, {"tp", tp}}};
}
Group along(int axis) {
  return {0, AxisSet::of(axis), {}};
}

TEST(Topology, InnermostAxesStayInsideANode) {
  const Mesh m = mesh(2, 2, 4);
  EXPECT_EQ(span_of(m, along(2), 4), (GroupSpan{4, 1, 4}));
  EXPECT_EQ(span_of(m, along(1), 4), (GroupSpan{2, 2, 1}));
  EXPECT_EQ(span_of(m, along(0), 4), (GroupSpan{2, 2, 1}));
  EXPECT_EQ(span_of(m, {0, all_axes(m), {}}, 4), (GroupSpan{16, 4, 4}));
  EXPECT_EQ(span_of(mesh(4, 2, 2), along(1), 4), (GroupSpan{2, 1, 2}));
  EXPECT_EQ(span_of(mesh(1, 6, 1), along(1), 4), (GroupSpan{6, 2, 2}));  // 4 and 2
  EXPECT_EQ(span_of(mesh(4, 1, 4), {0, AxisSet::of(0), {0, 3}}, 4), (GroupSpan{2, 2, 1}));
}

TEST(Topology, NicsAreShared) {
  ClusterSpec c = cluster();
  EXPECT_EQ(rate_per_rank(c, Tier::Network).count(), 10e9);
  c.network.nics = 1;
  EXPECT_EQ(rate_per_rank(c, Tier::Network).count(), 2.5e9);
  c.network.oversubscription = 2;
  EXPECT_EQ(rate_per_rank(c, Tier::Network).count(), 1.25e9);
  EXPECT_EQ(tier_between(3, 4, 4), Tier::Network);
  EXPECT_EQ(tier_between(4, 7, 4), Tier::Node);
}

TEST(CollectiveTime, InsideANodeIsARing) {
  const GroupSpan four{4, 1, 4};
  const Bytes bytes(1'000'000);
  // 2 * 3/4 * 1 MB / 100 GB/s + 2 * 3 us
  EXPECT_EQ(to_ns(collective_time(cluster(), OpKind::AllReduce, bytes, four)), 15'000 + 6'000);
  EXPECT_EQ(to_ns(collective_time(cluster(), OpKind::AllGather, bytes, four)), 7'500 + 3'000);
  EXPECT_EQ(to_ns(collective_time(cluster(), OpKind::ReduceScatter, bytes, four)), 7'500 + 3'000);
  EXPECT_EQ(to_ns(collective_time(cluster(), OpKind::AllReduce, bytes, {1, 1, 1})), 0);
}

TEST(CollectiveTime, BetweenNodesEachMemberBringsItsNic) {
  const Bytes bytes(1'000'000);
  // One member per node: 2 * 1/2 * 1 MB / 10 GB/s + 2 * 1 step of 5 us.
  EXPECT_EQ(to_ns(collective_time(cluster(), OpKind::AllReduce, bytes, {2, 2, 1})),
            100'000 + 10'000);
  // Two: 2 * 7/8 * 1 MB / 20 GB/s + 2 * (1 us + 2 steps of 5 us).
  EXPECT_EQ(to_ns(collective_time(cluster(), OpKind::AllReduce, bytes, {8, 4, 2})),
            87'500 + 22'000);
}

TEST(CollectiveTime, AMessageGoesOverItsTier) {
  EXPECT_EQ(to_ns(message_time(cluster(), Bytes(1'000'000), Tier::Node)), 10'000 + 1'000);
  EXPECT_EQ(to_ns(message_time(cluster(), Bytes(1'000'000), Tier::Network)), 100'000 + 5'000);
}

OpShape matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {OpKind::MatMul, "sbh,nh->sbn", {{m, 1, k}, {n, k}}, {{m, 1, n}}, {}};
}

TEST(OpTime, DeepProductsReachThePeakOfTheirPrecision) {
  ClusterSpec c = cluster();
  c.gpu.bandwidth = BytesPerSecond(1e15);
  // 2 * 4096 * 4096 * 256 flops at half of 312 TFLOP/s, as k = k0 there: 55.064 us + 1 us.
  EXPECT_EQ(op_ns(c.gpu, "bf16", matmul(4096, 4096, 256)), 55'064 + 1'000);
  // fp32 runs at the plain peak of 1 TFLOP/s with k0 = 256 / sqrt(312) = 14.49.
  EXPECT_EQ(op_ns(c.gpu, "fp32", matmul(4096, 4096, 256)), 9'076'244 + 1'000);
  c.gpu.efficiency.matmul = 0.5;
  EXPECT_EQ(op_ns(c.gpu, "bf16", matmul(4096, 4096, 256)), 110'127 + 1'000);
}

TEST(OpTime, ThinProductsMoveTheirWeights) {
  const OpShape thin = matmul(1, 1024, 1024);
  EXPECT_EQ(op_bytes(thin), Bytes(4 * (1024 + 1024 * 1024 + 1024)));
  EXPECT_EQ(op_ns(cluster().gpu, "bf16", thin), 4'202 + 1'000);  // 4.2 MB / 1 TB/s
}

TEST(OpTime, BytesAreThoseThatMove) {
  OpShape add{OpKind::Add, "sbh,sbh->sbh", {{2, 1, 8}, {2, 1, 8}}, {{2, 1, 8}}, {}};
  EXPECT_EQ(op_bytes(add), Bytes(3 * 4 * 16));
  OpShape weight{OpKind::MatMul, "sbn,sbh->nh", {{8, 1, 4}, {8, 1, 2}}, {{4, 2}}, {}};
  EXPECT_EQ(op_bytes(weight), Bytes(4 * (32 + 16 + 8)));
  weight.attributes.accumulate = 1;
  EXPECT_EQ(op_bytes(weight), Bytes(4 * (32 + 16 + 2 * 8)));
  // Two tokens read two rows of the table, not all of it.
  const OpShape look_up{OpKind::Embedding, "sb,vh->sbh", {{2, 1}, {1000, 8}}, {{2, 1, 8}}, {}};
  EXPECT_EQ(op_bytes(look_up), Bytes(4 * (2 + 16 + 16)));
  const OpShape back{
      OpKind::EmbeddingBackward, "sb,sbh->vh", {{2, 1}, {2, 1, 8}}, {{1000, 8}}, {.accumulate = 1}};
  EXPECT_EQ(op_bytes(back), Bytes(4 * (2 + 16 + 2 * 16)));
}

TEST(OpTime, CausalAttentionDoesHalfTheWork) {
  ClusterSpec c = cluster();
  c.gpu.launch = Seconds(0);
  const Shape q{512, 1, 8, 1, 64}, k{512, 1, 8, 64}, lse{512, 1, 8, 1};
  OpShape attention{OpKind::Attention, "sbgrd,tbgd,tbgd->sbgrd,sbgr", {q, k, k}, {q, lse}, {}};
  const std::int64_t full = op_ns(c.gpu, "fp32", attention);
  EXPECT_EQ(full, 536'871);  // 4 * 512 * 512 * 64 * 8 flops at 1 TFLOP/s
  attention.attributes.causal = true;
  EXPECT_EQ(op_ns(c.gpu, "fp32", attention), full / 2);
}

TEST(OpTime, PeakFallsBackToFp32) {
  GpuSpec gpu;
  gpu.peak_fp32 = FlopsPerSecond(1e9);
  EXPECT_EQ(peak_of(gpu, "bf16"), gpu.peak_fp32);
  EXPECT_EQ(peak_of(gpu, "fp8"), gpu.peak_fp32);
}

}  // namespace
}  // namespace mega::planner
