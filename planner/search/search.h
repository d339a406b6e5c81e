// Exact search: every legal strategy is evaluated or discarded by a bound that cannot lie.
//
// Knows no cost model: `bounds` and `evaluate` come as functions. Optimal with respect to
// `evaluate`; ties break by the canonical order of strategies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

struct SearchOptions {
  int top = 5;
  std::int64_t budget = 0;  // most evaluations, 0 for no limit
  // Called now and then (progress, interruption); returns false to stop with the best so far.
  std::function<bool(std::int64_t evaluated, std::int64_t left, std::int64_t best_ns)> keep_going;
};

struct SearchCallbacks {
  // Fills `stages` (the cut that `stages: auto` stands for); false when no cut is legal.
  std::function<bool(Strategy&)> balance;
  std::function<Bounds(const Strategy&)> bounds;  // `stages` still empty
  std::function<Evaluation(const Strategy&)> evaluate;
  Bytes limit;             // capacity less margin; 0 for no limit
  bool by_memory = false;  // objective: memory instead of throughput
};

struct Found {
  Strategy strategy;
  Evaluation evaluation;
};

struct SearchCounts {
  // space = over_memory + bounded + evaluated; illegal combinations are not part of it.
  std::int64_t space = 0, illegal = 0, over_memory = 0, bounded = 0, evaluated = 0;
  bool proven_optimal = true;
  double gap = 0;  // (best - least bound left) / best, when stopped early
};

// Why nothing is feasible: the rule that stood last in the way and what would help.
struct Infeasible {
  std::string rule, message, nearest;
};

struct SearchResult {
  std::vector<Found> top;  // best first; empty: none is feasible
  SearchCounts counts;
  std::vector<Infeasible> infeasible;
};

SearchResult search(const JobSpec& job, const SearchCallbacks& callbacks,
                    const SearchOptions& options);

}  // namespace mega::planner
