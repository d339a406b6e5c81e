#include "planner/lower/partition.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/lower/assign_memory.h"
#include "planner/lower/emit_plan.h"
#include "tests/support/small_jobs.h"

namespace mega::planner {
namespace {

const PartitionedBlock& block_of(const PartitionedGraph& graph, const std::string& name) {
  for (const PartitionedBlock& block : graph.kinds) {
    if (block.name == name) return block;
  }
  ADD_FAILURE() << "no block " << name;
  return graph.kinds[BlockKindId{0}];
}

std::map<OpKind, int> collectives(const std::vector<LocalOp>& ops) {
  std::map<OpKind, int> counts;
  for (const LocalOp& op : ops) {
    if (is_collective(op.kind)) ++counts[op.kind];
  }
  return counts;
}

PartitionedGraph partitioned(bool is_tied, int tp, bool sequence_parallel, int dp = 1) {
  const Setting setting(small_job(is_tied));
  Strategy strategy;
  strategy.tp = tp;
  strategy.dp = dp;
  strategy.sequence_parallel = sequence_parallel;
  return partition(setting.graph, strategy);
}

using Counts = std::map<OpKind, int>;

TEST(Partition, OneRankHasNoCollective) {
  for (const PartitionedBlock& block : partitioned(true, 1, false).kinds) {
    EXPECT_EQ(collectives(block.forward), Counts());
    EXPECT_EQ(collectives(block.backward), Counts());
  }
}

// Megatron's f and g (Shoeybi et al. 2019, figure 3) follow from the letters: two all_reduces a
// layer each way.
TEST(Partition, TensorParallelLayersReduceTwiceEachWay) {
  const PartitionedGraph graph = partitioned(true, 2, false);
  const PartitionedBlock& layer = block_of(graph, "layer");
  EXPECT_EQ(collectives(layer.forward), (Counts{{OpKind::AllReduce, 2}}));
  EXPECT_EQ(collectives(layer.backward), (Counts{{OpKind::AllReduce, 2}}));
}

// Sequence parallelism (Korthikanti et al. 2022, figure 5): two gathers and two scatters forward;
// backward also gathers the two saved inputs again.
TEST(Partition, SequenceParallelLayersGatherAndScatter) {
  const PartitionedGraph graph = partitioned(false, 2, true);
  const PartitionedBlock& layer = block_of(graph, "layer");
  EXPECT_EQ(collectives(layer.forward),
            (Counts{{OpKind::AllGather, 2}, {OpKind::ReduceScatter, 2}}));
  EXPECT_EQ(collectives(layer.backward),
            (Counts{{OpKind::AllGather, 4}, {OpKind::ReduceScatter, 2}}));
}

// D06: gradients of what every tensor rank holds whole are addends along tp, and only under
// sequence parallelism.
TEST(Partition, D06_NormsAreReducedAlongTensorRanks) {
  for (const bool sequence_parallel : {false, true}) {
    const PartitionedGraph graph = partitioned(true, 2, sequence_parallel);
    const AxisSet tensor = AxisSet::of(axis_index(graph.mesh, "tp"));
    int replicated = 0;
    for (const PartitionedBlock& block : graph.kinds) {
      for (const LocalParameter& parameter : block.parameters) {
        if (!parameter.bucket.sharded.empty()) {
          EXPECT_TRUE(parameter.bucket.reduce.empty());
          continue;
        }
        ++replicated;
        EXPECT_EQ(parameter.bucket.reduce, sequence_parallel ? tensor : AxisSet{})
            << block.tensors[parameter.weight].name;
      }
    }
    EXPECT_EQ(replicated, 9);  // 2 norms of 2, 2 biases, final norm of 2, the position table
  }
}

TEST(Partition, ShardsOfAParameterMakeUpTheWhole) {
  for (const int tp : {1, 2, 4}) {
    const PartitionedGraph graph = partitioned(false, tp, tp > 1);
    for (const PartitionedBlock& block : graph.kinds) {
      for (const LocalParameter& parameter : block.parameters) {
        const LocalTensor& weight = block.tensors[parameter.weight];
        std::int64_t padded = 1;
        for (const char letter : weight.letters) padded *= graph.extents[letter];
        EXPECT_EQ(element_count(weight.shape) * extent(graph.mesh, sharded(weight.sharding)),
                  padded)
            << weight.name;
      }
    }
  }
}

// Scratch of one direction never overlaps while both tensors live.
TEST(PackScratch, LiveTensorsAreApart) {
  for (const bool is_tied : {false, true}) {
    const PartitionedGraph graph = partitioned(is_tied, 4, true, 2);
    for (const PartitionedBlock& block : graph.kinds) {
      for (const std::vector<LocalOp>* ops : {&block.forward, &block.backward}) {
        std::map<TensorId, std::pair<int, int>> lives;
        for (int i = 0; i < static_cast<int>(ops->size()); ++i) {
          const LocalOp& op = (*ops)[static_cast<std::size_t>(i)];
          for (const auto* operands : {&op.inputs, &op.outputs}) {
            for (const TensorId id : *operands) {
              if (block.tensors[id].home != Home::Scratch) continue;
              lives.emplace(id, std::pair{i, i}).first->second.second = i;
            }
          }
        }
        for (const auto& [a, live_a] : lives) {
          for (const auto& [b, live_b] : lives) {
            if (!(a < b) || live_a.second < live_b.first || live_b.second < live_a.first) continue;
            const LocalTensor &x = block.tensors[a], &y = block.tensors[b];
            const bool is_apart = x.offset + bytes_of(x.dtype, x.shape) <= y.offset ||
                                  y.offset + bytes_of(y.dtype, y.shape) <= x.offset;
            EXPECT_TRUE(is_apart) << x.name << " and " << y.name;
          }
        }
      }
    }
  }
}

TEST(AssignMemory, CutsCoverTheChain) {
  const std::vector<BlockRange> ranges = cut_blocks({2, 3, 1});
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[0], (BlockRange{0, 3}));  // the embedding joins the first
  EXPECT_EQ(ranges[1], (BlockRange{3, 3}));
  EXPECT_EQ(ranges[2], (BlockRange{6, 2}));  // and the head the last
  EXPECT_EQ(cut_blocks({0, 2, 0}), (std::vector<BlockRange>{{0, 1}, {1, 2}, {3, 1}}));
  Strategy strategy;
  strategy.pp = strategy.vpp = 2;
  strategy.stages = {1, 1, 1, 1};
  EXPECT_EQ(chunks_of_rank(strategy, 1), (std::vector<ChunkLayout>{{{2, 1}, 0}, {{4, 2}, 1}}));
  strategy.schedule = ScheduleKind::ZbV;  // rank 1 is the bottom: stages 1 and 2 share a slot
  EXPECT_EQ(chunks_of_rank(strategy, 1), (std::vector<ChunkLayout>{{{2, 1}, 0}, {{3, 1}, 0}}));
  EXPECT_EQ(chunks_of_rank(strategy, 0), (std::vector<ChunkLayout>{{{0, 2}, 0}, {{4, 2}, 1}}));
}

Instruction run(int segment, std::int64_t micro_batch) {
  Run body;
  body.segment = SegmentId{segment};
  body.micro_batch = body.slot = Affine{micro_batch, 0};
  return {QueueId{0}, {}, body};
}

// What the steps stand for, written out.
std::vector<Instruction> expanded(const std::vector<Step>& steps) {
  std::vector<Instruction> all;
  const auto at = [](Instruction instruction, std::int64_t turn) {
    Run& body = std::get<Run>(instruction.body);
    for (auto* affine : {&body.micro_batch, &body.slot}) {
      if (*affine) *affine = Affine{(*affine)->at(turn), 0};
    }
    return instruction;
  };
  for (const Step& step : steps) {
    if (const auto* one = std::get_if<Instruction>(&step)) {
      all.push_back(*one);
      continue;
    }
    const Repeat& repeat = std::get<Repeat>(step);
    for (std::int64_t turn = 0; turn < repeat.count; ++turn) {
      for (const Instruction& each : repeat.body) all.push_back(at(each, turn));
    }
  }
  return all;
}

TEST(Compress, FoldsTheSteadyStateAndNothingElse) {
  std::vector<Instruction> program = {run(0, 0), run(0, 1)};
  for (std::int64_t i = 0; i < 100; ++i) {
    program.push_back(run(0, i + 2));
    program.push_back(run(1, i));
  }
  program.push_back(run(1, 100));
  program.push_back(run(1, 101));
  const std::vector<Step> steps = compress(program);
  EXPECT_LE(steps.size(), 6U);
  EXPECT_EQ(expanded(steps), program);
}

TEST(Compress, LeavesWhatDoesNotRepeat) {
  const std::vector<Instruction> program = {run(0, 0), run(1, 5), run(2, 1), run(0, 9)};
  const std::vector<Step> steps = compress(program);
  EXPECT_EQ(steps.size(), program.size());
  EXPECT_EQ(expanded(steps), program);
}

}  // namespace
}  // namespace mega::planner
