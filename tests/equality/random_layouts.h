// Whether a job's layout computes what one rank computes, and the simplest job that shows it
// doesn't.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/spec/read_spec.h"
#include "tests/equality/random_job.h"
#include "tests/support/training.h"

namespace mega::testing {

struct Verdict {
  enum class Kind { Illegal, Equal, Different } kind = Kind::Equal;
  std::string why;  // what differs, or which rule forbids it
};

inline Settings on_one_rank(Settings settings) {
  std::erase_if(settings, [](const auto& setting) {
    return setting.first.starts_with("layout.") && setting.first != "layout.micro_batch";
  });
  return settings;
}

inline Settings with_sgd(Settings settings) {
  settings["training.optimizer.kind"] = "sgd";
  settings["training.optimizer.learning_rate"] = "0.01";
  settings["training.optimizer.clip_grad"] = "0";
  return settings;
}

// `folder`: where job files may be written.
class LayoutCheck {
 public:
  explicit LayoutCheck(std::filesystem::path folder) : file_((folder / "job.yaml").string()) {}

  // The raw gradients of one SGD step, and with `adamw` the losses of four AdamW steps.
  Verdict check(const Settings& settings, bool adamw) const {
    const Verdict verdict = check_once(settings, adamw);
    if (verdict.kind != Verdict::Kind::Different) return verdict;
    // Two experts may score the same but for rounding; another seed moves them apart.
    Settings other = settings;
    other["training.seed"] = "10007";
    return check_once(other, adamw).kind == Verdict::Kind::Different ? verdict : Verdict{};
  }

  bool is_legal(const Settings& settings) const {
    planner::ReadJob read = read_job(settings);
    if (!read.job.ok()) return false;
    return planner::Planner(std::move(read.job).value()).layout().ok();
  }

 private:
  planner::ReadJob read_job(const Settings& settings) const {
    std::ofstream(file_) << job_text(settings);
    return planner::read_job(file_, {}, MEGA_SOURCE_DIR "/specs");
  }

  Verdict check_once(const Settings& settings, bool adamw) const {
    ::testing::TestPartResultArray failures;
    Verdict verdict;
    {
      ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      verdict = compare(with_sgd(settings), 1, 1e-4);
      if (adamw && verdict.kind == Verdict::Kind::Equal) verdict = compare(settings, 4, 1e-3);
    }
    if (verdict.kind == Verdict::Kind::Illegal || failures.size() == 0) return verdict;
    verdict.kind = Verdict::Kind::Different;
    constexpr int kShown = 3;
    for (int i = 0; i < std::min(failures.size(), kShown); ++i)
      verdict.why += std::string(failures.GetTestPartResult(i).message()) + "\n";
    return verdict;
  }

  Verdict compare(const Settings& settings, int steps, double tolerance) const {
    planner::ReadJob read = read_job(settings);
    if (!read.job.ok()) return {Verdict::Kind::Illegal, render(read.job.errors(), read.sources)};
    planner::ReadJob alone = read_job(on_one_rank(settings));
    if (!alone.job.ok()) return {Verdict::Kind::Illegal, render(alone.job.errors(), alone.sources)};
    planner::Planner planner(std::move(read.job).value());
    const Result<planner::Strategy> layout = planner.layout();
    if (!layout.ok()) return {Verdict::Kind::Illegal, render(layout.errors(), read.sources)};
    const Outcome outcome = train_as_predicted(planner, layout.value(), steps);
    planner::Planner one_rank(std::move(alone.job).value());
    const Outcome expected = train_as_predicted(one_rank, one_rank.layout().value(), steps);
    expect_same_steps(outcome, expected, tolerance);
    // Models of random sizes may be ill-conditioned (heads of two dimensions behind a norm): ten
    // times the room for rounding, which is nothing beside a missing term or a wrong scale.
    if (steps == 1) expect_same_gradients(outcome, expected, 10);
    return {};
  }

  // The predicted peak is what the plan's largest arena takes, which is what train() allocates.
  static Outcome train_as_predicted(planner::Planner& planner, const planner::Strategy& layout,
                                    int steps) {
    const Plan plan = plan_of(planner.job(), layout);
    Bytes largest;
    for (const Program& program : plan.programs) largest = std::max(largest, arena_bytes(program));
    EXPECT_EQ(planner::peak(planner.candidate(layout).evaluation), largest);
    return train(plan, steps);
  }

  std::string file_;
};

// Tries simpler values of one key after another as long as `still_fails`.
inline Settings shrink(Settings settings, const std::function<bool(const Settings&)>& still_fails) {
  const auto simpler = [](const std::string& key, const std::string& value) {
    std::vector<std::string> values;
    if (value.find_first_not_of("0123456789") != std::string::npos) return values;
    const int number = std::stoi(value);
    const int least = key == "layout.zero" ? 0 : key == "model.vocab" ? 61 : 1;  // of the tokens
    for (const int smaller : {least, number / 2, number - 1}) {
      if (smaller >= least && smaller < number) values.push_back(std::to_string(smaller));
    }
    return values;
  };
  for (bool moved = true; moved;) {
    moved = false;
    std::set<std::string> keys;
    for (const auto& [key, value] : settings) keys.insert(key);
    for (const std::string& key : keys) {
      Settings without = settings;
      without.erase(key);
      if (still_fails(without)) {
        settings = without;
        moved = true;
        continue;
      }
      for (const std::string& value : simpler(key, settings[key])) {
        Settings smaller = settings;
        smaller[key] = value;
        if (!still_fails(smaller)) continue;
        settings = smaller;
        moved = true;
        break;
      }
    }
    // Experts only make sense together.
    Settings dense = settings;
    std::erase_if(dense, [](const auto& setting) {
      return setting.first.starts_with("model.moe.") || setting.first == "layout.ep" ||
             setting.first == "layout.etp";
    });
    if (dense != settings && still_fails(dense)) {
      settings = dense;
      moved = true;
    }
  }
  return settings;
}

}  // namespace mega::testing
