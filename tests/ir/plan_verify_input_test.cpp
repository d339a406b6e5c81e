// What reads the batch stays inside it, rows of a sequence stay inside theirs.
#include <gtest/gtest.h>

#include "tests/support/plan_check.h"
#include "tests/support/plans.h"

namespace mega::testing {
namespace {

TEST(PlanVerifyInput, MicroBatchesStayInsideTheGlobalBatch) {
  EXPECT_REFUSED(edited(kBigram, "repeat 2", "repeat 3"),
                 "it reads samples 4 to 5 of a global batch of 4");
  EXPECT_REFUSED(edited(kBigram, "global_batch 4", "global_batch 3"),
                 "it reads samples 2 to 3 of a global batch of 3");
  EXPECT_REFUSED(edited(kBigram, "stride=2", "stride=9223372036854775807"),
                 "it reads samples beyond any batch");
  EXPECT_REFUSED(edited(kTensorAndData, "origin=2*dp", "origin=-2*dp"), "it reads samples");
}

TEST(PlanVerifyInput, SequencesOfTheHeaderAreRead) {
  EXPECT_REFUSED(edited(kBigram, "sequence_length 8", "sequence_length 7"),
                 "it reads 8 tokens of a sequence of 7");
  EXPECT_REFUSED(edited(kBigram, " sequence train\n", ""), "there is no batch to read yet");
}

TEST(PlanVerifyInput, TheHeaderHasWhatARunRelies) {
  EXPECT_REFUSED(edited(kBigram, "vocab 13", "vocab 0"), "vocab must be at least 1");
  EXPECT_REFUSED(edited(kBigram, "seed 1", "seed 1\nprecision fp12"), "unknown precision fp12");
  EXPECT_REFUSED(edited(kBigram, "peak=0.5", "peak=-0.5"), "must be finite and at least 0");
}

TEST(PlanVerifyInput, OptimizersGetNumbersThatTheyTake) {
  EXPECT_REFUSED(edited(kBigram, "beta1=0.9", "beta1=-5"), "beta1 and beta2 must be in [0, 1)");
  EXPECT_REFUSED(edited(kBigram, "beta1=0.9", "beta1=1"), "beta1 and beta2 must be in [0, 1)");
  EXPECT_REFUSED(edited(kBigram, "clip=1", "clip=-1"), "a negative epsilon or clip");
}

// Rows of a sequence in two zig-zag parts, eight tokens in all.
TEST(PlanVerifyInput, PartsOfASequenceAreOfOneSequence) {
  const auto with = [](const std::string& attributes) {
    return edited(kBigram, "input_tokens -> tokens | stride=2",
                  "input_tokens -> tokens | stride=2 " + attributes);
  };
  EXPECT_PROVED(with("length=8 parts=1"));
  EXPECT_REFUSED(with("length=8 parts=3"), "are not of one sequence");  // 8 is no multiple of 6
  EXPECT_REFUSED(with("length=8 parts=2 shift=3"), "are not of one sequence");
  EXPECT_REFUSED(with("parts=2"), "are not of one sequence");
  EXPECT_REFUSED(with("length=12"), "rows are no part of the sequence");
  EXPECT_REFUSED(with("length=8 origin=4*dp"), "doesn't give each rank rows of its own");
}

TEST(PlanVerifyInput, WhatMovesOnNeedsTwoBuffersOfOneShape) {
  const auto with = [](const std::string& op) {
    return edited(kTensorAndData, " segment reduce_head ns=500\n",
                  " segment reduce_head ns=500\n  " + op + "\n");
  };
  EXPECT_REFUSED(with("ring_shift head_gradient_flat -> head_gradient_flat | along=dp"),
                 "needs two buffers of one shape");
  EXPECT_REFUSED(with("ring_shift head_gradient -> table_gradient_flat | along=dp"),
                 "needs two buffers of one shape");
  EXPECT_REFUSED(with("pack:sbg->xsby head_gradient -> table_gradient"), "are no packing");
}

}  // namespace
}  // namespace mega::testing
