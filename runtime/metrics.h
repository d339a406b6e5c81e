// What a run reports: one JSON object a line for programs, one table row a step for people.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "ir/plan.h"
#include "runtime/session.h"

namespace mega::runtime {

// The facts of a run that every line needs.
struct RunFacts {
  std::string plan_file;
  std::string backend = "cpu";
  int world = 1;
  std::int64_t tokens_per_step = 0;
  Seconds predicted_step_time;
  double model_flops_per_step = 0;  // of the world: model FLOPs, causal half, logits included
  double peak_flops = 0;            // of the world; 0 when unknown
  Bytes peak_bytes;                 // most that one rank has allocated
};
RunFacts facts_of(const Plan& plan, const std::string& plan_file, Bytes peak_bytes);

// JSON lines. Numbers are in shortest round-trip form; what is unknown is null.
std::string start_line(const RunFacts& facts, const Header& header);
std::string step_line(const RunFacts& facts, const StepResult& result);
std::string stop_line(std::int64_t steps, const std::string& reason);

// The table: at most 80 columns.
std::string table_header();
std::string table_row(const RunFacts& facts, const StepResult& result);
// 1, 2, 5, 10, 20, ... at first, then some twenty evenly spaced ones, and always the last.
bool is_shown(std::int64_t step, std::int64_t steps);

// A JSON string with its quotes; bytes that are not UTF-8 are replaced.
std::string json_string(const std::string& text);

}  // namespace mega::runtime
