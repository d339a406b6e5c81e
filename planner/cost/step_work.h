// The pieces of the work that is done once a step, as lowering writes them: what a flat bucket of
// parameters costs.
#pragma once

#include <cstdint>

#include "ir/mesh.h"
#include "planner/cost/costs.h"

namespace mega::planner {

Group along(AxisSet axes);  // of the dense mesh

std::int64_t zero_ns(const Costs& costs, std::int64_t elements);
std::int64_t norm_ns(const Costs& costs, std::int64_t elements);
std::int64_t optimizer_ns(const Costs& costs, std::int64_t elements);
// What makes of the addends of gradients their sum, or the part of it that the rank updates.
std::int64_t reduce_ns(Costs& costs, const Mesh& mesh, int zero, const BucketClass& bucket,
                       std::int64_t elements);
// Makes weights whole after the update.
std::int64_t gather_ns(Costs& costs, const Mesh& mesh, int zero, const BucketClass& bucket,
                       std::int64_t elements);
// Loss, norm and what else there is (`count` doubles), summed over the world.
std::int64_t metrics_ns(Costs& costs, const Mesh& mesh, std::int64_t count);

}  // namespace mega::planner
