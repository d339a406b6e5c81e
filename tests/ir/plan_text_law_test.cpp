// Laws of the plan's text: parse of print is the identity; no bytes crash the parser or what
// comes after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ir/plan_text.h"
#include "ir/plan_verify.h"
#include "tests/support/plans.h"
#include "tests/support/random_plan.h"

namespace mega {
namespace {

TEST(PlanText, ParseOfPrintIsTheIdentity) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Plan plan = testing::RandomPlan(seed).plan();
    const std::string text = print_plan(plan);
    const Result<Plan> parsed = parse_plan("random.plan", text);
    ASSERT_TRUE(parsed.ok()) << "seed " << seed << "\n"
                             << render(parsed.errors(), {{"random.plan", text}}) << text;
    ASSERT_EQ(parsed.value(), plan) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print_plan(parsed.value()), text) << "seed " << seed;
  }
}

TEST(PlanText, VerifySurvivesEveryPlanThatParses) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Plan plan = testing::RandomPlan(seed).plan();
    EXPECT_FALSE(verify(plan, "random.plan").empty()) << "seed " << seed;
  }
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : state_(seed) {}
  std::size_t pick(std::size_t below) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(state_ >> 33U) % std::max<std::size_t>(below, 1);
  }
  // Changes, drops, doubles or moves a few bytes, or cuts the text off.
  std::string mutate(std::string text) {
    constexpr std::string_view kBytes = "0i9-#\"\\[],=@%>|+*~{}\n \xff\x01/:.ax";
    for (std::size_t n = 1 + pick(2); n > 0 && !text.empty(); --n) {
      const std::size_t at = pick(text.size());
      const std::size_t length = 1 + pick(8);
      switch (pick(6)) {
        case 0:
        case 1:
          text[at] = kBytes[pick(kBytes.size())];
          break;
        case 2:
          text.erase(at, length);
          break;
        case 3:
          text.insert(at, text.substr(pick(text.size()), length));
          break;
        case 4:
          text.insert(at, 1, kBytes[pick(kBytes.size())]);
          break;
        default:
          if (pick(8) == 0) text.resize(at);
          break;
      }
    }
    return text;
  }

 private:
  std::uint64_t state_;
};

// A mutant may be a plan or not; where it is one, verify looks at it too, and its text is a text.
TEST(PlanText, NoBytesCrashTheParser) {
  const std::string texts[] = {testing::kBigram, testing::kTensorAndData, testing::kPipelineOfThree,
                               print_plan(testing::RandomPlan(7).plan())};
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Mutator mutator(seed);
    const std::string text = mutator.mutate(texts[seed % 4]);
    const Result<Plan> plan = parse_plan("fuzz.plan", text);
    if (!plan.ok()) {
      ASSERT_FALSE(plan.errors().empty()) << "seed " << seed;
      continue;
    }
    ++plans;
    static_cast<void>(verify(plan.value(), "fuzz.plan"));
    const Result<Plan> again = parse_plan("fuzz.plan", print_plan(plan.value()));
    ASSERT_TRUE(again.ok()) << "seed " << seed << "\n"
                            << render(again.errors(), {{"fuzz.plan", print_plan(plan.value())}});
    ASSERT_EQ(again.value(), plan.value()) << "seed " << seed;
  }
  // Else the mutations are too rough to reach the verifier, or too gentle to be noticed.
  EXPECT_GT(plans, 200);
  EXPECT_LT(plans, 1800);
}

TEST(PlanText, EveryTruncationIsAnError) {
  const std::string& text = testing::kBigram;
  for (std::size_t length = 0; length < text.find("ranks: all"); ++length) {
    EXPECT_FALSE(parse_plan("cut.plan", text.substr(0, length)).ok()) << length;
  }
}

}  // namespace
}  // namespace mega
