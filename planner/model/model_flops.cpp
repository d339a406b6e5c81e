#include "planner/model/model_flops.h"

namespace mega::planner {

Flops model_flops(const ModelGraph& graph) {
  Flops forward;
  for (const BlockKindId kind : graph.chain) {
    for (const GraphOp& op : graph.kinds[kind].forward) {
      if (!is_in_model_flops(op.kind)) continue;
      forward += flops(op.kind, *parse_index(op.index), graph.extents, op.attributes);
    }
  }
  return forward * 3.0;
}

}  // namespace mega::planner
