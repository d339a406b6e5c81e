#include "ir/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace mega {
namespace {

ScheduleShape shape(int pp, int vpp, std::int64_t micro_batches, bool overlap_pipeline = false) {
  ScheduleShape result;
  result.pp = pp;
  result.vpp = vpp;
  result.micro_batches = micro_batches;
  result.overlap_pipeline = overlap_pipeline;
  return result;
}

struct Form {
  ScheduleKind kind;
  int vpp;
};
const Form kForms[] = {{ScheduleKind::OneFOneB, 1}, {ScheduleKind::OneFOneB, 2},
                       {ScheduleKind::OneFOneB, 3}, {ScheduleKind::Gpipe, 1},
                       {ScheduleKind::ZbH1, 1},     {ScheduleKind::ZbV, 2},
                       {ScheduleKind::DualpipeV, 2}};

std::int64_t fewest_micro_batches(Form form, int pp) {
  if (form.kind == ScheduleKind::DualpipeV) return 2 * pp;
  return form.kind == ScheduleKind::OneFOneB && form.vpp > 1 ? pp : 1;
}

// Every legal shape of the small world, with all extras on in one half of them.
template <class Check>
void for_each_shape(Check check) {
  for (const Form form : kForms) {
    for (int pp = form.vpp == 1 ? 1 : 2; pp <= 8; ++pp) {
      for (std::int64_t m = fewest_micro_batches(form, pp); m <= 2 * pp + 3; ++m) {
        for (const bool flag : {false, true}) {
          ScheduleShape s = shape(pp, form.vpp, m, flag);
          s.kind = form.kind;
          s.reduces_gradients = true;
          s.has_tied_copies = !is_folded(form.kind);
          s.overlap_gradient_reduce = flag;
          SCOPED_TRACE("kind " + std::to_string(static_cast<int>(form.kind)) + " pp " +
                       std::to_string(pp) + " vpp " + std::to_string(form.vpp) + " m " +
                       std::to_string(m) + (flag ? " overlapped" : ""));
          check(s);
        }
      }
    }
  }
}

// For each instruction, how many instructions of each queue are surely done when it starts.
using Clock = std::vector<int>;
std::vector<Clock> clocks(const std::vector<ScheduledInstruction>& list, std::size_t queues) {
  std::vector<std::vector<Clock>> done(queues);  // of each queue's instructions, when they end
  std::vector<Clock> starts;
  const auto join = [](Clock& into, const Clock& other) {
    for (std::size_t q = 0; q < into.size(); ++q) into[q] = std::max(into[q], other[q]);
  };
  for (const ScheduledInstruction& instruction : list) {
    Clock clock(queues, 0);
    auto& own = done[static_cast<std::size_t>(instruction.queue)];
    if (!own.empty()) join(clock, own.back());
    for (const ScheduledWait& wait : instruction.waits) {
      const auto& other = done[static_cast<std::size_t>(wait.queue)];
      const int count = static_cast<int>(other.size()) - wait.behind;
      EXPECT_GT(count, 0) << "a wait for nothing";
      if (count > 0) join(clock, other[static_cast<std::size_t>(count - 1)]);
    }
    starts.push_back(clock);
    clock[static_cast<std::size_t>(instruction.queue)] = static_cast<int>(own.size()) + 1;
    own.push_back(clock);
  }
  return starts;
}

// An instruction with, per wait, how many instructions of the other queue must be done.
struct Entry {
  Work work;
  int hop;
  std::vector<std::pair<std::size_t, std::size_t>> needs;
};
using RankEntries = std::vector<std::vector<Entry>>;  // per queue

RankEntries entries_of(const ScheduleShape& s, const std::vector<ScheduledInstruction>& list,
                       std::size_t queues) {
  RankEntries entries(queues);
  for (const ScheduledInstruction& instruction : list) {
    Entry entry{instruction.work, hop(s, instruction.chunk, instruction.work), {}};
    for (const ScheduledWait& wait : instruction.waits) {
      const auto q = static_cast<std::size_t>(wait.queue);
      entry.needs.emplace_back(q, entries[q].size() - static_cast<std::size_t>(wait.behind));
    }
    entries[static_cast<std::size_t>(instruction.queue)].push_back(entry);
  }
  return entries;
}

// Runs all ranks with unbuffered transfers and asynchronous queues; true when all finish.
bool completes(const Schedule& schedule) {
  const std::size_t ranks = schedule.ranks.size(), queues = schedule.queues.size();
  std::vector<RankEntries> lists;
  for (const auto& list : schedule.ranks) lists.push_back(entries_of(schedule.shape, list, queues));
  std::vector<std::vector<std::size_t>> done(ranks, std::vector<std::size_t>(queues, 0));
  const auto ready = [&](std::size_t r, std::size_t q) -> const Entry* {
    if (done[r][q] == lists[r][q].size()) return nullptr;
    const Entry& entry = lists[r][q][done[r][q]];
    for (const auto& [queue, count] : entry.needs) {
      if (done[r][queue] < count) return nullptr;
    }
    return &entry;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t q = 0; q < queues; ++q) {
        const Entry* entry = ready(r, q);
        if (entry == nullptr) continue;
        if (is_transfer(entry->work)) {
          const auto peer = (r + ranks + static_cast<std::size_t>(entry->hop + 1) - 1) % ranks;
          const Entry* other = ready(peer, q);
          const bool meets = other != nullptr && other->hop == -entry->hop;
          if (!meets) continue;
          ++done[peer][q];
        }
        ++done[r][q];
        moved = true;
      }
    }
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t q = 0; q < queues; ++q) {
      if (done[r][q] != lists[r][q].size()) return false;
    }
  }
  return true;
}

TEST(Schedule, OneFOneBWarmsUpWithTheRanksBehind) {
  EXPECT_EQ(print(build_schedule(shape(4, 1, 5))),
            "rank 0 | F0 F1 F2 F3 B0 F4 B1 B2 B3 B4\n"
            "rank 1 | F0 F1 F2 B0 F3 B1 F4 B2 B3 B4\n"
            "rank 2 | F0 F1 B0 F2 B1 F3 B2 F4 B3 B4\n"
            "rank 3 | F0 B0 F1 B1 F2 B2 F3 B3 F4 B4\n");
}

TEST(Schedule, FewerMicroBatchesThanRanksOnlyWarmUpAndCoolDown) {
  EXPECT_EQ(print(build_schedule(shape(3, 1, 2))),
            "rank 0 | F0 F1 B0 B1\n"
            "rank 1 | F0 F1 B0 B1\n"
            "rank 2 | F0 B0 F1 B1\n");
}

TEST(Schedule, InterleavedRunsAGroupThroughEachChunk) {
  // Warm-up of rank r: 2 (p - r - 1) + (v - 1) N = 4 and 2 forwards.
  EXPECT_EQ(print(build_schedule(shape(2, 2, 4))),
            "rank 0 | F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a\n"
            "rank 1 | F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a\n");
}

// Case A05: any number of micro-batches from pp on has a group; never must pp * vpp divide it.
TEST(Schedule, CaseA05GroupIsTheLeastThatLeavesNoShortRest) {
  EXPECT_EQ(micro_batch_group(4, 4), 4);
  EXPECT_EQ(micro_batch_group(4, 8), 4);
  EXPECT_EQ(micro_batch_group(4, 12), 4);  // 12 % (4 * 2) != 0 and still legal
  EXPECT_EQ(micro_batch_group(4, 6), 6);   // 6 % 4 = 2 and 6 % 5 = 1 are below 4
  EXPECT_EQ(micro_batch_group(4, 10), 5);  // 10 % 4 = 2, 10 % 5 = 0
  EXPECT_EQ(micro_batch_group(4, 9), 5);   // 9 % 4 = 1, 9 % 5 = 4
  EXPECT_EQ(micro_batch_group(4, 3), 0);   // fewer than pp: none
  EXPECT_EQ(micro_batch_group(1, 7), 1);
}

TEST(Schedule, EveryRankComputesEverythingOnceBackwardAfterForward) {
  for_each_shape([](const ScheduleShape& s) {
    for (int rank = 0; rank < s.pp; ++rank) {
      std::set<std::pair<int, std::int64_t>> done[3];  // per pass
      std::map<std::pair<int, int>, std::int64_t> next;
      for (const ComputeStep& step : compute_order(s, rank)) {
        const auto key = std::make_pair(step.chunk, step.micro_batch);
        const int pass = static_cast<int>(step.pass);
        EXPECT_TRUE(pass == 0 || done[pass - 1].contains(key));
        EXPECT_TRUE(done[pass].insert(key).second);
        EXPECT_EQ(step.micro_batch, (next[{pass, step.chunk}]++)) << "each chunk in order";
      }
      const auto all = static_cast<std::size_t>(s.vpp * s.micro_batches);
      EXPECT_EQ(done[0].size(), all);
      EXPECT_EQ(done[1].size(), all);
      EXPECT_EQ(done[2].size(), splits_backward(s.kind) ? all : 0);
    }
  });
}

TEST(Schedule, OneFOneBKeepsAsManyInFlightAsRanksBehind) {
  const Schedule schedule = build_schedule(shape(4, 1, 8));
  EXPECT_EQ(schedule.slots, (std::vector<std::vector<int>>{{4}, {3}, {2}, {1}}));  // p - r
  const Schedule few = build_schedule(shape(4, 1, 2));
  EXPECT_EQ(few.slots, (std::vector<std::vector<int>>{{2}, {2}, {2}, {1}}));  // at most m
}

TEST(Schedule, EarlyReceivesHoldOneMoreSlot) {
  // The first rank receives no activation, so nothing is taken early there.
  const Schedule schedule = build_schedule(shape(4, 1, 8, true));
  EXPECT_EQ(schedule.slots, (std::vector<std::vector<int>>{{4}, {4}, {3}, {2}}));
}

TEST(Schedule, InterleavedFirstRankHoldsTheMostChunks) {
  for (const int p : {2, 4}) {
    for (const int v : {2, 3}) {
      int now = 0, most = 0;
      for (const ComputeStep& step : compute_order(shape(p, v, 4 * p), 0)) {
        now += step.pass == Pass::Forward ? 1 : -1;
        most = std::max(most, now);
      }
      EXPECT_EQ(most, 2 * (p - 1) + (v - 1) * p + 1);
    }
  }
}

TEST(Schedule, SlotCountsNeedOnlyTheSteadyState) {
  for_each_shape(
      [](const ScheduleShape& s) { EXPECT_EQ(slot_counts(s), build_schedule(s).slots); });
  for (const Form form : kForms) {
    for (int pp = 2; pp <= 5; ++pp) {
      for (std::int64_t m = 2 * pp; m <= 14 * pp; m += 3) {
        for (const bool overlap : {false, true}) {
          ScheduleShape s = shape(pp, form.vpp, m, overlap);
          s.kind = form.kind;
          EXPECT_EQ(slot_counts(s), build_schedule(s).slots)
              << "kind " << static_cast<int>(form.kind) << " pp " << pp << " vpp " << form.vpp
              << " m " << m << " overlap " << overlap;
        }
      }
    }
  }
}

TEST(Schedule, QueuesAreThoseInUse) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(build_schedule(shape(1, 1, 4)).queues, Labels{"compute"});
  EXPECT_EQ(build_schedule(shape(2, 1, 4)).queues, (Labels{"compute", "forward_0", "backward_0"}));
  EXPECT_EQ(build_schedule(shape(3, 1, 4)).queues,
            (Labels{"compute", "forward_0", "forward_1", "backward_0", "backward_1"}));
  EXPECT_EQ(build_schedule(shape(3, 2, 4)).queues,  // an odd ring needs a third colour
            (Labels{"compute", "forward_0", "forward_1", "forward_2", "backward_0", "backward_1",
                    "backward_2"}));
  ScheduleShape reduced = shape(1, 1, 4);
  reduced.overlap_gradient_reduce = true;
  EXPECT_EQ(build_schedule(reduced).queues, Labels{"compute"});  // nothing to reduce
  reduced.reduces_gradients = true;
  EXPECT_EQ(build_schedule(reduced).queues, (Labels{"compute", "reduce"}));
}

// What an instruction touches: reads and writes, by buffer. Slots are numbered modulo their count.
struct Access {
  std::tuple<std::string, int, std::int64_t> buffer;
  bool writes;
};
std::vector<Access> accesses(const Schedule& schedule, std::size_t rank,
                             const ScheduledInstruction& i) {
  if (i.chunk < 0 || i.micro_batch < 0) return {};
  const ScheduleShape& shape = schedule.shape;
  const StagePlace place{static_cast<int>(rank), i.chunk};
  const int stage = stage_of(shape.kind, shape.pp, place);
  const int owner = slot_owner(shape.kind, shape.pp, place);
  const bool is_bottom = is_folded(shape.kind) && place.rank == shape.pp - 1;
  const bool is_last = stage == shape.pp * shape.vpp - 1 || (is_bottom && i.chunk == 0);
  const bool is_first = stage == 0 || (is_bottom && i.chunk == 1);
  const std::int64_t slot = i.micro_batch % schedule.slots[rank][static_cast<std::size_t>(owner)];
  const auto buffer = [&](const char* name) { return std::make_tuple(name, owner, slot); };
  switch (i.work) {
    case Work::ReceiveActivation:
      return {{buffer("x"), true}};
    case Work::Forward: {
      std::vector<Access> all = {{buffer("x"), is_first}, {buffer("saved"), true}};
      if (!is_last) all.push_back({buffer("y"), true});
      return all;
    }
    case Work::SendActivation:
      return {{buffer("y"), false}};
    case Work::ReceiveGradient:
      return {{buffer("dx"), true}};
    case Work::Backward:
      return {{buffer("x"), false}, {buffer("saved"), false}, {buffer("dx"), true}};
    case Work::SendGradient:
      return {{buffer("dx"), false}};
    case Work::WeightGradient:
      return {{buffer("x"), false}, {buffer("saved"), false}, {buffer("dx"), false}};
    default:
      return {};
  }
}

TEST(Schedule, ConflictingAccessesAreOrderedByQueuesAndWaits) {
  for_each_shape([](const ScheduleShape& s) {
    const Schedule schedule = build_schedule(s);
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      const auto& list = schedule.ranks[rank];
      const std::vector<Clock> starts = clocks(list, schedule.queues.size());
      struct Past {
        std::size_t queue;
        int index;
        bool writes;
      };
      std::map<std::tuple<std::string, int, std::int64_t>, std::vector<Past>> history;
      std::vector<int> issued(schedule.queues.size(), 0);
      for (std::size_t i = 0; i < list.size(); ++i) {
        const auto queue = static_cast<std::size_t>(list[i].queue);
        for (const Access& access : accesses(schedule, rank, list[i])) {
          auto& past = history[access.buffer];
          for (const Past& before : past) {
            if (!before.writes && !access.writes) continue;
            EXPECT_GT(starts[i][before.queue], before.index)
                << "rank " << rank << ", " << to_string(list[i].work) << " of micro-batch "
                << list[i].micro_batch << ", buffer " << std::get<0>(access.buffer);
          }
          past.push_back({queue, issued[queue], access.writes});
        }
        ++issued[queue];
      }
    }
  });
}

// Cases F01 and F02: transfers of any pipeline complete although nothing is buffered.
TEST(Schedule, PlacesOfStagesAndStagesOfPlacesAgree) {
  EXPECT_EQ(place_of_stage(ScheduleKind::ZbV, 3, 2), (StagePlace{2, 0}));
  EXPECT_EQ(place_of_stage(ScheduleKind::ZbV, 3, 3), (StagePlace{2, 1}));
  EXPECT_EQ(place_of_stage(ScheduleKind::ZbV, 3, 5), (StagePlace{0, 1}));
  EXPECT_EQ(place_of_stage(ScheduleKind::OneFOneB, 3, 5), (StagePlace{2, 1}));
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::DualpipeV}) {
    for (int stage = 0; stage < 8; ++stage) {
      EXPECT_EQ(stage_of(kind, 4, place_of_stage(kind, 4, stage)), stage);
    }
  }
}

// Slots as each schedule promises: a rank holds at most what 1F1B's first rank holds, counted in
// whole stages (a chunk of a V is half of one); DualPipeV half a stage more, GPipe everything.
TEST(Schedule, InFlightCapsHold) {
  const auto total = [](ScheduleKind kind, int vpp, int pp, std::int64_t m) {
    ScheduleShape s = shape(pp, vpp, m);
    s.kind = kind;
    std::vector<int> slots;
    for (int rank = 0; rank < pp; ++rank) {
      int now = 0, most = 0;  // chunks whose forward is done and whose gradients are not
      for (const ComputeStep& step : compute_order(s, rank)) {
        now += step.pass == Pass::Forward ? 1 : step.pass == Pass::Backward ? 0 : -1;
        if (kind == ScheduleKind::Gpipe && step.pass == Pass::Backward) --now;
        most = std::max(most, now);
      }
      slots.push_back(most);
    }
    return slots;
  };
  for (const int pp : {2, 3, 4, 8}) {
    const auto ranks = static_cast<std::size_t>(pp);
    const std::int64_t m = 3 * pp + 1;
    EXPECT_EQ(total(ScheduleKind::ZbH1, 1, pp, m), std::vector<int>(ranks, pp));
    EXPECT_EQ(total(ScheduleKind::ZbV, 2, pp, m), std::vector<int>(ranks, 2 * pp));
    EXPECT_EQ(total(ScheduleKind::DualpipeV, 2, pp, m), std::vector<int>(ranks, 2 * pp + 1));
    EXPECT_EQ(total(ScheduleKind::Gpipe, 1, pp, m), std::vector<int>(ranks, static_cast<int>(m)));
  }
}

TEST(Schedule, CaseF01F02UnbufferedTransfersNeverDeadlock) {
  for_each_shape([](const ScheduleShape& s) { EXPECT_TRUE(completes(build_schedule(s))); });
}

TEST(Schedule, AStepEndsWithNothingInFlight) {
  for_each_shape([](const ScheduleShape& s) {
    const Schedule schedule = build_schedule(s);
    for (const auto& list : schedule.ranks) {
      std::vector<int> issued(schedule.queues.size(), 0);
      for (const ScheduledInstruction& i : list) ++issued[static_cast<std::size_t>(i.queue)];
      ASSERT_EQ(list.back().work, Work::Update);
      --issued.front();  // the update itself
      EXPECT_EQ(clocks(list, schedule.queues.size()).back(), issued);
    }
  });
}

TEST(Schedule, SteadyStateWaitsRepeat) {
  const Schedule schedule = build_schedule(shape(4, 1, 40));
  for (const auto& list : schedule.ranks) {
    std::map<Work, std::vector<ScheduledWait>> usual;
    for (const ScheduledInstruction& i : list) {
      if (i.micro_batch < 12 || i.micro_batch > 28) continue;
      const auto [at, is_new] = usual.emplace(i.work, i.waits);
      EXPECT_EQ(at->second, i.waits) << to_string(i.work) << i.micro_batch;
    }
  }
}

TEST(Schedule, ReductionsFollowTheLastBackwardOfTheirChunk) {
  ScheduleShape s = shape(2, 2, 4);
  s.reduces_gradients = s.has_tied_copies = s.overlap_gradient_reduce = true;
  const Schedule schedule = build_schedule(s);
  const auto position = [&](std::size_t rank, Work work, int chunk) {
    const auto& list = schedule.ranks[rank];
    const auto at = std::find_if(list.rbegin(), list.rend(),
                                 [&](const auto& i) { return i.work == work && i.chunk == chunk; });
    return list.rend() - at;
  };
  for (const std::size_t rank : {0U, 1U}) {
    for (const int chunk : {0, 1}) {
      EXPECT_GT(position(rank, Work::ReduceGradients, chunk),
                position(rank, Work::Backward, chunk));
    }
    EXPECT_GT(position(rank, Work::ReduceTied, rank == 0 ? 0 : 1),
              position(rank, Work::ReduceGradients, 0));
  }
  // The first reduction runs while chunk 0 still computes.
  EXPECT_LT(position(0, Work::ReduceGradients, 1), position(0, Work::Backward, 0));
}

}  // namespace
}  // namespace mega
