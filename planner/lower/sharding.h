// Which axes split which letter: the whole of a layout's placement, before any op is looked at.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ir/mesh.h"
#include "ir/model_graph.h"
#include "planner/strategy.h"

namespace mega::planner {

struct Placement {
  Mesh mesh;         // pp, dp, cp, tp in rank order, outermost first
  AxisSet pipeline;  // pp
  AxisSet tensor;    // tp, as one axis or two
  AxisSet sequence;  // cp; empty when it is 1
  ContextKind context = ContextKind::Ring;
  AxisSet zero;     // cp and dp, or of dp the inner of two axes; empty at zero 0
  Extents extents;  // global sizes, vocabulary padded, b = micro_batch * dp
  // Of parameters and inputs; everything else follows from the ops. Axes of size 1 are left out.
  std::array<AxisSet, 26> letters{};
  Mesh experts;          // the same ranks in the order of experts; no axes where it isn't used
  AxisSet rows;          // of that mesh: the ranks that exchange rows
  AxisSet zero_experts;  // of that mesh: as `zero`, the largest group that divides zero_group
  bool sequence_parallel = false;  // partial sums of the residual stream are scattered over s

  const Mesh& meshes(int index) const { return index == 0 ? mesh : experts; }
  // Of the mesh whose axes split these letters.
  int index_of(const std::string& of_tensor) const;
  AxisSet of(char letter) const { return letters[static_cast<std::size_t>(letter - 'a')]; }
};

// "tp-cp-ep-dp-pp" -> {"pp", "dp", "ep", "cp", "tp"}: outermost first.
std::vector<std::string> axis_names(const std::string& rank_order);
Mesh expert_mesh(const Strategy& strategy);

// Heads split over tp by groups: g takes all of tp where tp divides kv_heads. Where there are
// more ranks than kv heads, the axis is split in two, tp_group · tp_replica: g over the first,
// the query heads of a group (r) over the second, and k and v are replicated along it; the sum of
// their gradients follows from r being contracted.
// A zero_group smaller than all data ranks splits dp in two, dp_outer · dp_inner, and takes the
// inner one.
Placement place(const ModelGraph& graph, const Strategy& strategy);

// Global sizes with each padded letter rounded up so that `tp` ranks hold equal parts.
Extents padded_extents(const ModelGraph& graph, int tp);

}  // namespace mega::planner
