// Recomputation of activations (Chen et al. 2016), done in the graph: backward does forward ops
// again right before the first op that needs them, and what they make is no longer kept.
#pragma once

#include <cstdint>

#include "ir/model_graph.h"
#include "planner/strategy.h"

namespace mega::planner {

// The block with the ops that `recompute` names done again in its backward. Only layers are
// recomputed (blocks with an input and an output): the embedding keeps no activation worth it, and
// the head's backward follows its forward at once. Full keeps the layer's input alone.
// What backward reads is made from what is kept, lazily: of the ops that are named, those that
// no backward op needs are not done again (the last product of a layer, for one).
Block recompute(const Block& block, const Recompute& recompute);

// Bits of Module for the names of Recompute::modules; an unknown name is our own mistake.
std::uint32_t modules_named(const std::vector<std::string>& names);

// Matrix products and attention that one sequence does again, by the convention of model_flops().
Flops recomputed_flops(const ModelGraph& graph, const Recompute& recompute);

}  // namespace mega::planner
