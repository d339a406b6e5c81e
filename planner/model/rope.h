// How rotary positions turn the heads of a model: the numbers of the rope op.
#pragma once

#include "ir/op.h"
#include "planner/spec/job_spec.h"

namespace mega::planner {

// Of a head of which `dims` dimensions turn. With llama3's and YaRN's scaling as transformers has
// them (modeling_rope_utils.py).
Attributes rope_attributes(const ModelSpec& model, std::int64_t dims);

// Factor on the scores: 1 / sqrt(head_dim); of latent attention with YaRN also the square of its
// magnitude of all dimensions (DeepSeek-V2's softmax_scale).
double attention_scale(const ModelSpec& model);

}  // namespace mega::planner
