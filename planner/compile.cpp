#include "planner/compile.h"

#include <algorithm>
#include <utility>

#include "ir/base/check.h"
#include "planner/cost/bounds.h"
#include "planner/cost/evaluate.h"
#include "planner/cost/op_time.h"
#include "planner/layout_defaults.h"
#include "planner/lower/emit_plan.h"
#include "planner/lower/partition.h"
#include "planner/lower/recompute.h"
#include "planner/lower/sharding.h"
#include "planner/model/add_backward.h"
#include "planner/model/build_model.h"
#include "planner/model/model_flops.h"
#include "planner/output/header_entries.h"

namespace mega::planner {

struct Planner::State {
  explicit State(JobSpec spec)
      : job(std::move(spec)),
        graph(add_backward(
            build_model(job.model, job.training.sequence_length, job.training.global_batch))),
        costs(job, graph) {}

  JobSpec job;
  ModelGraph graph;
  Costs costs;

  // What a rank's arena may take; 0 for no limit. A margin of more than the memory leaves a byte:
  // nothing fits.
  Bytes limit() const {
    if (!job.cluster) return {};
    return std::max(Bytes(1), job.cluster->gpu.memory - memory_margin(job));
  }
};

Planner::Planner(JobSpec job) : state_(std::make_unique<State>(std::move(job))) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;

const JobSpec& Planner::job() const {
  return state_->job;
}
const ModelGraph& Planner::graph() const {
  return state_->graph;
}

Result<Strategy> Planner::layout() {
  MEGA_TRY(Strategy strategy, complete_layout(state_->job));
  if (!strategy.stages.empty()) return strategy;
  // A cut that doesn't fit is still a layout: whoever asked is told that it doesn't.
  const bool fits = balance_stages(state_->costs, strategy, state_->limit());
  if (!fits)
    MEGA_CHECK(balance_stages(state_->costs, strategy, Bytes()), "a legal layout has a cut");
  return strategy;
}

Candidate Planner::candidate(const Strategy& strategy) {
  const JobSpec& job = state_->job;
  Candidate candidate;
  candidate.strategy = strategy;
  candidate.evaluation = evaluate(state_->costs, strategy);
  candidate.world = world_size(strategy);
  candidate.micro_batches = micro_batches(strategy, job.training.global_batch);
  candidate.has_times = job.cluster.has_value();
  candidate.tokens_per_step = job.training.global_batch * job.training.sequence_length;
  candidate.model_flops_per_step =
      model_flops(state_->graph).count() * static_cast<double>(job.training.global_batch);
  candidate.hardware_flops_per_step =
      candidate.model_flops_per_step + recomputed_flops(state_->graph, strategy.recompute).count() *
                                           static_cast<double>(job.training.global_batch);
  if (job.cluster) candidate.peak_per_rank = peak_of(job.cluster->gpu, job.training.precision);
  candidate.parameters = parameter_count(state_->graph, state_->graph.extents);
  candidate.parameters_allocated =
      parameter_count(state_->graph, padded_extents(state_->graph, strategy.tp));
  candidate.capacity = job.cluster ? job.cluster->gpu.memory : Bytes();
  candidate.margin = memory_margin(job);
  candidate.fits =
      !job.cluster || peak(candidate.evaluation) + candidate.margin <= candidate.capacity;
  return candidate;
}

SearchResult Planner::search(const SearchOptions& options) {
  SearchCallbacks callbacks;
  Costs& costs = state_->costs;
  callbacks.limit = state_->limit();
  callbacks.by_memory = state_->job.search.objective == "memory";
  callbacks.balance = [&](Strategy& strategy) {
    return balance_stages(costs, strategy, callbacks.limit);
  };
  callbacks.bounds = [&](const Strategy& strategy) {
    return lower_bounds(costs, strategy, callbacks.limit);
  };
  callbacks.evaluate = [&](const Strategy& strategy) { return evaluate(costs, strategy); };
  return mega::planner::search(state_->job, callbacks, options);
}

PartitionedGraph Planner::partitioned(const Strategy& strategy) const {
  return partition(state_->graph, strategy);
}

Schedule Planner::schedule(const Strategy& strategy) {
  return build_schedule(schedule_shape(state_->costs, strategy));
}

Durations Planner::durations(const Strategy& strategy) {
  return mega::planner::durations(state_->costs, strategy);
}

Plan Planner::compile(const Strategy& strategy) {
  Plan plan = emit_plan(state_->job, partitioned(strategy), strategy, schedule(strategy),
                        durations(strategy));
  const Candidate said = candidate(strategy);
  plan.header.entries = header_entries(said);
  plan.header.predicted_step_ns = said.evaluation.step_ns;
  plan.header.model_flops_per_step = said.model_flops_per_step;
  plan.header.peak_flops_per_rank = said.peak_per_rank.count();
  return plan;
}

}  // namespace mega::planner
