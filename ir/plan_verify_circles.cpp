// All that waits for something as one graph:
//
//   class 0   o──►o═══►o──►          o  an instruction starts, or a collective of it is done
//                   ╲╱               ═  needs the partner to have arrived; ─ runs in order
//   class 1   o──►o═══►o──►             a circle is a deadlock, with or without buffers
#include <algorithm>

#include "ir/plan_verify_conversation.h"
#include "ir/plan_verify_cycle.h"

namespace mega::verifying {
namespace {

constexpr std::int64_t kMaxEvents = 20'000'000;
constexpr std::size_t kMaxNotes = 12;

class Circles {
 public:
  Circles(Ranks& ranks, const Plan& plan, Report& report)
      : ranks_(ranks), plan_(plan), report_(report) {}

  void check(const Communicators& communicators, const Channels& channels) {
    if (!number_events()) return;
    for (int c = 0; c < ranks_.size(); ++c) {
      if (ranks_.sequence(c)) add_order(c, *ranks_.sequence(c));
    }
    for (const auto& [key, by_class] : communicators) add_collectives(by_class);
    for (const auto& [key, channel] : channels) {
      for (std::size_t i = 0; i < channel.sends.size(); ++i) {
        edges_.emplace_back(event(channel.receives[i], 0), event(channel.sends[i], 1));
        edges_.emplace_back(event(channel.sends[i], 0), event(channel.receives[i], 1));
      }
    }
    const std::vector<int> cycle = find_cycle(events_, edges_);
    if (!cycle.empty()) report_cycle(cycle);
  }

 private:
  // ---- events: one where an instruction starts, one after each thing that it waits for ----
  bool number_events() {
    std::int64_t count = 0;
    for (int c = 0; c < ranks_.size(); ++c) {
      std::vector<int>& first = first_event_.emplace_back();
      if (!ranks_.sequence(c)) continue;
      for (const Instance& each : ranks_.sequence(c)->instances()) {
        first.push_back(static_cast<int>(count));
        const auto* run = std::get_if<Run>(&each.instruction->body);
        count +=
            1 + (run == nullptr ? 1 : static_cast<std::int64_t>(ranks_.joint_ops(c, *run).size()));
        if (count > kMaxEvents) {
          report_.add("the plan has over " + std::to_string(kMaxEvents) +
                      " events, too many to prove that they end");
          return false;
        }
      }
    }
    events_ = static_cast<int>(count);
    return true;
  }

  int event(const Place& place, int step) const {
    return first_event_[static_cast<std::size_t>(place.of_class)]
                       [static_cast<std::size_t>(place.instance)] +
           step;
  }

  // Queues run in order, waits are kept, and an instruction's own events follow each other.
  void add_order(int of_class, const Unrolled& sequence) {
    std::vector<std::vector<int>> ends(plan_.queues.size());
    for (std::size_t i = 0; i < sequence.instances().size(); ++i) {
      const Instance& each = sequence.instances()[i];
      const Place place{of_class, static_cast<std::int32_t>(i), 0};
      const int start = event(place, 0);
      const auto* run = std::get_if<Run>(&each.instruction->body);
      const int steps =
          run == nullptr ? 1 : static_cast<int>(ranks_.joint_ops(of_class, *run).size());
      std::vector<int>& own = ends[static_cast<std::size_t>(each.queue())];
      if (!own.empty()) edges_.emplace_back(own.back(), start);
      for (const Wait& wait : each.instruction->waits) {
        const std::vector<int>& other = ends[static_cast<std::size_t>(wait.queue.index)];
        const auto issued = static_cast<std::int64_t>(other.size());
        if (issued <= wait.behind) continue;
        edges_.emplace_back(other[static_cast<std::size_t>(issued - wait.behind - 1)], start);
      }
      for (int step = 0; step < steps; ++step) {
        edges_.emplace_back(start + step, start + step + 1);
      }
      own.push_back(start + steps);
    }
  }

  // Nobody leaves a collective before all have come: through one event per collective, so that
  // edges grow with the members and not with their pairs.
  void add_collectives(const std::map<int, std::vector<Place>>& by_class) {
    for (std::size_t i = 0; i < by_class.begin()->second.size(); ++i) {
      const int all_here = events_++;
      for (const auto& [of_class, places] : by_class) {
        edges_.emplace_back(event(places[i], places[i].step), all_here);
        edges_.emplace_back(all_here, event(places[i], places[i].step + 1));
      }
    }
  }

  // The place of an event; nothing for the meeting point of a collective.
  std::optional<Place> place_of(int event) {
    for (int c = 0; c < ranks_.size(); ++c) {
      const std::vector<int>& first = first_event_[static_cast<std::size_t>(c)];
      const auto after = std::upper_bound(first.begin(), first.end(), event);
      if (after == first.begin()) continue;
      const auto index = static_cast<std::int32_t>(after - first.begin()) - 1;
      const bool is_last = after == first.end();
      if (is_last && event - first.back() > steps_of_last(c)) continue;
      return Place{c, index, event - first[static_cast<std::size_t>(index)]};
    }
    return std::nullopt;
  }

  int steps_of_last(int of_class) {
    const auto* run =
        std::get_if<Run>(&ranks_.sequence(of_class)->instances().back().instruction->body);
    if (run == nullptr) return 1;
    return static_cast<int>(ranks_.joint_ops(of_class, *run).size());
  }

  void report_cycle(const std::vector<int>& cycle) {
    std::vector<Place> places;
    for (const int event : cycle) {
      if (const auto place = place_of(event)) places.push_back(*place);
    }
    std::vector<std::string> notes;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place& needed = places[i];
      const Place& needs = places[(i + 1) % places.size()];
      const bool is_same = needed.of_class == needs.of_class && needed.instance == needs.instance;
      // Only partners make an event wait that isn't a start; the rest is order within a rank.
      if (is_same || needs.step == 0) continue;
      notes.push_back(ranks_.describe(needs) + " waits for " + ranks_.describe(needed));
    }
    std::reverse(notes.begin(), notes.end());
    if (notes.size() > kMaxNotes) {
      const std::size_t left = notes.size() - kMaxNotes;
      notes.resize(kMaxNotes);
      notes.push_back("... and " + std::to_string(left) + " more until the circle is closed");
    }
    report_.add(
        "ranks wait for each other in a circle, each before it comes to what the next "
        "one needs",
        std::move(notes), "put transfers that meet into one exchange, or order them alike");
  }

  Ranks& ranks_;
  const Plan& plan_;
  Report& report_;
  std::vector<std::vector<int>> first_event_;  // by class and instance
  int events_ = 0;
  std::vector<std::pair<int, int>> edges_;
};

}  // namespace

void check_circles(Ranks& ranks, const Plan& plan, const Communicators& communicators,
                   const Channels& channels, Report& report) {
  Circles(ranks, plan, report).check(communicators, channels);
}

}  // namespace mega::verifying
