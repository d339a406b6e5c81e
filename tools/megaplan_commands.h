// What megaplan does once its options are known. Each command prints and returns the exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace mega::tool {

inline constexpr int kDone = 0, kWrongInput = 2, kNoPlan = 3, kOurBug = 70;

struct Options {
  std::string program;  // this executable, to find the bundled specs
  std::string input;    // JOB, PLAN, the file to import or the kind to list
  std::string format;   // of the file to import
  std::vector<std::string> sets;
  bool json = false;
  std::string output;  // -o
  int top = 5;
  std::int64_t budget = 0;  // 0: no limit
  std::string stats;
  std::string stage;  // empty: model of a job, plan of a plan
  std::optional<int> rank;
  std::string layout, against;  // "tp=8,pp=4"
};

// Set from a signal handler: a search ends with the best so far.
void request_stop();

int search(const Options& options);
int estimate(const Options& options);
int compile(const Options& options);
int verify(const Options& options);
int show(const Options& options);
int explain(const Options& options);
int list(const Options& options);
int import(const Options& options);

// Reports errors as the options ask for; returns kWrongInput.
int refuse(const Options& options, const Errors& errors, const Sources& sources);

}  // namespace mega::tool
