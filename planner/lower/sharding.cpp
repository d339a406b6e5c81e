#include "planner/lower/sharding.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ir/base/check.h"
#include "planner/lower/experts.h"

namespace mega::planner {
namespace {

AxisSet split(AxisSet axis, int size) {
  return size > 1 ? axis : AxisSet{};
}

}  // namespace

std::vector<std::string> axis_names(const std::string& rank_order) {
  std::vector<std::string> names(1);
  for (const char c : rank_order) {
    if (c == '-') {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  std::reverse(names.begin(), names.end());
  return names;
}

int Placement::index_of(const std::string& of_tensor) const {
  const bool is_dense =
      experts.axes.empty() || std::none_of(of_tensor.begin(), of_tensor.end(), is_of_experts);
  return is_dense ? 0 : 1;
}

Extents padded_extents(const ModelGraph& graph, int tp) {
  Extents extents = graph.extents;
  for (const PaddedLetter& padded : graph.padded) {
    extents[padded.letter] = round_up(extents[padded.letter], padded.multiple * tp);
  }
  return extents;
}

Placement place(const ModelGraph& graph, const Strategy& strategy) {
  Placement placement;
  placement.mesh.name = "dense";
  const int kv_heads = static_cast<int>(graph.extents['g']);
  const bool replicates_kv = strategy.tp > kv_heads;
  const int inner = strategy.zero_group / strategy.cp;
  const bool splits_dp = strategy.zero > 0 && inner > 1 && inner < strategy.dp;
  for (const std::string& name : axis_names(strategy.rank_order)) {
    if (name == "pp") placement.mesh.axes.push_back({name, strategy.pp});
    if (name == "dp" && splits_dp) {
      placement.mesh.axes.push_back({"dp_outer", strategy.dp / inner});
      placement.mesh.axes.push_back({"dp_inner", inner});
    } else if (name == "dp") {
      placement.mesh.axes.push_back({name, strategy.dp});
    }
    if (name == "cp") placement.mesh.axes.push_back({name, strategy.cp});
    if (name != "tp") continue;
    if (replicates_kv) {
      placement.mesh.axes.push_back({"tp_group", kv_heads});
      placement.mesh.axes.push_back({"tp_replica", strategy.tp / kv_heads});
    } else {
      placement.mesh.axes.push_back({name, strategy.tp});
    }
  }
  const auto axis = [&](const char* name) {
    const int index = axis_index(placement.mesh, name);
    MEGA_CHECK(index >= 0, "rank order " + strategy.rank_order + " lacks an axis");
    return split(AxisSet::of(index), placement.mesh.axes[static_cast<std::size_t>(index)].size);
  };
  placement.pipeline = AxisSet::of(axis_index(placement.mesh, "pp"));
  const AxisSet group = replicates_kv ? axis("tp_group") : axis("tp");
  const AxisSet replica = replicates_kv ? axis("tp_replica") : AxisSet{};
  placement.tensor = group | replica;
  const auto assign = [&](char letter, AxisSet axes) {
    placement.letters[static_cast<std::size_t>(letter - 'a')] = axes;
  };
  assign('b', splits_dp ? axis("dp_outer") | axis("dp_inner") : axis("dp"));
  placement.sequence = axis("cp");
  placement.context = strategy.context;
  assign('s', placement.sequence);
  if (strategy.zero > 0) {
    placement.zero = axis("cp");
    if (inner > 1) placement.zero = placement.zero | axis(splits_dp ? "dp_inner" : "dp");
  }
  assign('g', group);
  assign('r', replica);
  assign('f', placement.tensor);
  assign('v', placement.tensor);
  placement.sequence_parallel = strategy.sequence_parallel && strategy.tp > 1;
  placement.extents = padded_extents(graph, strategy.tp);
  placement.extents['b'] = std::int64_t{strategy.micro_batch} * strategy.dp;
  place_experts(graph, strategy, placement);
  return placement;
}

}  // namespace mega::planner
