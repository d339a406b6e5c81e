#include "planner/model/model_flops.h"

namespace mega::planner {

Flops model_flops(const ModelGraph& graph) {
  Flops forward;
  for (const BlockKindId kind : graph.chain) {
    for (const GraphOp& op : graph.kinds[kind].forward) {
      if (op.kind != OpKind::MatMul && op.kind != OpKind::GroupedMatMul &&
          op.kind != OpKind::Attention) {
        continue;
      }
      forward += flops(op.kind, *parse_index(op.index), graph.extents, op.attributes);
    }
  }
  return forward * 3.0;
}

}  // namespace mega::planner
