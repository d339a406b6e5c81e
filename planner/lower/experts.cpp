#include "planner/lower/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

AxisSet axis(const Mesh& mesh, const char* name) {
  const int index = axis_index(mesh, name);
  MEGA_CHECK(index >= 0, "the expert mesh lacks " + std::string(name));
  const bool is_split = mesh.axes[static_cast<std::size_t>(index)].size > 1;
  return is_split ? AxisSet::of(index) : AxisSet{};
}

}  // namespace

Mesh expert_mesh(const Strategy& strategy) {
  Mesh mesh;
  mesh.name = "expert";
  const int edp = strategy.dp * strategy.cp * strategy.tp / (strategy.ep * strategy.etp);
  const int inner = strategy.zero > 0 ? std::gcd(edp, strategy.zero_group) : edp;
  for (const std::string& name : axis_names(strategy.rank_order)) {
    if (name == "pp") mesh.axes.push_back({"pp", strategy.pp});
    if (name == "dp" && inner > 1 && inner < edp) {
      mesh.axes.push_back({"edp_outer", edp / inner});
      mesh.axes.push_back({"edp_inner", inner});
    } else if (name == "dp") {
      mesh.axes.push_back({"edp", edp});
    }
    if (name == "ep") mesh.axes.push_back({"ep", strategy.ep});
    if (name == "tp") mesh.axes.push_back({"etp", strategy.etp});
  }
  return mesh;
}

void place_experts(const ModelGraph& graph, const Strategy& strategy, Placement& placement) {
  Extents& size = placement.extents;
  if (size['x'] == 0) return;  // no experts
  const auto assign = [&](std::string_view letters, AxisSet axes) {
    for (const char letter : letters)
      placement.letters[static_cast<std::size_t>(letter - 'a')] = axes;
  };
  AxisSet tokens = placement.of('b') | placement.of('s');
  if (placement.sequence_parallel) tokens = tokens | placement.tensor;
  const std::int64_t token_ranks = extent(placement.mesh, tokens);
  const std::int64_t rows = size['s'] * size['b'] * size['k'];
  size['a'] = size['u'] = size['c'] = rows;
  size['z'] = size['y'] = token_ranks;
  assign("auz", tokens);
  assign("cy", tokens);
  assign("w", placement.of('f'));
  if (strategy.ep * strategy.etp == 1) return;

  MEGA_CHECK(tokens == split_axes(placement.mesh) - placement.pipeline,
             "ranks of a stage hold the same tokens");
  placement.experts = expert_mesh(strategy);
  const bool splits_edp = axis_index(placement.experts, "edp_inner") >= 0;
  const AxisSet inner = axis(placement.experts, splits_edp ? "edp_inner" : "edp");
  const AxisSet edp = splits_edp ? inner | axis(placement.experts, "edp_outer") : inner;
  const AxisSet ep = axis(placement.experts, "ep");
  // Without a divisor in common nothing of the experts is cut.
  if (strategy.zero > 0 && std::gcd(extent(placement.experts, edp), strategy.zero_group) > 1) {
    placement.zero_experts = inner;
  }
  placement.rows = ep | axis(placement.experts, "etp");
  assign("x", ep);
  assign("m", axis(placement.experts, "etp"));
  assign("c", edp | ep);
  assign("y", edp);
  size['u'] = rows * strategy.etp;
  // Of a rank: all tokens of those that send to it, as often as it can be chosen.
  const std::int64_t held = size['x'] / strategy.ep;
  const std::int64_t sources = std::int64_t{strategy.ep} * strategy.etp;
  const std::int64_t tokens_here = size['s'] * size['b'] / token_ranks;
  const std::int64_t most = tokens_here * sources * std::min(size['k'], held);
  std::int64_t planned = most;
  if (graph.row_factor > 0) {
    const auto mean = static_cast<double>(tokens_here * size['k'] * strategy.etp);
    planned = std::min(most, static_cast<std::int64_t>(std::ceil(graph.row_factor * mean)));
  }
  size['c'] = planned * extent(placement.experts, edp | ep);
}

double expected_rows(const Placement& placement, double imbalance) {
  if (placement.experts.axes.empty()) return 1;
  const auto local = [&](char letter, const Mesh& mesh) {
    const std::int64_t rows = placement.extents[letter] / extent(mesh, placement.of(letter));
    return static_cast<double>(rows);
  };
  return std::min(1.0, imbalance * local('u', placement.mesh) / local('c', placement.experts));
}

bool is_routed(OpKind kind) {
  switch (kind) {
    case OpKind::Copy:
    case OpKind::Route:
    case OpKind::RouteBackward:
    case OpKind::ExpertLoad:
    case OpKind::BalanceLoss:
    case OpKind::RouterZLoss:
    case OpKind::CountExperts:
    case OpKind::SortRows:
    case OpKind::TakeRows:
    case OpKind::SumRows:
    case OpKind::GroupedMatMul:
    case OpKind::GroupedSwiGlu:
    case OpKind::GroupedGeGlu:
    case OpKind::GroupedSwiGluBackward:
    case OpKind::GroupedGeGluBackward:
    case OpKind::CombineRows:
    case OpKind::CombineRowsBackward:
    case OpKind::AllToAll:
    case OpKind::AllToAllV:
      return true;
    default:
      return false;
  }
}

bool is_of_experts(char letter) {
  return std::string_view("cmxy").find(letter) != std::string_view::npos;
}

AxisSet addends(OpKind kind, const Index& index, const std::string& letters,
                const std::array<AxisSet, 26>& axes) {
  // Rows that move are addends no more: each copy is a row of its own.
  const bool sums =
      kind == OpKind::GroupedMatMul || kind == OpKind::ExpertLoad || kind == OpKind::CountExperts;
  if (!sums) return {};
  AxisSet contracted, kept;
  for (const std::string& input : index.inputs) {
    for (const char letter : input)
      contracted = contracted | axes[static_cast<std::size_t>(letter - 'a')];
  }
  for (const char letter : letters) kept = kept | axes[static_cast<std::size_t>(letter - 'a')];
  return contracted - kept;
}

Group row_group(const Placement& placement) {
  return {.mesh = 1, .along = placement.rows, .only = {}};
}

std::int64_t row_stride(const Placement& placement) {
  const Mesh& mesh = placement.experts;
  const int ep = axis_index(mesh, "ep"), etp = axis_index(mesh, "etp");
  return ep < etp ? mesh.axes[static_cast<std::size_t>(etp)].size : 1;
}

}  // namespace mega::planner
