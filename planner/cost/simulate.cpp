#include "planner/cost/simulate.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

// Where each duration of a schedule stands in one flat list.
class DurationIndex {
 public:
  explicit DurationIndex(const ScheduleShape& shape)
      : shape_(shape), pp_(shape.pp), vpp_(shape.vpp) {}

  int of(const ScheduledInstruction& instruction, int rank) const {
    const int chunks = pp_ * vpp_;
    const int chunk = rank * vpp_ + instruction.chunk;
    switch (instruction.work) {
      case Work::Forward:
        return chunk;
      case Work::Backward:
        return chunks + chunk;
      case Work::WeightGradient:
        return 2 * chunks + chunk;
      case Work::ReduceGradients:
        return 3 * chunks + chunk;
      case Work::Prologue:
        return 4 * chunks + rank;
      case Work::Update:
        return 4 * chunks + pp_ + rank;
      case Work::SendActivation:
      case Work::ReceiveActivation:
      case Work::SendGradient:
      case Work::ReceiveGradient:
        return 4 * chunks + 2 * pp_ + edge_of(shape_, rank, instruction.chunk, instruction.work);
      case Work::ReduceTied:
        return 4 * chunks + 3 * pp_;
      case Work::GatherParameters:
        return 4 * chunks + 3 * pp_ + 1 + chunk;
    }
    return EventGraph::kNoTime;
  }

 private:
  ScheduleShape shape_;
  int pp_, vpp_;
};

// In the order of DurationIndex.
std::vector<std::int64_t> flat(const Durations& durations) {
  std::vector<std::int64_t> all;
  const auto append = [&](const std::vector<std::int64_t>& part) {
    all.insert(all.end(), part.begin(), part.end());
  };
  for (const auto* table : {&durations.forward_ns, &durations.backward_ns, &durations.weight_ns,
                            &durations.reduce_ns}) {
    for (const auto& rank : *table) append(rank);
  }
  append(durations.prologue_ns);
  append(durations.update_ns);
  append(durations.transfer_ns);
  all.push_back(durations.tied_ns);
  for (const auto& rank : durations.gather_ns) append(rank);
  return all;
}

// Builds the events of a schedule rank by rank.
class ScheduleEvents {
 public:
  explicit ScheduleEvents(const Schedule& schedule)
      : shape_(schedule.shape), graph_(static_cast<int>(schedule.queues.size())), index_(shape_) {
    const auto per_direction = static_cast<std::size_t>(shape_.pp * shape_.vpp) * micro_batches();
    transfers_.assign(2 * per_direction, -1);
    tied_ = graph_.add_event(index_.of({Work::ReduceTied, 0, 0, 0, {}}, 0));
    all_ready_ = graph_.add_event(EventGraph::kNoTime);
  }

  EventGraph build(const Schedule& schedule) {
    std::size_t items = 0;
    for (const auto& rank : schedule.ranks) items += rank.size();
    graph_.reserve(items);
    for (int rank = 0; rank < shape_.pp; ++rank) {
      graph_.begin_rank();
      for (const auto& instruction : schedule.ranks[static_cast<std::size_t>(rank)]) {
        add(instruction, rank);
      }
    }
    MEGA_CHECK(graph_.finish(), "the schedule waits in a circle");
    return std::move(graph_);
  }

 private:
  std::size_t micro_batches() const { return static_cast<std::size_t>(shape_.micro_batches); }

  void add(const ScheduledInstruction& instruction, int rank) {
    EventGraph::Item item;
    item.queue = instruction.queue;
    item.duration = index_.of(instruction, rank);
    item.is_transfer = is_transfer(instruction.work);
    if (item.is_transfer) {
      item.enter = item.leave = transfer(instruction, rank, item.duration);
    } else if (instruction.work == Work::ReduceTied) {
      item.enter = item.leave = tied_;
    } else {
      item.enter = item.leave = graph_.add_event(item.duration);
      if (instruction.work == Work::Update) {  // sums over all ranks: they meet first
        graph_.add_edge(all_ready_, item.leave);
        item.enter = all_ready_;
      }
    }
    graph_.add_item(item, instruction.waits);
  }

  // The event of a transfer, whichever side comes first: named by its direction, the virtual stage
  // below the edge and the micro-batch.
  int transfer(const ScheduledInstruction& instruction, int rank, int duration) {
    const bool is_activation =
        instruction.work == Work::SendActivation || instruction.work == Work::ReceiveActivation;
    const bool is_below =
        instruction.work == Work::SendActivation || instruction.work == Work::ReceiveGradient;
    const int stage =
        stage_of(shape_.kind, shape_.pp, {rank, instruction.chunk}) - (is_below ? 0 : 1);
    const std::size_t key =
        (static_cast<std::size_t>(stage) * 2 + (is_activation ? 1 : 0)) * micro_batches() +
        static_cast<std::size_t>(instruction.micro_batch);
    if (transfers_[key] < 0) transfers_[key] = graph_.add_event(duration);
    return transfers_[key];
  }

  ScheduleShape shape_;
  EventGraph graph_;
  DurationIndex index_;
  std::vector<int> transfers_;
  int tied_ = 0, all_ready_ = 0;
};

}  // namespace

Simulator::Simulator(const Schedule& schedule) : graph_(ScheduleEvents(schedule).build(schedule)) {}

Timeline Simulator::run(const Durations& durations) const {
  return graph_.run(flat(durations));
}

Timeline simulate(const Schedule& schedule, const Durations& durations) {
  return Simulator(schedule).run(durations);
}

}  // namespace mega::planner
