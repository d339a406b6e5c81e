// Megatron-LM's layout string (--pipeline-model-parallel-layout): which layers each virtual stage
// has, one letter a layer, stages apart by '|', in model order.
//
//   E embedding   t layer   m multi-token prediction   L loss (the head)
//   x*3 repeats a letter, (tt|)*29 a group; commas only separate
//
//   "Et*3|(tt|)*29,m|L"  ──►  32 stages: embedding and 3 layers, 29 of 2 layers, m, head
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mega::planner {

struct StageString {
  std::vector<int> layers;      // per virtual stage
  std::vector<int> predictors;  // per virtual stage: layers of multi-token prediction
  std::string error;            // what is wrong, to follow the key's name; else empty
  bool operator==(const StageString&) const = default;
};

// Wants the embedding first and the loss last, each once; sums are the rules' business.
StageString parse_stage_string(std::string_view text);

}  // namespace mega::planner
