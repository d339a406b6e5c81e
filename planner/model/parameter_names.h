// What parameters are called: the names of Hugging Face checkpoints, by family.
#pragma once

#include "planner/spec/job_spec.h"

namespace mega::planner {

// "{}" stands for the layer's number. A family that fuses products gets one name per part:
// GPT-2's c_attn is "c_attn.q", "c_attn.k" and "c_attn.v".
struct ParameterNames {
  const char* embedding;
  const char* position;
  const char* embedding_norm;
  const char* norm1;  // before attention
  const char *q, *k, *v, *attention_out;
  const char *q_norm, *k_norm;
  const char* post_attention;  // on what attention adds to the stream
  const char* norm2;           // before the MLP
  const char *gate, *up, *down;
  const char* post_mlp;
  const char* final_norm;
  const char* head;
};

// Of a family that has no names of its own, Llama's.
const ParameterNames& names_of(const ModelSpec& model);

}  // namespace mega::planner
