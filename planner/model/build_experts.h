// The part of a layer in which each token goes through a few of many experts.
//
//   x [s,b,h] ──router──► logits [s,b,e] ──route──► weights, experts [s,b,k]
//                                                      │ sort_rows: places, rows per expert
//   x ──take_rows──► rows [a,h] ──all_to_all_v──► [c,h] ──► gate, up ──► swiglu ──► down
//                                                                                    │
//   y [s,b,h] ◄──combine_rows (weights)── [u,h] ◄──────────────────all_to_all_v──────┘
//
// The rows go where their experts are: without expert parallelism both moves and the letters c, u
// and a are the same rows, and the partitioner leaves the moves out. `x` is also the input of the
// shared experts, one dense SwiGLU that all tokens go through.
//
// What keeps the load even (per micro-batch of T tokens; N are those of a step):
//   balance loss  coefficient E / (k T N) sum over experts of (tokens sent) (sum of probabilities)
//                 = coefficient E sum f P of Fedus et al. 2021, weighted by the share T / N
//   z-loss        coefficient / N sum over tokens of (log sum exp of the logits)^2 (Zoph et al.
//                 2022)
// Both are added into the scalar "aux_loss"; the main loss stays what it is.
//   bias          added to the scores when experts are chosen, moved after each step towards even
//                 load (Wang et al. 2024, auxiliary-loss-free balancing)
#pragma once

#include "ir/model_graph.h"
#include "planner/spec/job_spec.h"

namespace mega::planner {

// Adds parameters and ops to `block`; returns the output, to be added to the residual stream.
// `tokens_per_step` is N.
TensorId add_experts(Block& block, const ModelSpec& model, std::int64_t sequence_length,
                     std::int64_t tokens_per_step, TensorId x);

// Sizes of the letters that only experts have, for one sequence.
void set_expert_extents(const MoeSpec& moe, Extents& extents);

}  // namespace mega::planner
