#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/base/check.h"
#include "planner/cost/simulate.h"

namespace mega::planner {
namespace {

// Builds the events of a plan's train sequences. "Rank" means a position along plan.by.
class PlanEvents {
 public:
  explicit PlanEvents(const Plan& plan)
      : plan_(plan), graph_(static_cast<int>(plan.queues.size())) {}

  EventGraph build() {
    const int ranks = extent(plan_.meshes.front(), plan_.by);
    for (rank_ = 0; rank_ < ranks; ++rank_) add_rank();
    MEGA_CHECK(graph_.finish(), "the plan waits in a circle");
    return std::move(graph_);
  }
  const std::vector<std::int64_t>& durations() const { return durations_; }

 private:
  const Program& program() const {
    return plan_
        .programs[static_cast<std::size_t>(plan_.assignment[static_cast<std::size_t>(rank_)])];
  }
  // The rank of the world that stands for a position.
  int world_rank(int position) const {
    return rank_at(plan_.meshes.front(), 0, plan_.by, position);
  }

  int duration(std::int64_t ns) {
    durations_.push_back(ns);
    return static_cast<int>(durations_.size()) - 1;
  }

  void add_rank() {
    graph_.begin_rank();
    const Sequence* train = find_sequence(program(), "train");
    MEGA_CHECK(train != nullptr, "program " + program().name + " has no train sequence");
    for (const Step& step : train->steps) {
      if (const auto* instruction = std::get_if<Instruction>(&step)) {
        add(*instruction);
        continue;
      }
      const auto& repeat = std::get<Repeat>(step);
      for (std::int64_t i = 0; i < repeat.count; ++i) {
        for (const Instruction& instruction : repeat.body) add(instruction);
      }
    }
  }

  void add(const Instruction& instruction) {
    EventGraph::Item item;
    if (const auto* run = std::get_if<Run>(&instruction.body)) {
      item = segment(run->segment);
    } else {
      item = exchange(std::get<Exchange>(instruction.body), instruction.queue.index);
    }
    item.queue = instruction.queue.index;
    std::vector<ScheduledWait> waits;
    for (const Wait& wait : instruction.waits) waits.push_back({wait.queue.index, wait.behind});
    graph_.add_item(item, waits);
  }

  // Positions whose ranks share a collective of this segment with ours.
  const std::vector<int>& partners(SegmentId id) {
    const auto [found, is_new] = partners_.emplace(std::make_pair(rank_, id), std::vector<int>());
    if (!is_new) return found->second;
    std::set<int> positions;
    for (const Op& op : program().segments[id].ops) {
      if (!op.group) continue;
      const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(op.group->mesh)];
      for (const int rank : members(mesh, *op.group, world_rank(rank_))) {
        positions.insert(position_along(plan_.meshes.front(), rank, plan_.by));
      }
    }
    found->second.assign(positions.begin(), positions.end());
    return found->second;
  }

  // Segments that share a collective with other positions start together: the n-th of each
  // circle of partners.
  EventGraph::Item segment(SegmentId id) {
    EventGraph::Item item;
    item.duration = duration(program().segments[id].predicted_ns);
    item.enter = item.leave = graph_.add_event(item.duration);
    const std::vector<int>& circle = partners(id);
    if (circle.size() < 2) return item;
    const int n = meetings_held_[{rank_, circle}]++;
    const auto [meeting, is_new] = meetings_.emplace(std::make_pair(circle, n), 0);
    if (is_new) meeting->second = graph_.add_event(EventGraph::kNoTime);
    graph_.add_edge(meeting->second, item.leave);
    item.enter = meeting->second;
    return item;
  }

  // Transfers of one exchange progress together: each starts when the exchanges at both its ends
  // are ready, and the exchange is done when all are.
  EventGraph::Item exchange(const Exchange& exchange, int queue) {
    EventGraph::Item item;
    item.is_transfer = true;
    item.duration = duration(exchange.predicted_ns);
    item.enter = graph_.add_event(EventGraph::kNoTime);
    item.leave = graph_.add_event(EventGraph::kNoTime);
    for (const Transfer& transfer : exchange.transfers) {
      const int event = transfer_event(exchange, transfer, queue, item.duration);
      graph_.add_edge(item.enter, event);
      graph_.add_edge(event, item.leave);
    }
    return item;
  }

  // Both sides of a transfer find the same event: sends match receives in order, per pair of
  // ranks and queue.
  int transfer_event(const Exchange& exchange, const Transfer& transfer, int queue, int duration) {
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(exchange.mesh)];
    const AxisSet axis = AxisSet::of(exchange.axis);
    const int size = extent(mesh, axis), own = world_rank(rank_);
    const int place = position_along(mesh, own, axis);
    const int peer = rank_at(mesh, own, axis, ((place + transfer.hop) % size + size) % size);
    const int other = position_along(plan_.meshes.front(), peer, plan_.by);
    // Along an axis that is not in plan.by the peer is one of ours and does the same.
    if (other == rank_) return graph_.add_event(duration);
    const Route route = transfer.is_send ? Route{rank_, other, queue} : Route{other, rank_, queue};
    const std::size_t n = transfers_done_[{route, transfer.is_send}]++;
    std::vector<int>& events = transfers_[route];
    if (n == events.size()) events.push_back(graph_.add_event(duration));
    return events[n];
  }

  using Route = std::tuple<int, int, int>;  // from, to, queue

  const Plan& plan_;
  EventGraph graph_;
  int rank_ = 0;
  std::vector<std::int64_t> durations_;
  std::map<std::pair<int, SegmentId>, std::vector<int>> partners_;
  std::map<Route, std::vector<int>> transfers_;
  std::map<std::pair<Route, bool>, std::size_t> transfers_done_;
  std::map<std::pair<int, std::vector<int>>, int> meetings_held_;
  std::map<std::pair<std::vector<int>, int>, int> meetings_;
};

}  // namespace

Timeline simulate(const Plan& plan) {
  PlanEvents events(plan);
  const EventGraph graph = events.build();
  return graph.run(events.durations());
}

}  // namespace mega::planner
