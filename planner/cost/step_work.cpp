#include "planner/cost/step_work.h"

#include <cstddef>
#include <vector>

#include "planner/lower/assign_memory.h"

namespace mega::planner {

namespace {

std::int64_t sum_ns(Costs& costs, const Mesh& mesh, const std::vector<BucketCollective>& all) {
  std::int64_t ns = 0;
  for (const BucketCollective& each : all) {
    ns += costs.collective_ns(each.kind, Bytes(4 * each.elements), mesh, along(each.along));
  }
  return ns;
}

}  // namespace

Group along(AxisSet axes) {
  return {.mesh = 0, .along = axes, .only = {}};
}

std::int64_t zero_ns(const Costs& costs, std::int64_t elements) {
  return costs.compute_ns(OpKind::Fill, "->n", {}, {{elements}});
}

std::int64_t norm_ns(const Costs& costs, std::int64_t elements) {
  return costs.compute_ns(OpKind::SquareSum, "n->", {{elements}}, {{}}, {.accumulate = 1});
}

std::int64_t optimizer_ns(const Costs& costs, std::int64_t elements) {
  const OptimizerSpec& optimizer = costs.job().training.optimizer;
  const int states = optimizer_states(optimizer);
  const std::vector<Shape> outputs(static_cast<std::size_t>(1 + states), Shape{elements});
  Attributes attributes;
  attributes.accumulate = (1U << outputs.size()) - 1;
  const bool is_adam = optimizer.kind == OptimizerKind::AdamW;
  return costs.compute_ns(is_adam ? OpKind::AdamW : OpKind::Sgd,
                          is_adam       ? "n,->n,n,n"
                          : states == 0 ? "n,->n"
                                        : "n,->n,n",
                          {{elements}, {}}, outputs, attributes);
}

std::int64_t reduce_ns(Costs& costs, const Mesh& mesh, int zero, const BucketClass& bucket,
                       std::int64_t elements) {
  return sum_ns(costs, mesh, reductions_of(zero, bucket, elements));
}

std::int64_t gather_ns(Costs& costs, const Mesh& mesh, int zero, const BucketClass& bucket,
                       std::int64_t elements) {
  return sum_ns(costs, mesh, gathers_of(zero, bucket, elements));
}

std::int64_t metrics_ns(Costs& costs, const Mesh& mesh, std::int64_t count) {
  if (world_size(mesh) == 1) return 0;
  return costs.collective_ns(OpKind::AllReduce, Bytes(8 * count), mesh, along(all_axes(mesh)));
}

}  // namespace mega::planner
