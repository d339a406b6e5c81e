// Two plans written by hand, toy_one.plan and toy_two.plan, for tests that run plans: what each
// `$NAME` in them stands for follows from these options.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "ir/plan_text.h"

namespace mega::testing {

struct ToyOptions {
  int copies = 1;
  int stages = 1;                  // 1 or 2
  std::int64_t micro_batches = 3;  // of 2 samples, per copy and step
  double learning_rate = 8;
};

inline std::string toy_plan_text(const ToyOptions& options) {
  const std::string folder = MEGA_SOURCE_DIR "/tests/support/";
  std::ifstream file(folder + (options.stages == 1 ? "toy_one.plan" : "toy_two.plan"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::int64_t m = options.micro_batches;
  const std::pair<std::string, std::string> values[] = {
      {"$COPIES", std::to_string(options.copies)},
      {"$MICRO_BATCHES", std::to_string(m)},
      {"$BATCH", std::to_string(options.copies * m * 2)},
      {"$STRIDE", std::to_string(options.copies * 2)},
      {"$LABELS", std::to_string(m * 2 * 6)},
      {"$TURNS", std::to_string(m - 1)},
      {"$LAST", std::to_string(m - 1)},
      {"$RATE", std::to_string(options.learning_rate)}};
  for (const auto& [name, value] : values) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

inline Plan toy_plan(const ToyOptions& options) {
  return parse_plan("toy", toy_plan_text(options)).value();
}

}  // namespace mega::testing
