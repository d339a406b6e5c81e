// How long one op takes on one rank: the roofline (Williams, Waterman & Patterson 2009).
//
//   time = max(FLOPs / (peak * efficiency), bytes / (bandwidth * efficiency)) + launch
//
// Rounded to whole nanoseconds per op, so that sums over ops are exact in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/op.h"
#include "ir/types.h"
#include "planner/spec/cluster_spec.h"

namespace mega::planner {

// One op instance by its shapes: all that its time depends on.
struct OpShape {
  OpKind kind = OpKind::Add;
  std::string index;
  std::vector<Shape> inputs;
  std::vector<Shape> outputs;
  Attributes attributes;
};

// The dense peak at which matrix products of this precision run; that of fp32 where the machine
// has none.
FlopsPerSecond peak_of(const GpuSpec& gpu, const std::string& precision);

Flops op_flops(const OpShape& op);
// Elements that move between memory and the chip: each operand once, an output that is added to
// twice, of a table only the rows in use.
Bytes op_bytes(const OpShape& op);

// Not of collectives: see collective_time.h.
std::int64_t op_ns(const GpuSpec& gpu, const std::string& precision, const OpShape& op);

std::int64_t to_ns(Seconds time);  // rounded

}  // namespace mega::planner
