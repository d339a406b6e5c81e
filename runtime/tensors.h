// Global tensors put together from the parts that ranks hold, by their shard annotations alone.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ir/base/result.h"
#include "ir/plan.h"

namespace mega::runtime {

struct GlobalTensor {
  std::string name;
  Shape shape;  // unpadded
  std::vector<float> data;
};

// The first byte of each rank's arena, by rank.
using Arenas = std::span<std::byte* const>;

// All persistent fp32 tensors of a role, by name; of copies, the lowest rank's counts. Fails when
// parts of a tensor are missing or two annotations of it disagree.
Result<std::vector<GlobalTensor>> gather(const Plan& plan, Arenas arenas, Role role);

// Copies of one part must have the same bits: on ranks that differ along axes which split no
// dimension, and where several programs hold a tensor of the same global name. The failure names
// the tensor, both ranks and the first element that differs.
Status compare_replicas(const Plan& plan, Arenas arenas);

}  // namespace mega::runtime
