// The values between job and plan, as text: what each stage of the compiler made.
#pragma once

#include <optional>
#include <string>

#include "planner/compile.h"

namespace mega::planner {

enum class Stage : std::uint8_t { Model, Partition, Schedule, Plan };
std::optional<Stage> stage_named(const std::string& name);

// `rank`: only what concerns this rank (below the strategy's world). The model needs no strategy.
std::string show_model(const Planner& planner);
std::string show(Planner& planner, const Strategy& strategy, Stage stage, std::optional<int> rank);

// A plan of the program that one rank runs. To be read, not to be run: the others are missing.
Plan program_of_rank(const Plan& plan, int rank);

}  // namespace mega::planner
