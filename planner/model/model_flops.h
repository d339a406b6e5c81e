// Work of a model, by the convention of published throughput figures.
#pragma once

#include "ir/model_graph.h"

namespace mega::planner {

// Model FLOPs of one sequence, forward and backward: 3 times the forward's matrix products and
// attention, half of the scores (causal), logits included, embedding look-ups and elementwise ops
// not. Per token this is 6 (parameters in products) + 6 layers heads head_dim sequence
// (Chowdhery et al. 2022, appendix B, with the causal half).
Flops model_flops(const ModelGraph& graph);

}  // namespace mega::planner
