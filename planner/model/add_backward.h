// Adds the backward pass to a forward graph.
#pragma once

#include "ir/model_graph.h"

namespace mega::planner {

// Fills Block::backward, the main gradients of parameters and the gradients of the residual
// stream. One rule per op (reverse-mode differentiation); contributions to one tensor's gradient
// accumulate in place, and weight gradients accumulate over the micro-batches.
ModelGraph add_backward(const ModelGraph& graph);

}  // namespace mega::planner
