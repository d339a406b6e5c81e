#include <gtest/gtest.h>

#include "planner/cost/simulate.h"

namespace mega::planner {
namespace {

ScheduleShape shape(int pp, int vpp, std::int64_t micro_batches) {
  ScheduleShape result;
  result.pp = pp;
  result.vpp = vpp;
  result.micro_batches = micro_batches;
  return result;
}

Durations durations(const ScheduleShape& s, std::int64_t forward, std::int64_t backward,
                    std::int64_t transfer) {
  const auto ranks = static_cast<std::size_t>(s.pp);
  const auto chunks = static_cast<std::size_t>(s.vpp);
  Durations d;
  d.forward_ns.assign(ranks, std::vector<std::int64_t>(chunks, forward));
  d.backward_ns.assign(ranks, std::vector<std::int64_t>(chunks, backward));
  d.weight_ns.assign(ranks, std::vector<std::int64_t>(chunks, 0));
  d.reduce_ns.assign(ranks, std::vector<std::int64_t>(chunks, 0));
  d.prologue_ns.assign(ranks, 0);
  d.update_ns.assign(ranks, 0);
  d.transfer_ns.assign(ranks, transfer);
  return d;
}

std::int64_t total(const RankTime& time) {
  return time.busy_ns + time.exposed_pp_ns + time.exposed_dp_ns + time.bubble_ns;
}

// A rank's whole forward takes 600 and backward 1200 however many chunks share it.
double makespan_in_forwards(int pp, int vpp, std::int64_t micro_batches) {
  const ScheduleShape s = shape(pp, vpp, micro_batches);
  const Timeline t = simulate(build_schedule(s), durations(s, 600 / vpp, 1200 / vpp, 0));
  return static_cast<double>(t.step_ns) / 600;
}

TEST(Simulate, MakespansEqualTheTheory) {
  EXPECT_EQ(makespan_in_forwards(4, 1, 8), 33.0);   // (m + p - 1) (F + B) = 11 * 3
  EXPECT_EQ(makespan_in_forwards(4, 2, 8), 28.5);   // (m + (p - 1) / v) (F + B) = 9.5 * 3
  EXPECT_EQ(makespan_in_forwards(4, 3, 8), 27.0);   // 9 * 3
  EXPECT_EQ(makespan_in_forwards(8, 1, 16), 69.0);  // 23 * 3
  EXPECT_EQ(makespan_in_forwards(8, 2, 16), 58.5);  // 19.5 * 3
  EXPECT_EQ(makespan_in_forwards(4, 1, 2), 15.0);   // fewer micro-batches than ranks: 5 * 3
}

// Passes of a unit each: F = B = W = 1. What a step takes beyond the m (F + B + W) of a rank.
double bubble_in_passes(ScheduleKind kind, int pp, std::int64_t micro_batches) {
  ScheduleShape s = shape(pp, is_folded(kind) ? 2 : 1, micro_batches);
  s.kind = kind;
  Durations d = durations(s, 1, splits_backward(kind) ? 1 : 2, 0);
  if (splits_backward(kind)) d.weight_ns = d.forward_ns;
  const std::int64_t work = 3 * micro_batches * s.vpp;
  return static_cast<double>(simulate(build_schedule(s), d).step_ns - work) / s.vpp;
}

TEST(Simulate, BubblesEqualTheTheory) {
  for (const int pp : {2, 3, 4, 8}) {
    for (const std::int64_t m : {2 * pp, 2 * pp + 1, 5 * pp + 2}) {
      SCOPED_TRACE("pp " + std::to_string(pp) + " m " + std::to_string(m));
      // 1F1B and GPipe: (p - 1) (F + B + W)
      EXPECT_EQ(bubble_in_passes(ScheduleKind::OneFOneB, pp, m), 3.0 * (pp - 1));
      EXPECT_EQ(bubble_in_passes(ScheduleKind::Gpipe, pp, m), 3.0 * (pp - 1));
      // ZB-H1: (p - 1) (F + B - W)
      EXPECT_EQ(bubble_in_passes(ScheduleKind::ZbH1, pp, m), pp - 1.0);
      // V: none but the way of the first forward to the last rank, by half stages
      EXPECT_EQ(bubble_in_passes(ScheduleKind::ZbV, pp, m), (pp - 1) / 2.0);
      EXPECT_EQ(bubble_in_passes(ScheduleKind::DualpipeV, pp, m), (pp - 1) / 2.0);
    }
  }
}

TEST(Simulate, TransfersDelayTheWarmUpAndShowAsExposed) {
  // Two ranks, one micro-batch: F, transfer, F B, transfer, B.
  const ScheduleShape s = shape(2, 1, 1);
  const Timeline t = simulate(build_schedule(s), durations(s, 10, 20, 5));
  EXPECT_EQ(t.step_ns, 10 + 5 + 10 + 20 + 5 + 20);
  EXPECT_EQ(t.ranks[0], (RankTime{30, 5, 0, 35}));   // waits 35, of which 5 for the transfer
  EXPECT_EQ(t.ranks[1], (RankTime{30, 10, 0, 30}));  // its own send counts, too
}

TEST(Simulate, AnEarlyReceiveHidesTheTransfer) {
  ScheduleShape s = shape(2, 1, 16);
  const Durations d = durations(s, 100, 200, 40);
  const Timeline late = simulate(build_schedule(s), d);
  s.overlap_pipeline = true;
  const Timeline early = simulate(build_schedule(s), d);
  EXPECT_LT(early.step_ns, late.step_ns);
  EXPECT_GE(early.step_ns, 17 * 300);
}

TEST(Simulate, AReductionHidesBehindTheOtherChunksBackward) {
  ScheduleShape s = shape(2, 2, 2);
  s.reduces_gradients = true;
  Durations d = durations(s, 10, 20, 0);
  for (auto& rank : d.reduce_ns) rank.assign(2, 15);
  const Timeline exposed = simulate(build_schedule(s), d);
  s.overlap_gradient_reduce = true;
  const Timeline hidden = simulate(build_schedule(s), d);
  // Chunk 1 is reduced while chunk 0 computes; only chunk 0's reduction is left at the end.
  EXPECT_EQ(exposed.step_ns - hidden.step_ns, 15);
  EXPECT_EQ(hidden.ranks[0].exposed_dp_ns, 15);
  EXPECT_EQ(exposed.ranks[0].exposed_dp_ns, 0);  // runs on the compute queue: busy
  EXPECT_EQ(exposed.ranks[0].busy_ns, hidden.ranks[0].busy_ns + 30);
}

TEST(Simulate, TiedCopiesAndTheUpdateMeet) {
  ScheduleShape s = shape(2, 1, 1);
  s.has_tied_copies = true;
  Durations d = durations(s, 10, 20, 0);
  d.prologue_ns = {1, 2};
  d.update_ns = {7, 9};
  d.tied_ns = 5;
  const Timeline t = simulate(build_schedule(s), d);
  // F0 1..11, F1 11..21, B1 21..41, B0 41..61, tied 61..66, update 66..73 and 66..75.
  EXPECT_EQ(t.step_ns, 75);
  EXPECT_EQ(t.ranks[0].busy_ns, 1 + 10 + 20 + 5 + 7);
  EXPECT_EQ(t.ranks[1].busy_ns, 2 + 10 + 20 + 5 + 9);
}

TEST(Simulate, TermsOfEveryRankAddUp) {
  for (int pp = 1; pp <= 5; ++pp) {
    for (int vpp = 1; vpp <= (pp == 1 ? 1 : 3); ++vpp) {
      for (const bool overlap : {false, true}) {
        ScheduleShape s = shape(pp, vpp, 2 * pp + 1);
        s.reduces_gradients = s.has_tied_copies = true;
        s.overlap_gradient_reduce = s.overlap_pipeline = overlap;
        Durations d = durations(s, 0, 0, 3);
        std::int64_t seed = 7;
        const auto next = [&] { return seed = seed * 31 % 101; };
        for (auto* table : {&d.forward_ns, &d.backward_ns, &d.reduce_ns}) {
          for (auto& rank : *table) {
            for (std::int64_t& value : rank) value = next();
          }
        }
        for (std::int64_t& value : d.update_ns) value = next();
        d.tied_ns = next();
        const Timeline t = simulate(build_schedule(s), d);
        ASSERT_EQ(t.ranks.size(), static_cast<std::size_t>(pp));
        for (const RankTime& rank : t.ranks) {
          EXPECT_EQ(total(rank), t.step_ns);
          EXPECT_GE(rank.exposed_pp_ns, 0);
          EXPECT_GE(rank.exposed_dp_ns, 0);
          EXPECT_GE(rank.bubble_ns, 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mega::planner
