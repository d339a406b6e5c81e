// Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, section 2.1).
//
//   x ─► q_a [q] ─norm─► q_b ─► o │ i ─rope─► join ─► q [g,d]        d = o + i
//   x ─► kv_a [l] ─norm─► kv_b ─► o ────────► join ─► k [g,d]
//        │                  └──► j ─────────────────► v [g,j]
//        └─► [i] ─rope─────────────────────────┘ (one for all heads)
//
// The products down to the latents are not split by tensor parallelism, those up to the heads are.
// Without q_rank, q comes straight from x.
#pragma once

#include "planner/model/block_builder.h"

namespace mega::planner {

// From the normed stream to the attention's output [s,b,g,r,j], r = 1.
TensorId latent_attention(BlockBuilder& b, const ModelSpec& model, TensorId normed);

// Sizes of the letters that only latent attention has.
void set_latent_extents(const ModelSpec& model, Extents& extents);

}  // namespace mega::planner
