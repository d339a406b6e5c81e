// Laws of the plan's text: parse of print is the identity; no bytes crash the parser.
#include <gtest/gtest.h>

#include <string>

#include "ir/plan_text.h"
#include "tests/support/random_plan.h"

namespace mega {
namespace {

TEST(PlanText, ParseOfPrintIsTheIdentity) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Plan plan = testing::RandomPlan(seed).plan();
    const std::string text = print_plan(plan);
    const Result<Plan> parsed = parse_plan("random.plan", text);
    ASSERT_TRUE(parsed.ok()) << "seed " << seed << "\n"
                             << render(parsed.errors(), {{"random.plan", text}}) << text;
    ASSERT_EQ(parsed.value(), plan) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print_plan(parsed.value()), text) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mega
