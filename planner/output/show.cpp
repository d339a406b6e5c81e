#include "planner/output/show.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/plan_text.h"

namespace mega::planner {
namespace {

// "rank 5: dp 1 pp 0 tp 1", and which layers it has.
std::string place_of(const PartitionedGraph& graph, const Strategy& strategy, int rank) {
  std::string text = "rank " + std::to_string(rank) + ":";
  for (int axis = 0; axis < static_cast<int>(graph.mesh.axes.size()); ++axis) {
    text += " " + graph.mesh.axes[static_cast<std::size_t>(axis)].name + " " +
            std::to_string(coordinate(graph.mesh, rank, axis));
  }
  const int pipeline_rank = position_along(graph.mesh, rank, graph.pipeline);
  int first = 0;
  for (std::size_t s = 0; s < strategy.stages.size(); ++s) {
    const int end = first + strategy.stages[s];
    const StagePlace place = place_of_stage(strategy.schedule, strategy.pp, static_cast<int>(s));
    if (place.rank == pipeline_rank && end > first) {
      text += ", layers " + std::to_string(first) + " to " + std::to_string(end - 1);
    }
    first = end;
  }
  return text + "\n";
}

std::string show_schedule(const Schedule& schedule, const PartitionedGraph& graph,
                          std::optional<int> rank) {
  if (!rank) return print(schedule);
  const int pipeline_rank = position_along(graph.mesh, *rank, graph.pipeline);
  const std::string text = print(schedule);
  const std::string start = "rank " + std::to_string(pipeline_rank) + " |";
  std::string lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (!line.starts_with("rank ") || line.starts_with(start)) lines += line + "\n";
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::optional<Stage> stage_named(const std::string& name) {
  if (name == "model") return Stage::Model;
  if (name == "partition") return Stage::Partition;
  if (name == "schedule") return Stage::Schedule;
  if (name == "plan") return Stage::Plan;
  return std::nullopt;
}

std::string show_model(const Planner& planner) {
  return print(planner.graph());
}

std::string show(Planner& planner, const Strategy& strategy, Stage stage, std::optional<int> rank) {
  MEGA_CHECK(!rank || *rank < world_size(strategy), "no rank " + std::to_string(*rank));
  switch (stage) {
    case Stage::Model:
      return show_model(planner);
    case Stage::Partition: {
      const PartitionedGraph graph = planner.partitioned(strategy);
      return (rank ? place_of(graph, strategy, *rank) : "") + print(graph);
    }
    case Stage::Schedule:
      return show_schedule(planner.schedule(strategy), planner.partitioned(strategy), rank);
    case Stage::Plan: {
      const Plan plan = planner.compile(strategy);
      return print_plan(rank ? program_of_rank(plan, *rank) : plan);
    }
  }
  MEGA_CHECK(false, "a stage that is none");
}

Plan program_of_rank(const Plan& plan, int rank) {
  Plan alone = plan;
  alone.programs = {plan.programs[static_cast<std::size_t>(program_of(plan, rank))]};
  alone.by = {};
  alone.assignment = {0};
  return alone;
}

}  // namespace mega::planner
