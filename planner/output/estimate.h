// A candidate together with what must be said next to its numbers: the conventions of FLOPs and
// bytes, which fields were defaults. What all outputs print, of a job or of a plan alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/compile.h"

namespace mega::planner {

inline constexpr std::string_view kFlopConvention =
    "model FLOPs, causal half, logits included, embedding lookup excluded";

struct Estimate {
  Candidate candidate;
  std::string flops = std::string(kFlopConvention);
  std::string bytes_per_parameter;     // "16: 4 weight + 4 gradient + 8 optimizer (fp32)"
  std::vector<std::string> defaulted;  // fields of the layout that the job leaves to defaults
  bool has_stages = true;              // false when read from a plan: it keeps the peak alone
};

Estimate estimate_of(Candidate candidate);

// Throughput figures of one step; zeros without times.
struct Rates {
  double tokens_per_s_per_gpu = 0;
  double model_tflops_per_gpu = 0;
  double hardware_tflops_per_gpu = 0;
  double mfu = 0;  // model FLOP/s over the peak at the job's precision
};
Rates rates_of(const Candidate& candidate);

// The terms of a step and of a stage's memory by the names that JSON and tables use.
struct TimeTerm {
  const char* name;   // "exposed_tp"
  const char* label;  // "tensor parallel, exposed"
  std::int64_t TimeTerms::*ns;
};
const std::vector<TimeTerm>& time_terms();

struct MemoryTerm {
  const char* name;
  Bytes StageMemory::*bytes;
};
const std::vector<MemoryTerm>& memory_terms();  // without the total

// The stage that holds the peak.
const StageMemory& fullest_stage(const Evaluation& evaluation);

}  // namespace mega::planner
