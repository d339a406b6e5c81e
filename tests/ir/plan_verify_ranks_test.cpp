// The proofs about several ranks: collectives, transfers, circles of waits.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "ir/plan_verify.h"
#include "tests/support/pipeline_plan.h"
#include "tests/support/plan_check.h"
#include "tests/support/plans.h"

namespace mega {
namespace {

using testing::edited;
using testing::kBigram;
using testing::kPipelineOfThree;
using testing::kTensorAndData;
using testing::parsed;
using testing::pipeline_plan;

// ---- collectives --------------------------------------------------------------------------------

const std::string kReduceSquares =
    "  all_reduce:-> gradient_square_sum -> gradient_square_sum | sum along=pp\n";
const std::string kReduceLoss = "  all_reduce:-> loss -> loss | sum along=pp\n";

TEST(PlanVerifyRanks, MembersIssueTheSameCollectives) {
  EXPECT_REFUSED(edited(kPipelineOfThree, kReduceLoss, ""),
                 "front (pp=0) issues 2 collectives along 'pp' on queue compute, middle (pp=1) 3; "
                 "the first without partner is all_reduce sum of 1 fp64 of middle (pp=1): train "
                 "instruction 21, run update");
  EXPECT_REFUSED(edited(kPipelineOfThree, kReduceLoss,
                        "  all_reduce table_gradient_flat -> table_gradient_flat | sum along=pp\n"),
                 "number 3 of the collectives along 'pp' on queue compute differs: all_reduce sum "
                 "of 52 fp32 for front (pp=0)");
}

TEST(PlanVerifyRanks, MembersIssueCollectivesInTheSameOrder) {
  // The same two on every rank, in another order on one: sizes are equal, so only the order of
  // two groups tells. Along pp and along the same ranks by another name.
  std::string text = edited(kPipelineOfThree, "mesh all pp=3", "mesh all pp=3\nmesh other stage=3");
  for (int i = 0; i < 3; ++i) {
    text = edited(text, kReduceLoss, "  all_reduce:-> loss -> loss | sum along=other@stage\n");
  }
  EXPECT_PROVED(text);
  const std::string loss = "  all_reduce:-> loss -> loss | sum along=other@stage\n";
  EXPECT_REFUSED(edited(text, kReduceSquares + loss, loss + kReduceSquares),
                 "ranks wait for each other in a circle");
}

TEST(PlanVerifyRanks, OnlyMembersIssueACollective) {
  std::string text = kPipelineOfThree;
  for (int i = 0; i < 3; ++i) {
    text = edited(text, "  all_reduce:-> loss -> loss | sum along=pp\n",
                  "  all_reduce:-> loss -> loss | sum along=pp{0,2}\n");
  }
  EXPECT_REFUSED(text,
                 "middle (pp=1): segment update op 3, all_reduce: the rank is not a member of its "
                 "group");
  const std::size_t middle = text.find("program middle");
  const std::string rest =
      edited(text.substr(middle), "  all_reduce:-> loss -> loss | sum along=pp{0,2}\n", "");
  EXPECT_PROVED(text.substr(0, middle) + rest);
}

// F04: collectives of the same ranks on two queues.
TEST(PlanVerifyRanks, CollectivesOfTheSameRanksOnTwoQueuesHaveAnOrder) {
  // Groups along dp and along tp share one rank: their order on one rank tells no other rank.
  EXPECT_PROVED(kTensorAndData);
  // Gradients reduced over all ranks while the backward's tp reduction runs: two common ranks.
  const std::string reduce = "all_reduce head_gradient_flat -> head_gradient_flat | sum along=dp";
  const std::string text = edited(kTensorAndData, reduce, reduce + "+tp");
  EXPECT_REFUSED(
      text,
      "all: train instruction 5, run backward_table mb=0 slot=0 and train instruction 4, run "
      "reduce_head run collectives of the same ranks on two queues in no order: along 'tp' "
      "on compute and along 'dp,tp' on reduce");
}

// ---- transfers ----------------------------------------------------------------------------------

TEST(PlanVerifyRanks, EverySendIsReceived) {
  // One send less: the next one takes its place, and is the wrong micro-batch.
  EXPECT_REFUSED(edited(kPipelineOfThree, "send y mb=2 slot=2 to +1, receive", "receive"),
                 "micro-batch 3 is sent, and received as micro-batch 2 by middle (pp=1): train "
                 "instruction 9, exchange along pp, send d_x mb=0 to -1, receive x mb=2 from -1");
  EXPECT_REFUSED(edited(kPipelineOfThree, "send y mb=3 slot=0 to +1, receive", "receive"),
                 "receive x mb=3 from -1: front (pp=0) never sends x on queue p2p");
  EXPECT_REFUSED(
      edited(kPipelineOfThree,
             "  exchange pp receive d_y mb=3 slot=3%3 from +1 on p2p after compute\n", ""),
      "front (pp=0) never receives d_x on queue p2p");
}

TEST(PlanVerifyRanks, MessagesArriveAsTheyWereSent) {
  EXPECT_REFUSED(edited(kPipelineOfThree, "slot x [8,2,4] @0", "slot x [4,4,4] @0"), "dimension");
  Plan plan = parsed(kPipelineOfThree);
  plan.programs[0].buffers[find_buffer(plan.programs[0], "y").value()].shape = {8, 2, 2};
  EXPECT_REFUSED(plan, "dimension 'h' is 4 and 2");
  std::string text = edited(kPipelineOfThree, " slot d_y [8,2,4] @320",
                            " slot d_y [8,2,4] @320\n view half [8,1,4] in y @0");
  EXPECT_REFUSED(edited(text, "send y mb=0 slot=0 to +1", "send half mb=0 slot=0 to +1"),
                 "fp32 [8,1,4] is sent, and received as fp32 [8,2,4] by middle (pp=1): train "
                 "instruction 2, exchange along pp, receive x mb=0 from -1");
}

TEST(PlanVerifyRanks, MessagesBelongToOneMicroBatch) {
  // Stage 0 sends its first two micro-batches the other way round.
  std::string text = edited(kPipelineOfThree, "run forward mb=0 slot=0\n  exchange pp send y mb=0",
                            "run forward mb=1 slot=0\n  exchange pp send y mb=1");
  text = edited(text, "run forward mb=1 slot=1\n  exchange pp send y mb=1",
                "run forward mb=0 slot=1\n  exchange pp send y mb=0");
  EXPECT_REFUSED(text, "micro-batch 1 is sent, and received as micro-batch 0 by middle (pp=1)");
}

TEST(PlanVerifyRanks, NobodySendsToItself) {
  EXPECT_REFUSED(edited(kPipelineOfThree, "to +1 on p2p", "to +3 on p2p"),
                 "a transfer to the rank itself");
}

// ---- circles ------------------------------------------------------------------------------------

// F02: with sends first and receives second, or the other way round, two neighbours wait for each
// other; two stages don't show what three do. One exchange for both runs without buffers.
TEST(PlanVerifyRanks, PairedTransfersOfEveryPipelineEndWithoutBuffers) {
  for (const int stages : {2, 3, 4, 8}) {
    for (int micro_batches = 1; micro_batches <= 2 * stages; ++micro_batches) {
      EXPECT_PROVED(pipeline_plan({stages, micro_batches, true}))
          << stages << " stages, " << micro_batches << " micro-batches";
    }
  }
}

TEST(PlanVerifyRanks, SendsBeforeReceivesAreACircle) {
  for (const int stages : {2, 3, 4, 8}) {
    const std::string text = pipeline_plan({stages, 2 * stages, false});
    EXPECT_REFUSED(text, "ranks wait for each other in a circle");
  }
  const std::string two = pipeline_plan({2, 3, false});
  EXPECT_REFUSED(two, "stage0 (pp=0): train instruction ");
  EXPECT_REFUSED(two, "stage1 (pp=1): train instruction ");
}

// Ranks that run one program stand for each other; a ring of lone sends is a circle among them.
TEST(PlanVerifyRanks, ARingOfLoneSendsIsACircle) {
  const auto ring = [](const std::string& transfers) {
    return edited(edited(kBigram, "mesh all dp=1", "mesh all dp=4"), "  run prologue\n",
                  "  run prologue\n" + transfers);
  };
  EXPECT_PROVED(ring("  exchange dp send loss to +1, receive gradient_square_sum from -1\n"));
  EXPECT_REFUSED(ring("  exchange dp send loss to +1\n"
                      "  exchange dp receive gradient_square_sum from -1\n"),
                 "ranks wait for each other in a circle");
  // On two queues the receive is there when the send comes.
  const std::string two = edited(ring("  exchange dp send loss to +1 on other after compute\n"
                                      "  exchange dp receive gradient_square_sum from -1\n"),
                                 "queue compute", "queue compute\nqueue other");
  EXPECT_REFUSED(two, "never");  // sends match receives per queue
}

TEST(PlanVerifyRanks, ACircleThroughACollectiveIsFound) {
  // Stage 0 sums the loss before it receives the last gradient, the others after that.
  std::string text = kPipelineOfThree;
  for (const char* const sequence : {"program front", "program middle", "program back"}) {
    const std::size_t at = text.find(sequence);
    text = text.substr(0, at) + edited(edited(text.substr(at), kReduceLoss, ""),
                                       " segment update ns=500\n",
                                       " segment sum\n" + kReduceLoss + " segment update ns=500\n");
  }
  const std::string last = "  exchange pp receive d_y mb=3 slot=3%3 from +1 on p2p after compute\n";
  const std::string early = edited(text, last, "  run sum\n" + last);
  std::string late = early;
  for (const char* const sequence : {"program middle", "program back"}) {
    const std::size_t at = late.find(sequence);
    late = late.substr(0, at) + edited(late.substr(at), "  run update after p2p\n",
                                       "  run update after p2p\n  run sum\n");
  }
  EXPECT_REFUSED(late, "ranks wait for each other in a circle");
  EXPECT_REFUSED(late, "front (pp=0): train instruction 14, run sum waits for middle (pp=1): ");
  EXPECT_PROVED(
      edited(edited(late, "  run sum\n", ""), "  run update\n", "  run update\n  run sum\n"));
}

// ---- cost ---------------------------------------------------------------------------------------

// 1,024 ranks in 16 stages of some ten thousand instructions each are proved in well under a
// second; the limit is wide because sanitizers and busy machines are slow.
TEST(PlanVerifyRanks, ALargePlanIsProvedQuickly) {
  std::string text = pipeline_plan({16, 2500, true});
  text = edited(text, "mesh all pp=16", "mesh all pp=16 dp=8 tp=8");
  const Plan plan = parsed(text);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_PROVED(plan);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
}

}  // namespace
}  // namespace mega
