// What megarun does once its options are known. Prints; returns the exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mega::run {

inline constexpr int kDone = 0, kWrongInput = 2, kWorldFailed = 4, kOurBug = 70;

struct Options {
  std::string plan;
  std::vector<std::string> data;
  std::int64_t steps = 0;  // 0: the schedule's decay_steps, else 100
  std::string backend = "auto";
  std::string log;             // JSON lines; empty: none
  std::string dump_gradients;  // folder; empty: none
  double timeout_s = 600;
  bool check = false;
  bool serialize = false;
  bool dry_run = false;
  int rank = -1;  // of a dry run; -1: all
};

// Set from a signal handler: the run ends after the step under way.
void request_stop();

int dry_run(const Options& options);
int train(const Options& options);

}  // namespace mega::run
