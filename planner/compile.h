// The compiler's spine: the one place that binds specs, graph, cost, search and lowering.
//
//   JobSpec ─► ModelGraph ─► search / evaluate ─► Strategy ─► PartitionedGraph ─► Schedule ─► Plan
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/base/result.h"
#include "ir/model_graph.h"
#include "ir/partitioned_graph.h"
#include "ir/plan.h"
#include "ir/schedule.h"
#include "planner/search/search.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

// One layout with everything that is said about it: the JSON object of the command line.
struct Candidate {
  Strategy strategy;
  Evaluation evaluation;
  int world = 1;
  std::int64_t micro_batches = 1;
  bool has_times = true;  // false without a cluster
  std::int64_t tokens_per_step = 0;
  double model_flops_per_step = 0;        // model FLOPs, causal half, logits included; all ranks
  double hardware_flops_per_step = 0;     // with recomputation
  FlopsPerSecond peak_per_rank;           // at the job's precision
  std::int64_t parameters = 0;            // unpadded, a tied tensor once
  std::int64_t parameters_allocated = 0;  // with the padded vocabulary
  Bytes capacity;                         // 0 when unknown
  Bytes margin;
  bool fits = true;  // peak + margin <= capacity
};

// Plans one job. Keeps what all its strategies share: the graph and the memoised costs.
class Planner {
 public:
  explicit Planner(JobSpec job);
  ~Planner();
  Planner(Planner&&) noexcept;

  const JobSpec& job() const;
  const ModelGraph& graph() const;  // for one sequence per micro-batch

  // The one layout that `layout:` describes: absent fields have their defaults, stages are
  // balanced. All broken rules at once.
  Result<Strategy> layout();

  Candidate candidate(const Strategy& strategy);
  SearchResult search(const SearchOptions& options);

  PartitionedGraph partitioned(const Strategy& strategy) const;
  Schedule schedule(const Strategy& strategy);
  Durations durations(const Strategy& strategy);
  Plan compile(const Strategy& strategy);  // a legal strategy; the plan verifies

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mega::planner
