#include "planner/spec/stage_string.h"

#include <gtest/gtest.h>

#include <numeric>

namespace mega::planner {
namespace {

// H06: DeepSeek-V3's 61 layers and one predictor on 16 ranks of two chunks.
TEST(StageString, H06_SixtyOneLayersOnThirtyTwoStages) {
  const StageString string = parse_stage_string("Et*3|(tt|)*29,m|L");
  EXPECT_EQ(string.error, "");
  ASSERT_EQ(string.layers.size(), 32U);
  EXPECT_EQ(std::accumulate(string.layers.begin(), string.layers.end(), 0), 61);  // 3 + 29 * 2
  // Rank r holds stages r and r + 16.
  EXPECT_EQ(string.layers[0], 3);
  EXPECT_EQ(string.layers[16], 2);
  EXPECT_EQ(string.layers[14], 2);
  EXPECT_EQ(string.layers[30], 0);
  EXPECT_EQ(string.predictors[30], 1);
  EXPECT_EQ(string.layers[15], 2);
  EXPECT_EQ(string.layers[31], 0);
  EXPECT_EQ(std::accumulate(string.predictors.begin(), string.predictors.end(), 0), 1);
}

TEST(StageString, StagesMayBeEmpty) {
  EXPECT_EQ(parse_stage_string("E||t|L").layers, (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(parse_stage_string("EttL").layers, std::vector<int>{2});
  EXPECT_EQ(parse_stage_string("E|((t)*2|)*2,L").layers, (std::vector<int>{0, 2, 2, 0}));
  EXPECT_EQ(parse_stage_string("Et*0|tL").layers, (std::vector<int>{0, 1}));
}

TEST(StageString, MistakesAreNamed) {
  EXPECT_EQ(parse_stage_string("tt|L").error, "must begin with E, the embedding, and have it once");
  EXPECT_EQ(parse_stage_string("Et|Et|L").error,
            "must begin with E, the embedding, and have it once");
  EXPECT_EQ(parse_stage_string("Et|Lt").error, "must end with L, the loss, and have it once");
  EXPECT_EQ(parse_stage_string("Em|tL").error,
            "has m, multi-token prediction, before its last layer");
  EXPECT_EQ(parse_stage_string("E(t|L").error, "has a '(' without ')'");
  EXPECT_EQ(parse_stage_string("Et)|L").error, "has a ')' without '('");
  EXPECT_EQ(parse_stage_string("Et*x|L").error, "has a '*' without a number of times");
  EXPECT_EQ(parse_stage_string("Ed|L").error, "has 'd' where E, t, m, L or | should be");
  EXPECT_EQ(parse_stage_string("E(((t*100)*100)*100)|L").error,
            "stands for more than 100000 letters");
}

}  // namespace
}  // namespace mega::planner
