// What the name of a family says about the keys that a model spec leaves out.
#pragma once

#include <string>
#include <vector>

#include "planner/spec/job_spec.h"

namespace mega::planner {

// As `model.family` takes them: the `model_type` of Hugging Face configurations.
const std::vector<std::string>& families();

// Everything but sizes. An unknown family is an empty model of that name.
ModelSpec family_defaults(const std::string& family);

// Whether embeddings are multiplied by sqrt(hidden) where `embedding_scale` is not given.
bool scales_embeddings(const std::string& family);

}  // namespace mega::planner
