// A model spec from the config.json of a Hugging Face model.
//
// Reads the families of planner/spec/families.h, in the style of any release of transformers:
// rotary positions as `rope_theta` and `rope_scaling`, or inside `rope_parameters`. What a key says
// about generation or files is passed over; what it says about the model and we don't understand
// is listed, so that nobody trains another model than they think.
#pragma once

#include <string>
#include <vector>

#include "ir/base/result.h"

namespace mega::planner {

struct ImportedModel {
  std::string yaml;                         // as `model` of a job or a file of specs/models
  std::vector<std::string> not_understood;  // "key: value", sorted by key
};

// `text` is the file's content, `file` its name for messages. Errors: no JSON (with line and
// column), no or an unknown `model_type`, sizes that are missing or no numbers.
Result<ImportedModel> import_hf(const std::string& file, const std::string& text);

}  // namespace mega::planner
