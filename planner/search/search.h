// Exact search: every legal strategy is evaluated or discarded by a bound that cannot lie.
//
// Knows no cost model: `bounds` and `evaluate` come as functions. Best first: strategies are
// looked at in the order of their bounds, so that the first bound above what was found ends the
// search with a proof. Optimal with respect to `evaluate`; ties break by the canonical order of
// strategies, the cut of their stages aside.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

struct SearchOptions {
  int top = 5;              // layouts that differ in a number, not only in a flag
  std::int64_t budget = 0;  // most evaluations, 0 for no limit
  // Called before every evaluation (progress, interruption); `best_ns` is negative while nothing
  // is found. Returns false to stop with the best so far.
  std::function<bool(std::int64_t evaluated, std::int64_t left, std::int64_t best_ns)> keep_going =
      {};
  // Asked before every bound: when true, no more layouts are looked at, and those with a bound are
  // the space of the answer, which then is not proved.
  std::function<bool()> interrupted = {};
};

struct SearchCallbacks {
  // Fills `stages` with the cut that `stages: auto` stands for; false when no cut stays within
  // `limit`, then `stages` is the best cut that doesn't.
  std::function<bool(Strategy&)> balance;
  std::function<Bounds(const Strategy&)> bounds;  // `stages` still empty
  std::function<Evaluation(const Strategy&)> evaluate;
  Bytes limit;             // capacity less margin; 0 for no limit
  bool by_memory = false;  // objective: least memory, then least time, instead of throughput
};

struct Found {
  Strategy strategy;
  Evaluation evaluation;
};

struct SearchCounts {
  // space = over_memory + bounded + evaluated, when not stopped early; illegal combinations are
  // not part of it. over_memory: those that a bound or an evaluation showed not to fit.
  std::int64_t space = 0, illegal = 0, over_memory = 0, bounded = 0, evaluated = 0;
  bool proven_optimal = true;
  double gap = 0;  // (best - least bound left) / best, when stopped early
};

// Why nothing is feasible: the rule that stood last in the way and what would help.
struct Infeasible {
  std::string rule, message, nearest;
};

struct SearchResult {
  std::vector<Found> top;  // best first; empty: none is feasible, or stopped before any was found
  SearchCounts counts;
  std::vector<Infeasible> infeasible;
  std::optional<Strategy> nearest;  // when nothing is feasible: what came nearest
  Errors errors;  // the user's own values break rules, whatever the free fields: nothing searched
};

SearchResult search(const JobSpec& job, const SearchCallbacks& callbacks,
                    const SearchOptions& options);

}  // namespace mega::planner
