#include "planner/strategy.h"

#include <gtest/gtest.h>

namespace mega::planner {
namespace {

TEST(Strategy, WorldAndMicroBatchesFollowFromTheDegrees) {
  Strategy s;
  s.tp = 8;
  s.pp = 16;
  s.dp = 8;
  EXPECT_EQ(world_size(s), 1024);
  EXPECT_EQ(micro_batches(s, 1536), 192);  // 1536 / (1 * 8)
  s.micro_batch = 2;
  EXPECT_EQ(micro_batches(s, 1536), 96);
}

TEST(Strategy, NamesReadBackAsTheirKinds) {
  for (const char* name : {"gpipe", "1f1b", "zb_h1", "zb_v", "dualpipe_v"}) {
    ASSERT_TRUE(schedule_named(name)) << name;
    EXPECT_EQ(to_string(*schedule_named(name)), name);
  }
  for (const char* name : {"ring", "all_gather", "ulysses"}) {
    ASSERT_TRUE(context_named(name)) << name;
    EXPECT_EQ(to_string(*context_named(name)), name);
  }
  for (const char* text : {"none", "full", "full:2", "selective:core_attention+norms"}) {
    ASSERT_TRUE(recompute_named(text)) << text;
    EXPECT_EQ(to_string(*recompute_named(text)), text);
  }
  const std::vector<std::string> all = {"gradient_reduce", "parameter_gather", "tensor", "pipeline",
                                        "expert"};
  EXPECT_EQ(names(*overlap_named(all)), all);
  EXPECT_EQ(overlap_named({}), Overlap());
}

TEST(Strategy, RecomputeModulesAreSortedOnce) {
  EXPECT_EQ(to_string(*recompute_named("selective:norms+mlp+norms")), "selective:mlp+norms");
}

TEST(Strategy, WordsThatNameNothingAreRefused) {
  EXPECT_FALSE(schedule_named("1F1B"));
  EXPECT_FALSE(context_named(""));
  EXPECT_FALSE(overlap_named({"pipeline", "gradients"}));
  for (const char* text : {"", "all", "full:", "full:0", "full:-1", "full:99999999999", "full:x",
                           "selective", "selective:", "selective:+norms"}) {
    EXPECT_FALSE(recompute_named(text)) << text;
  }
}

TEST(Strategy, SummaryNamesWhatDiffersFromOne) {
  Strategy s;
  EXPECT_EQ(summary(s), "mb1");
  s.tp = 2;
  s.pp = 4;
  s.vpp = 2;
  s.dp = 3;
  s.micro_batch = 2;
  s.sequence_parallel = true;
  s.overlap.pipeline = true;
  EXPECT_EQ(summary(s), "tp2 pp4 vpp2 dp3 mb2 sp +pipeline");
}

TEST(Strategy, PeakIsThatOfTheFullestStage) {
  Evaluation evaluation;
  EXPECT_EQ(peak(evaluation), Bytes());
  evaluation.memory.resize(2);
  evaluation.memory[1].total = Bytes(7);
  EXPECT_EQ(peak(evaluation), Bytes(7));
}

}  // namespace
}  // namespace mega::planner
