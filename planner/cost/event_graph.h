// Things that take time and what each waits for: the engine under both simulators.
//
// An event starts when all its predecessors have ended. Ranks issue items, each on a queue; an item
// enters at one event and leaves at another, mostly the same. What two ranks do together is one
// event that the items of both share. The structure is built once and run with many durations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.h"

namespace mega::planner {

// How one pipeline rank spends a step; the parts add up to Timeline::step_ns.
struct RankTime {
  std::int64_t busy_ns = 0;        // on the compute queue, its collectives included
  std::int64_t exposed_pp_ns = 0;  // waiting for a transfer that is under way
  std::int64_t exposed_dp_ns = 0;  // waiting for a reduction that is under way
  std::int64_t bubble_ns = 0;      // waiting otherwise
  bool operator==(const RankTime&) const = default;
};

struct Timeline {
  std::int64_t step_ns = 0;
  std::vector<RankTime> ranks;
  bool operator==(const Timeline&) const = default;
};

class EventGraph {
 public:
  explicit EventGraph(int queues) : queues_(static_cast<std::size_t>(queues)) {}

  void reserve(std::size_t items);

  // `duration` is an index into the durations that run() takes; kNoTime for a mere meeting point.
  static constexpr int kNoTime = -1;
  int add_event(int duration);
  void add_edge(int before, int after) { edges_.push_back({before, after}); }

  // Items come rank by rank in program order; queue 0 is the compute queue.
  void begin_rank();
  struct Item {
    int queue = 0;
    int enter = 0, leave = 0;  // events
    int duration = kNoTime;    // how long it is under way before it leaves
    bool is_transfer = false;
  };
  void add_item(const Item& item, std::span<const ScheduledWait> waits);
  // Call once, after all was added; false when events wait in a circle.
  bool finish();

  Timeline run(std::span<const std::int64_t> durations) const;

 private:
  struct Edge {
    int before, after;
  };
  struct PlacedItem {
    Item item;
    int previous;  // item on the same queue, -1 for the first
    int waits_begin, waits_end;
  };
  struct Interval {
    std::int64_t start, end;
    bool is_transfer;
  };
  RankTime time_of(std::size_t rank, std::span<const std::int64_t> durations,
                   std::span<const std::int64_t> ends, std::int64_t step_ns) const;
  std::vector<Interval> under_way(const PlacedItem& placed, Interval gap,
                                  std::span<const std::int64_t> durations,
                                  std::span<const std::int64_t> ends) const;

  std::size_t queues_;
  std::vector<int> duration_of_;          // per event
  std::vector<Edge> edges_;               // empty once finished
  std::vector<int> before_begin_;         // per event, in topological order:
  std::vector<int> before_;               // what must have ended
  std::vector<PlacedItem> items_;         // of all ranks
  std::vector<int> waits_;                // items waited for
  std::vector<int> rank_begin_;           // first item of each rank
  std::vector<std::vector<int>> issued_;  // items of the rank that is being added, per queue
};

}  // namespace mega::planner
