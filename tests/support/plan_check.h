// Asks the verifier about a plan that is given as text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ir/plan_text.h"
#include "ir/plan_verify.h"

namespace mega::testing {

// `text` with its first `from` replaced; the test fails when there is none.
inline std::string edited(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "no '" << from << "' in the plan";
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

inline Plan parsed(const std::string& text) {
  const Result<Plan> plan = parse_plan("p.plan", text);
  if (plan.ok()) return plan.value();
  ADD_FAILURE() << render(plan.errors(), {{"p.plan", text}});
  return {};
}

// What verify() says, rendered; empty when the plan is proved.
inline std::string refusal(const Plan& plan) {
  const std::vector<Diagnostic> violations = verify(plan, "p.plan");
  return violations.empty() ? "" : render(violations, {});
}
inline std::string refusal(const std::string& text) {
  return refusal(parsed(text));
}

template <class PlanOrText>
::testing::AssertionResult refuses(const PlanOrText& plan, const std::string& reason) {
  const std::string said = refusal(plan);
  if (said.find(reason) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no '" << reason << "' in what it says:\n" << said;
}

}  // namespace mega::testing

#define EXPECT_PROVED(plan) EXPECT_EQ(::mega::testing::refusal(plan), "")
#define EXPECT_REFUSED(plan, reason) EXPECT_TRUE(::mega::testing::refuses(plan, reason))
