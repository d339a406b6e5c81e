// When everything of a step happens: exact, in whole nanoseconds.
//
// An instruction starts when the one before it on its queue and all that it waits for are done; a
// transfer when both its sides are ready; what ranks do together when all of them are.
#pragma once

#include "ir/plan.h"
#include "ir/schedule.h"
#include "planner/cost/event_graph.h"

namespace mega::planner {

// Simulates one schedule with many durations: what depends on the schedule alone is done once.
class Simulator {
 public:
  explicit Simulator(const Schedule& schedule);
  Timeline run(const Durations& durations) const;

 private:
  EventGraph graph_;
};

Timeline simulate(const Schedule& schedule, const Durations& durations);

// The same from a plan alone: its train sequences and predicted_ns. One rank stands for all that
// share its position along plan.by. The plan must verify.
Timeline simulate(const Plan& plan);

}  // namespace mega::planner
