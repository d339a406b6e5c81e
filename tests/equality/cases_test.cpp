// Failures from the field that training itself must not have, by the id of their case.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

bool has_segment(const Plan& plan, const std::string& name) {
  for (const Program& program : plan.programs) {
    for (const Segment& segment : program.segments) {
      if (segment.name == name) return true;
    }
  }
  return false;
}

// D01: tied copies get the sum of both gradients, stay the same bits (train() compares them after
// every step), and the loss is that of one rank.
TEST(Cases, D01_TiedEmbeddingsStayOne) {
  planner::JobSpec job = training_job(true);
  use_adamw(job);
  const Outcome one_rank = train(job, {}, 20);
  for (const Degrees degrees :
       {Degrees{.pp = 2}, Degrees{.pp = 4, .vpp = 2}, Degrees{.tp = 2, .pp = 2}}) {
    SCOPED_TRACE(name_of(degrees));
    expect_same_steps(train(job, degrees, 20), one_rank, 1e-4);
  }
}

// D01: where one rank holds both ends there is one copy, and nothing to sum.
TEST(Cases, D01_OneRankHoldsOneCopy) {
  const planner::JobSpec job = training_job(true);
  const Plan alone = plan_of(job, strategy_of(job, {.tp = 2, .dp = 2}));
  EXPECT_FALSE(has_segment(alone, "tied"));
  int copies = 0;
  for (const Buffer& buffer : alone.programs[0].buffers) {
    const bool is_weight = buffer.shard && buffer.shard->role == Role::Parameter;
    if (is_weight && buffer.shard->name == "wte.weight") ++copies;
  }
  EXPECT_EQ(copies, 1);
  EXPECT_TRUE(has_segment(plan_of(job, strategy_of(job, {.pp = 2})), "tied"));
}

// D02: with clipping active in every step the copies stay the same bits, and the tied weight
// counts once in the norm.
TEST(Cases, D02_ClippingKeepsTiedCopiesTogether) {
  planner::JobSpec job = training_job(true);
  job.training.optimizer.clip_grad = 0.01;
  const Outcome one_rank = train(job, {}, 10);
  ASSERT_GT(one_rank.norms[0], 0.01);
  for (const Degrees degrees : {Degrees{.pp = 2}, Degrees{.pp = 4, .vpp = 2},
                                Degrees{.tp = 2, .pp = 2, .sequence_parallel = true}}) {
    SCOPED_TRACE(name_of(degrees));
    expect_same_steps(train(job, degrees, 10), one_rank, 1e-5);
  }
}

// D04: the norm and the clip factor are the model's, not a stage's or a chunk's. Clipped SGD
// shows a wrong factor in the next loss.
TEST(Cases, D04_NormIsGlobal) {
  planner::JobSpec job = training_job(false);
  job.training.optimizer.clip_grad = 1.0;
  job.training.optimizer.learning_rate = 0.1;
  const Outcome one_rank = train(job, {}, 3);
  ASSERT_GT(one_rank.norms[0], 1.0) << "the clip must be active";
  for (const Degrees degrees : {Degrees{.pp = 2}, Degrees{.pp = 4}, Degrees{.pp = 2, .vpp = 2},
                                Degrees{.pp = 4, .vpp = 2}, Degrees{.tp = 2, .pp = 2}}) {
    SCOPED_TRACE(name_of(degrees));
    expect_same_steps(train(job, degrees, 3), one_rank, degrees.tp == 1 ? 1e-6 : 1e-5);
  }
}

// D15: a vocabulary that tp doesn't divide is padded, and padding enters no softmax.
TEST(Cases, D15_PaddedVocabularyChangesNothing) {
  planner::JobSpec job = training_job(true);
  job.model.layers = 1;
  job.model.vocab = 50257;
  job.model.vocab_multiple = 1;
  job.training.sequence_length = job.model.max_position = 4;
  job.training.global_batch = 2;
  use_adamw(job);
  job.training.optimizer.learning_rate = 1e-3;
  expect_same_steps(train(job, {.tp = 2}, 50), train(job, {}, 50), 1e-4);
}

// D15: 61 rows padded to 128 on 4 ranks: two of them hold padding alone.
TEST(Cases, D15_RanksOfPaddingAlone) {
  planner::JobSpec job = training_job(false);
  job.model.vocab_multiple = 1;
  job.model.layers = 2;
  const Outcome one_rank = train(job, {}, 1);
  job.model.vocab_multiple = 32;
  const Outcome padded = train(job, {.tp = 4, .sequence_parallel = true}, 1);
  expect_same_steps(padded, one_rank, 1e-5);
  expect_same_gradients(padded, one_rank);
}

// F01: 4 interleaved stages, 8 micro-batches, 200 steps with random delays before every transfer.
TEST(Cases, F01_InterleavedStagesNeverHang) {
  planner::JobSpec job = training_job(false);
  job.model.hidden = 8;
  job.model.heads = job.model.kv_heads = 1;
  job.model.ffn_hidden = 8;
  job.training.sequence_length = 2;
  job.training.global_batch = 8;
  runtime::SessionOptions options;
  options.delay_seed = 1;
  options.deadline = std::chrono::seconds(60);
  const Plan plan = plan_of(job, strategy_of(job, {.pp = 4, .vpp = 2}));
  expect_same_bits(train(plan, 200, options), train(plan, 200));
}

// F02: rendezvous transfers without a buffer, 2, 3, 4 and 8 stages.
TEST(Cases, F02_UnbufferedPipelinesEnd) {
  planner::JobSpec job = training_job(false);
  const Outcome one_rank = train(job, {}, 1);
  runtime::SessionOptions options;
  options.delay_seed = 2;
  options.deadline = std::chrono::seconds(60);
  for (const int pp : {2, 3, 4, 8}) {
    SCOPED_TRACE(pp);
    const Plan plan = plan_of(job, strategy_of(job, {.pp = pp}));
    expect_same_gradients(train(plan, 1, options), one_rank);
  }
}

// F07: one operation at a time computes the same bits.
TEST(Cases, F07_SerializedRunsEqual) {
  const planner::JobSpec job = training_job(true);
  runtime::SessionOptions options;
  options.serialize = true;
  for (const Degrees degrees : {Degrees{.tp = 2, .dp = 2}, Degrees{.pp = 4, .vpp = 2}}) {
    SCOPED_TRACE(name_of(degrees));
    const Plan plan = plan_of(job, strategy_of(job, degrees));
    expect_same_bits(train(plan, 2, options), train(plan, 2));
  }
}

// D18: memory that is free holds poison, and nobody reads it.
TEST(Cases, D18_PoisonedRunsChangeNoBit) {
  const planner::JobSpec job = training_job(true);
  runtime::SessionOptions options;
  options.check = true;
  for (const Degrees degrees : {Degrees{}, Degrees{.pp = 4, .vpp = 2},
                                Degrees{.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true}}) {
    SCOPED_TRACE(name_of(degrees));
    const Plan plan = plan_of(job, strategy_of(job, degrees));
    expect_same_bits(train(plan, 2, options), train(plan, 2));
  }
}

// H03: 8 query heads on 2 kv heads; tp 4 and 8 give every rank one kv head, shared by 2 and 4.
TEST(Cases, H03_ReplicatedKvHeads) {
  planner::JobSpec job = training_job(false);
  job.model.layers = 2;
  job.model.heads = 8;
  job.model.kv_heads = 2;
  const Outcome one_rank = train(job, {}, 1);
  for (const bool sequence_parallel : {false, true}) {
    for (const int tp : {4, 8}) {
      SCOPED_TRACE(tp);
      const Outcome outcome = train(job, {.tp = tp, .sequence_parallel = sequence_parallel}, 1);
      expect_same_steps(outcome, one_rank, 1e-5);
      expect_same_gradients(outcome, one_rank);
    }
  }
  // One kv head a rank: [1,8,32] of the key weights, whatever tp.
  const Plan plan = plan_of(job, strategy_of(job, {.tp = 8}));
  const auto key = find_buffer(plan.programs[0], "model.layers.0.self_attn.k_proj.weight");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(plan.programs[0].buffers[*key].shape, (Shape{1, 8, 32}));
}

// B15: memory doesn't grow with the number of micro-batches.
TEST(Cases, B15_PeakIsFlatInMicroBatches) {
  for (const int vpp : {1, 2}) {
    Bytes first;
    for (const std::int64_t micro_batches : {8, 16, 32}) {
      planner::JobSpec job = training_job(false);
      job.training.global_batch = micro_batches;
      const Plan plan = plan_of(job, strategy_of(job, {.pp = 4, .vpp = vpp}));
      const Bytes arena = arena_bytes(plan.programs[0]);
      if (first == Bytes()) first = arena;
      EXPECT_EQ(arena, first) << vpp << " chunks, " << micro_batches << " micro-batches";
    }
  }
}

}  // namespace
}  // namespace mega::testing
