#include "runtime/tensors.h"

#include <gtest/gtest.h>

#include <numeric>

namespace mega::runtime {
namespace {

// Axes "row" and "column" of two; one program whose only buffer is `local` of a tensor `global`.
Plan plan_of(const Shape& local, const Shape& global, std::vector<AxisSet> axes) {
  Plan plan;
  plan.meshes = {{"ranks", {{"row", 2}, {"column", 2}}}};
  plan.queues = {"compute"};
  Program program;
  program.name = "only";
  Buffer buffer{"w", DType::Fp32, local, Region::Persistent, -1, {}, {}, {}, {}};
  buffer.shard = Shard{Role::Parameter, "weight", global, 0, std::move(axes)};
  program.buffers.add(buffer);
  program.persistent = Bytes(256);
  plan.programs = {program};
  plan.assignment = {0};
  return plan;
}

struct Ranks {
  Ranks() : memory(4, std::vector<float>(64)) {
    for (auto& rank : memory) arenas.push_back(reinterpret_cast<std::byte*>(rank.data()));
  }
  std::vector<std::vector<float>> memory;
  std::vector<std::byte*> arenas;
};

TEST(Tensors, GatherPutsBoxesTogetherAndDropsPadding) {
  // [3,5] in boxes of [2,3]: the last row and column are padding.
  const Plan plan = plan_of({2, 3}, {3, 5}, {AxisSet::of(0), AxisSet::of(1)});
  Ranks ranks;
  for (int rank = 0; rank < 4; ++rank) {
    for (int i = 0; i < 6; ++i) {
      const int row = rank / 2 * 2 + i / 3;
      const int column = rank % 2 * 3 + i % 3;
      ranks.memory[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)] =
          static_cast<float>(row < 3 && column < 5 ? row * 5 + column : -1);
    }
  }
  const auto tensors = gather(plan, ranks.arenas, Role::Parameter);
  ASSERT_TRUE(tensors.ok());
  ASSERT_EQ(tensors.value().size(), 1U);
  EXPECT_EQ(tensors.value()[0].name, "weight");
  std::vector<float> expected(15);
  std::iota(expected.begin(), expected.end(), 0.0F);
  EXPECT_EQ(tensors.value()[0].data, expected);
  EXPECT_TRUE(gather(plan, ranks.arenas, Role::Gradient).value().empty());
}

TEST(Tensors, GatherTakesTheLowestRankOfCopies) {
  const Plan plan = plan_of({2}, {4}, {AxisSet::of(0)});
  Ranks ranks;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks.memory[rank][0] = static_cast<float>(10 * rank);
    ranks.memory[rank][1] = static_cast<float>(10 * rank + 1);
  }
  EXPECT_EQ(gather(plan, ranks.arenas, Role::Parameter).value()[0].data,
            (std::vector<float>{0, 1, 20, 21}));
}

TEST(Tensors, GatherRefusesHoles) {
  const Plan plan = plan_of({2}, {8}, {AxisSet::of(0)});  // 2 * 2 of 8
  const Ranks ranks;
  const auto tensors = gather(plan, ranks.arenas, Role::Parameter);
  ASSERT_FALSE(tensors.ok());
  EXPECT_EQ(tensors.errors().front().message,
            "tensor 'weight' has 4 of its 8 elements on the ranks");
}

// A bucket of 8 over the rows, 4 each; the tensor [3,2] begins at its element 1. Rank 0 holds the
// first 3 of its elements, rank 2 the rest.
Plan plan_of_parts() {
  Plan plan = plan_of({4}, {4}, {AxisSet{}});
  Program& program = plan.programs[0];
  program.buffers[BufferId{0}].shard.reset();
  Buffer part{"w.part", DType::Fp32, {3, 2}, Region::Persistent, -1, Bytes(4), {}, {}, {}};
  part.parent = BufferId{0};
  part.move = Move{0, AxisSet::of(0), -16};
  part.shard = Shard{Role::Parameter, "weight", {3, 2}, 0, {{}, {}}};
  program.buffers.add(part);
  return plan;
}

TEST(Tensors, GatherPutsPartsOfABucketTogether) {
  Ranks ranks;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t element = rank / 2 * 4 + i;  // of the bucket, one before the tensor's
      ranks.memory[rank][i] = static_cast<float>(element) - 1;
    }
  }
  const auto tensors = gather(plan_of_parts(), ranks.arenas, Role::Parameter);
  ASSERT_TRUE(tensors.ok());
  EXPECT_EQ(tensors.value()[0].data, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(compare_replicas(plan_of_parts(), ranks.arenas).ok());
  ranks.memory[3][3] = 9;  // past the tensor's end
  EXPECT_TRUE(compare_replicas(plan_of_parts(), ranks.arenas).ok());
  ranks.memory[3][2] = 9;
  EXPECT_FALSE(compare_replicas(plan_of_parts(), ranks.arenas).ok());
}

TEST(Tensors, WorkingCopiesAreNoTensors) {
  Plan plan = plan_of({2}, {4}, {AxisSet::of(0)});
  plan.programs[0].buffers[BufferId{0}].shard->role = Role::WorkingCopy;
  Ranks ranks;
  ranks.memory[2][1] = 5;
  EXPECT_TRUE(compare_replicas(plan, ranks.arenas).ok());
  EXPECT_TRUE(gather(plan, ranks.arenas, Role::Parameter).value().empty());
}

// Case D02: the first bit of drift is found.
TEST(Tensors, CopiesThatDifferAreNamed) {
  const Plan plan = plan_of({2}, {4}, {AxisSet::of(0)});
  Ranks ranks;
  EXPECT_TRUE(compare_replicas(plan, ranks.arenas).ok());
  ranks.memory[2][1] = 5;  // its copy is rank 3, not rank 0
  const Status status = compare_replicas(plan, ranks.arenas);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.errors().front().message,
            "copies of tensor 'weight' differ between rank 2 (row=1,column=0) and "
            "rank 3 (row=1,column=1), first at element 1");
  ranks.memory[3][1] = 5;
  EXPECT_TRUE(compare_replicas(plan, ranks.arenas).ok());
  ranks.memory[2][0] = 0.0F;
  ranks.memory[3][0] = -0.0F;  // equal, yet other bits
  EXPECT_FALSE(compare_replicas(plan, ranks.arenas).ok());
}

// Case D01: one global name on two programs is one tensor with copies.
TEST(Tensors, OneNameOnSeveralProgramsIsCompared) {
  Plan plan = plan_of({4}, {4}, {AxisSet{}});
  plan.programs.push_back(plan.programs[0]);
  plan.programs[1].name = "other";
  plan.by = AxisSet::of(0);
  plan.assignment = {0, 1};
  Ranks ranks;
  EXPECT_TRUE(compare_replicas(plan, ranks.arenas).ok());
  ranks.memory[2][3] = ranks.memory[3][3] = 1;
  EXPECT_FALSE(compare_replicas(plan, ranks.arenas).ok());
}

}  // namespace
}  // namespace mega::runtime
