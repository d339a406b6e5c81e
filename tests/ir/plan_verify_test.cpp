// Each proof about one program: a plan that passes, and the fault that it is there for.
#include "ir/plan_verify.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(PlanVerify, SamplePlansAreProved) {
  EXPECT_PROVED(kBigram);
  EXPECT_PROVED(kTensorAndData);
  EXPECT_PROVED(kPipelineOfThree);
}

// ---- ids ----------------------------------------------------------------------------------------

TEST(PlanVerify, NumbersThatNameNothingAreOurMistakeAndRefused) {
  Plan plan = parsed(kBigram);
  plan.programs[0].segments[SegmentId{1}].ops[0].outputs[0] = BufferId{999};
  EXPECT_REFUSED(plan, "program all, segment prologue uses an unknown buffer");
  plan = parsed(kBigram);
  plan.assignment = {3};
  EXPECT_REFUSED(plan, "a rank runs an unknown program");
  plan = parsed(kBigram);
  std::get<Instruction>(plan.programs[0].sequences[1].steps[0]).queue = QueueId{7};
  EXPECT_REFUSED(plan, "sequence train has an unknown queue");
  plan = parsed(kBigram);
  plan.programs[0].chunks[0].slot_count = 0;
  EXPECT_REFUSED(plan, "chunk model has no slot");
  plan = parsed(kTensorAndData);
  plan.programs[0].segments[SegmentId{1}].ops[4].group->along = AxisSet{8};
  EXPECT_REFUSED(plan, "a group along unknown axes");
  EXPECT_REFUSED(Plan{}, "no mesh, no queue or no program");
}

// ---- layout -------------------------------------------------------------------------------------

TEST(PlanVerify, BuffersStayInTheirRegion) {
  EXPECT_REFUSED(edited(kBigram, "persistent=1728", "persistent=1664"),
                 "buffer gradient_square_sum at 1664 of 8 bytes leaves the persistent region of "
                 "1664");
  EXPECT_REFUSED(edited(kBigram, "slot_bytes=1344", "slot_bytes=1280"),
                 "buffer sum at 1280 of 64 bytes leaves a slot of chunk model of 1280");
  EXPECT_REFUSED(edited(kBigram, "scratch=1152", "scratch=1024"),
                 "buffer d_x at 832 of 256 bytes leaves the scratch region of 1024");
  EXPECT_REFUSED(
      edited(kBigram, "view head_flat [52] in head @0", "view head_flat [52] in head @4"),
      "buffer head_flat at 4 of 208 bytes leaves its parent head of 208");
}

TEST(PlanVerify, BuffersAndRegionsAreAligned) {
  EXPECT_REFUSED(edited(kBigram, "scratch=1152", "scratch=1150"),
                 "the scratch region has 1150 bytes, not a multiple of 64");
  EXPECT_REFUSED(edited(kBigram, "loss fp64 [] @1600", "loss fp64 [] @1608"),
                 "buffer loss at 1608 is not aligned to 64 bytes");
}

TEST(PlanVerify, BuffersDoNotOverlap) {
  EXPECT_REFUSED(edited(kBigram, "head [13,4] @256", "head [13,4] @192"),
                 "buffers table and head overlap: 0 to 208 and from 192");
  EXPECT_REFUSED(edited(kBigram, "slot x [8,2,4] @128", "slot x [8,2,4] @64"),
                 "buffers labels and x overlap");
}

TEST(PlanVerify, ShardsCoverTheirTensor) {
  EXPECT_PROVED(edited(kTensorAndData, "parameter = [13/tp,4]", "parameter = [14/tp,4]"));
  EXPECT_REFUSED(edited(kTensorAndData, "parameter = [13/tp,4]", "parameter = [15/tp,4]"),
                 "buffer table covers only 14 of the 15 elements of dimension 0 of table");
  EXPECT_REFUSED(edited(kTensorAndData, "parameter = [13/tp,4]", "parameter = [13/tp]"),
                 "buffer table of shape [7,4] holds a part of a tensor of shape [13]");
  EXPECT_REFUSED(edited(kTensorAndData, "parameter = [13/tp,4]", "parameter = [13/tp,4/tp]"),
                 "buffer table splits two dimensions over 'tp'");
  std::string text = edited(kPipelineOfThree, "parameter = [13,4]", "parameter both [13,4]");
  EXPECT_REFUSED(edited(text, "parameter = [4,4]", "parameter both [4,4]"),
                 "tensor both has shape [4,4] in program middle and [13,4] in program front");
}

// ---- ops ----------------------------------------------------------------------------------------

TEST(PlanVerify, OperandsFitTheirOp) {
  EXPECT_REFUSED(edited(kBigram, "matmul:sbh,vh->sbv x head", "matmul:sbh,vh->sbv x head_flat"),
                 "segment forward op 3, matmul: operand 'vh' has 2 dimensions, the buffer is [52]");
  EXPECT_REFUSED(edited(kBigram, "matmul:sbh,vh->sbv x head", "matmul:sbh,hv->sbv x head"),
                 "dimension 'h' is 4 and 13");
  EXPECT_REFUSED(edited(kBigram, "embedding tokens table", "embedding table"),
                 "takes 2 inputs and 1 outputs, got 1 and 1");
  EXPECT_REFUSED(edited(kBigram, "embedding tokens table", "embedding:sb,hv->sbh tokens table"),
                 "the letters 'sb,hv->sbh' are not 'sb,vh->sbh'");
  EXPECT_REFUSED(edited(kBigram, "vocab_max logits -> max", "vocab_max logits -> labels"),
                 "output 0, labels, is int32 instead of fp32");
  EXPECT_REFUSED(edited(kBigram, "vocab_max logits -> max | limit=13",
                        "vocab_max logits -> max | limit=13 accumulate"),
                 "it can't accumulate into that output");
  EXPECT_REFUSED(
      edited(kBigram, "vocab_max logits -> max | limit=13", "vocab_max logits -> max | limit=-1"),
      "a negative limit or stride");
}

TEST(PlanVerify, CollectivesHaveAGroupThatFits) {
  const std::string reduce = "all_reduce head_gradient_flat -> head_gradient_flat | sum along=dp";
  const auto with = [&](const std::string& op) { return edited(kTensorAndData, reduce, op); };
  EXPECT_REFUSED(with("all_reduce head_gradient_flat -> head_gradient_flat | sum"),
                 "a collective needs a group");
  EXPECT_REFUSED(with("all_reduce head_gradient_flat -> head_gradient_flat | along=dp"),
                 "it doesn't say how the parts are combined");
  EXPECT_REFUSED(with("all_reduce head_gradient_flat -> table_gradient_flat | sum along=dp"),
                 "input head_gradient_flat and output table_gradient_flat must be one buffer");
  EXPECT_REFUSED(with("all_gather head_gradient_flat -> table_gradient_flat | along=dp"),
                 "the whole of [28] is not 2 parts of [28] along 'dp'");
  EXPECT_REFUSED(with("add:n,n->n head_gradient_flat head_gradient_flat -> head_gradient_flat | "
                      "along=dp"),
                 "only collectives have a group");
}

TEST(PlanVerify, PartsOfAGroupAddUpToTheWhole) {
  std::string text = edited(kTensorAndData, "persistent=1216", "persistent=1408");
  text = edited(text, " view table_flat", " persistent part [14] @1216\n view table_flat");
  text = edited(text, " segment reduce_head ns=500\n",
                " segment reduce_head ns=500\n"
                "  reduce_scatter head_gradient_flat -> part | sum along=dp\n"
                "  all_gather part -> head_gradient_flat | along=dp\n");
  EXPECT_PROVED(text);
  EXPECT_REFUSED(edited(text, "persistent part [14]", "persistent part [13]"),
                 "the whole of [28] is not 2 parts of [13] along 'dp'");
}

// The own part of a bucket lies elsewhere on each rank.
TEST(PlanVerify, PartsThatMoveAreTheOwnOfTheirWhole) {
  std::string text = edited(kTensorAndData, " slot tokens",
                            " view own [14] in head_gradient_flat @0+56*dp\n slot tokens");
  text = edited(text, " segment reduce_head ns=500\n",
                " segment reduce_head ns=500\n"
                "  reduce_scatter head_gradient_flat -> own | sum along=dp\n"
                "  all_gather own -> head_gradient_flat | along=dp\n");
  EXPECT_PROVED(text);
  EXPECT_REFUSED(edited(text, "@0+56*dp", "@56-56*dp"), "output own lies on input");
  EXPECT_REFUSED(edited(text, "@0+56*dp", "@0+56*tp"), "output own lies on input");
  EXPECT_REFUSED(edited(text, "@0+56*dp", "@0+54*dp"), "moves by 54, no multiple of 4 bytes");
  EXPECT_REFUSED(edited(text, "@0+56*dp", "@4+56*dp"),
                 "buffer own leaves its parent head_gradient_flat on some ranks, but holds "
                 "no part of a tensor");
  EXPECT_REFUSED(edited(text, "@0+56*dp", "@4+56*dp gradient own [14]"),
                 "so it is only there to be annotated");
}

TEST(PlanVerify, OutputsLieOnInputsOnlyWhereTheOpAllowsIt) {
  // Element by element: the plan for two replicas writes the gradient over the logits.
  EXPECT_PROVED(kTensorAndData);
  EXPECT_REFUSED(edited(kBigram, "scratch d_x [8,2,4] @832", "scratch d_x [8,2,4] @576"),
                 "segment backward op 3, matmul: output d_x lies on input d_logits");
  EXPECT_REFUSED(edited(kBigram, "scratch target [8,2] @0", "view target [8,2] in sum @0"),
                 "outputs sum and target share bytes");
}

// ---- contents -----------------------------------------------------------------------------------

TEST(PlanVerify, ScratchIsWrittenBeforeItIsRead) {
  EXPECT_REFUSED(edited(kBigram,
                        "  cross_entropy_backward logits labels max sum tokens_per_step -> "
                        "d_logits | limit=13\n",
                        ""),
                 "segment backward op 1, matmul: reads scratch buffer d_logits before anything "
                 "wrote it");
}

TEST(PlanVerify, ScratchIsNotReusedBeforeItsLastUse) {
  std::string text = edited(kBigram, " scratch target", " scratch other [8,2] @0\n scratch target");
  // Reused after its last use: fine.
  const std::string loss =
      "  token_loss max sum target labels tokens_per_step -> loss | accumulate\n";
  EXPECT_PROVED(edited(text, loss, loss + "  fill:->sb -> other\n"));
  EXPECT_REFUSED(edited(text, loss, "  fill:->sb -> other\n" + loss),
                 "segment forward op 8, token_loss: reads target, but op 7 has put other in its "
                 "place");
}

TEST(PlanVerify, PersistentBuffersAreWrittenBeforeTheyAreRead) {
  EXPECT_REFUSED(edited(kBigram, "  fill -> table_velocity\n", ""),
                 "train instruction 4, run update: it reads table_velocity before anything wrote "
                 "it");
  // Without momentum nobody reads it.
  EXPECT_PROVED(edited(edited(kBigram, "  fill -> table_velocity\n", ""), "beta1=0.9", "beta1=0"));
  EXPECT_REFUSED(edited(kBigram, "  fill -> head_gradient_flat\n", ""),
                 "train instruction 3 (i=0), run backward mb=0 slot=0: it reads head_gradient_flat "
                 "before anything wrote it");
}

TEST(PlanVerify, ASlotHoldsTheMicroBatchThatItsReaderWants) {
  EXPECT_REFUSED(edited(kPipelineOfThree, "run backward mb=2 slot=0 after p2p",
                        "run backward mb=2 slot=1 after p2p"),
                 "middle (pp=1): train instruction 16, run backward mb=2 slot=1: it reads x of "
                 "slot 1 for micro-batch 2, which holds micro-batch 3");
  // Two slots where three micro-batches are in flight: the third overwrites the first.
  Plan plan = parsed(kPipelineOfThree);
  plan.programs[0].chunks[0].slot_count = 2;
  EXPECT_REFUSED(plan,
                 "front (pp=0): train instruction 8, run backward mb=0 slot=0: it reads tokens of "
                 "slot 0 for micro-batch 0, which holds micro-batch 2");
  EXPECT_REFUSED(plan, "written by train instruction 6, run forward mb=2 slot=2");
}

TEST(PlanVerify, EveryMicroBatchRunsOnce) {
  EXPECT_REFUSED(edited(kBigram, "run forward mb=i", "run forward mb=0"),
                 "train instruction 2 (i=1), run forward mb=0 slot=0: the segment has run on this "
                 "micro-batch before");
  const std::string gap = edited(kBigram, "run forward mb=i", "run forward mb=2*i");
  EXPECT_REFUSED(edited(gap, "run backward mb=i", "run backward mb=2*i"),
                 "all: chunk model never runs micro-batch 1 of 3");
  EXPECT_REFUSED(edited(kBigram, "run forward mb=i", "run forward mb=i-1"), "negative micro-batch");
  EXPECT_REFUSED(edited(kBigram, "run forward mb=i slot=0", "run forward mb=i"),
                 "it works on a slot, but doesn't say mb= and slot=");
  EXPECT_REFUSED(edited(kBigram, "run update", "run update mb=0"),
                 "the segment works on no chunk, so it has no micro-batch");
}

// ---- order --------------------------------------------------------------------------------------

TEST(PlanVerify, EveryReadWaitsForItsWrite) {
  EXPECT_REFUSED(
      edited(kPipelineOfThree, "run backward mb=0 slot=0 after p2p", "run backward mb=0 slot=0"),
      "front (pp=0): train instruction 8, run backward mb=0 slot=0: it reads d_y of "
      "slot 0 without waiting for train instruction 7, exchange along pp, send y mb=2 "
      "to +1, receive d_y mb=0 from +1, which writes it");
  EXPECT_REFUSED(edited(kPipelineOfThree, "slot=0 to +1 on p2p after compute ns=100",
                        "slot=0 to +1 on p2p ns=100"),
                 "it reads y of slot 0 without waiting for train instruction 2, run forward mb=0");
  // One instruction of p2p may be under way, and it is the one that matters.
  EXPECT_REFUSED(edited(kPipelineOfThree, "run backward mb=0 slot=0 after p2p",
                        "run backward mb=0 slot=0 after p2p~1"),
                 "it reads d_y of slot 0 without waiting");
}

TEST(PlanVerify, NothingIsOverwrittenBeforeItsReadersAreDone) {
  EXPECT_REFUSED(edited(kTensorAndData, "run update after reduce", "run update"),
                 "run update: it reads table_gradient_flat without waiting for train instruction "
                 "6, run reduce_table, which writes it");
  Plan plan = parsed(kPipelineOfThree);
  plan.programs[0].chunks[0].slot_count = 1;
  EXPECT_REFUSED(plan,
                 "train instruction 4, run forward mb=1 slot=1: it writes y of slot 0 without "
                 "waiting for train instruction 3, exchange along pp, send y mb=0 to +1, which "
                 "reads it");
}

TEST(PlanVerify, TransfersOfOneExchangeShareNothing) {
  EXPECT_REFUSED(edited(kPipelineOfThree, "send y mb=2 slot=2 to +1, receive d_y mb=0 slot=0",
                        "send y mb=2 slot=2 to +1, receive y mb=0 slot=2"),
                 "two of its transfers share y of slot 2");
}

TEST(PlanVerify, LongListsAreCutAndCounted) {
  Plan plan = parsed(testing::pipeline_plan({.stages = 16, .micro_batches = 40}));
  for (Program& program : plan.programs) {
    for (Step& step : program.sequences[1].steps) {
      auto* one = std::get_if<Instruction>(&step);
      if (one != nullptr) one->waits.clear();
    }
  }
  const std::vector<Diagnostic> violations = verify(plan, "p.plan");
  EXPECT_EQ(violations.size(), 51U);
  EXPECT_NE(violations.back().message.find("more rules that are not listed"), std::string::npos);
}

}  // namespace
}  // namespace mega
