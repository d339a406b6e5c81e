// Builds the forward graph of a transformer from its spec.
#pragma once

#include <cstdint>

#include "ir/model_graph.h"
#include "planner/spec/job_spec.h"

namespace mega::planner {

// The graph of one micro-batch of one sequence of `sequence_length` tokens, forward only.
// Parameters have their Hugging Face names and layout [out, in]; of GPT-2's fused c_attn the
// parts are "c_attn.q", "c_attn.k" and "c_attn.v".
// Initialization: normal with init_std; outputs into the residual stream init_std / sqrt(2 layers)
// (Radford et al. 2019, section 2.3; as Megatron-LM); norms 1, biases 0.
// `global_batch` is what auxiliary losses of a micro-batch are a share of.
ModelGraph build_model(const ModelSpec& model, std::int64_t sequence_length,
                       std::int64_t global_batch = 1);

}  // namespace mega::planner
