#include "planner/cost/event_graph.h"

#include <algorithm>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

void EventGraph::reserve(std::size_t items) {
  duration_of_.reserve(items);
  items_.reserve(items);
  waits_.reserve(items);
  edges_.reserve(2 * items);
}

int EventGraph::add_event(int duration) {
  duration_of_.push_back(duration);
  return static_cast<int>(duration_of_.size()) - 1;
}

void EventGraph::begin_rank() {
  rank_begin_.push_back(static_cast<int>(items_.size()));
  issued_.assign(queues_, {});
}

void EventGraph::add_item(const Item& item, std::span<const ScheduledWait> waits) {
  auto& own = issued_[at(item.queue)];
  PlacedItem placed{item, own.empty() ? -1 : own.back(), static_cast<int>(waits_.size()), 0};
  if (!own.empty()) add_edge(items_[at(own.back())].item.leave, item.enter);
  for (const ScheduledWait& wait : waits) {
    const auto& other = issued_[at(wait.queue)];
    const int index = static_cast<int>(other.size()) - 1 - wait.behind;
    if (index < 0) continue;  // nothing was issued that early
    waits_.push_back(other[at(index)]);
    add_edge(items_[at(waits_.back())].item.leave, item.enter);
  }
  placed.waits_end = static_cast<int>(waits_.size());
  own.push_back(static_cast<int>(items_.size()));
  items_.push_back(placed);
}

bool EventGraph::finish() {
  rank_begin_.push_back(static_cast<int>(items_.size()));
  const std::size_t events = duration_of_.size();
  std::vector<int> after_begin(events + 1, 0), missing(events, 0);
  for (const Edge& edge : edges_) {
    ++after_begin[at(edge.before) + 1];
    ++missing[at(edge.after)];
  }
  for (std::size_t e = 0; e < events; ++e) after_begin[e + 1] += after_begin[e];
  std::vector<int> after(edges_.size()), fill(after_begin.begin(), after_begin.end() - 1);
  for (const Edge& edge : edges_) after[at(fill[at(edge.before)]++)] = edge.after;

  std::vector<int> order;  // topological (Kahn 1962)
  order.reserve(events);
  before_begin_.assign(1, 0);
  std::vector<int> new_number(events, 0);
  const std::vector<int> edges_into = missing;
  for (std::size_t e = 0; e < events; ++e) {
    if (missing[e] == 0) order.push_back(static_cast<int>(e));
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    const int event = order[next];
    new_number[at(event)] = static_cast<int>(next);
    before_begin_.push_back(before_begin_.back() + edges_into[at(event)]);
    for (int i = after_begin[at(event)]; i < after_begin[at(event) + 1]; ++i) {
      if (--missing[at(after[at(i)])] == 0) order.push_back(after[at(i)]);
    }
  }
  if (order.size() != events) return false;

  // Renumbered, so that run() walks memory forwards.
  before_.resize(edges_.size());
  fill.assign(before_begin_.begin(), before_begin_.end() - 1);
  for (const Edge& edge : edges_) {
    before_[at(fill[at(new_number[at(edge.after)])]++)] = new_number[at(edge.before)];
  }
  std::vector<int> durations(events);
  for (std::size_t e = 0; e < events; ++e) durations[at(new_number[e])] = duration_of_[e];
  duration_of_ = std::move(durations);
  for (PlacedItem& placed : items_) {
    placed.item.enter = new_number[at(placed.item.enter)];
    placed.item.leave = new_number[at(placed.item.leave)];
  }
  edges_.clear();
  edges_.shrink_to_fit();
  return true;
}

Timeline EventGraph::run(std::span<const std::int64_t> durations) const {
  std::vector<std::int64_t> ends(duration_of_.size());
  Timeline timeline;
  for (std::size_t e = 0; e < ends.size(); ++e) {
    std::int64_t start = 0;
    for (int i = before_begin_[e]; i < before_begin_[e + 1]; ++i) {
      start = std::max(start, ends[at(before_[at(i)])]);
    }
    ends[e] = start + (duration_of_[e] == kNoTime ? 0 : durations[at(duration_of_[e])]);
    timeline.step_ns = std::max(timeline.step_ns, ends[e]);
  }
  for (std::size_t rank = 0; rank + 1 < rank_begin_.size(); ++rank) {
    timeline.ranks.push_back(time_of(rank, durations, ends, timeline.step_ns));
  }
  return timeline;
}

RankTime EventGraph::time_of(std::size_t rank, std::span<const std::int64_t> durations,
                             std::span<const std::int64_t> ends, std::int64_t step_ns) const {
  RankTime time;
  std::int64_t now = 0;  // end of the compute queue's last item
  for (int i = rank_begin_[rank]; i < rank_begin_[rank + 1]; ++i) {
    const PlacedItem& placed = items_[at(i)];
    if (placed.item.queue != 0) continue;
    const std::int64_t end = ends[at(placed.item.leave)];
    const std::int64_t takes =
        placed.item.duration == kNoTime ? 0 : durations[at(placed.item.duration)];
    const Interval gap{now, end - takes, false};
    if (gap.end > gap.start) {
      std::int64_t reducing = 0, covered = 0, to = gap.start, reduced_to = gap.start;
      for (const Interval& interval : under_way(placed, gap, durations, ends)) {
        covered += std::max<std::int64_t>(0, interval.end - std::max(to, interval.start));
        to = std::max(to, interval.end);
        if (interval.is_transfer) continue;
        reducing += std::max<std::int64_t>(0, interval.end - std::max(reduced_to, interval.start));
        reduced_to = std::max(reduced_to, interval.end);
      }
      time.exposed_dp_ns += reducing;
      time.exposed_pp_ns += covered - reducing;
      time.bubble_ns += gap.end - gap.start - covered;
    }
    (placed.item.is_transfer ? time.exposed_pp_ns : time.busy_ns) += takes;
    now = end;
  }
  time.bubble_ns += step_ns - now;
  return time;
}

// What the item waits for and is under way in the gap before it, clipped to the gap, by start.
std::vector<EventGraph::Interval> EventGraph::under_way(const PlacedItem& placed, Interval gap,
                                                        std::span<const std::int64_t> durations,
                                                        std::span<const std::int64_t> ends) const {
  std::vector<Interval> intervals;
  for (int w = placed.waits_begin; w < placed.waits_end; ++w) {
    for (int i = waits_[at(w)]; i >= 0; i = items_[at(i)].previous) {
      const Item& item = items_[at(i)].item;
      const std::int64_t end = ends[at(item.leave)];
      if (end <= gap.start) break;
      if (item.duration == kNoTime) continue;
      const std::int64_t start = std::max(gap.start, end - durations[at(item.duration)]);
      if (start < end) intervals.push_back({start, std::min(end, gap.end), item.is_transfer});
    }
  }
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  return intervals;
}

}  // namespace mega::planner
