#include "runtime/metrics.h"

#include <gtest/gtest.h>

#include <limits>

namespace mega::runtime {
namespace {

RunFacts facts() {
  RunFacts facts;
  facts.plan_file = "a \"b\".plan";
  facts.world = 4;
  facts.tokens_per_step = 4096;
  facts.predicted_step_time = Seconds(0.5);
  facts.model_flops_per_step = 1e9;
  facts.peak_flops = 4e9;
  facts.peak_bytes = Bytes(123456789);
  return facts;
}

TEST(Metrics, AStepIsOneJsonLine) {
  const StepResult result{1, 5.54, 1.93, 3e-4, Seconds(0.5)};
  EXPECT_EQ(step_line(facts(), result),
            "{\"step\":1,\"loss\":5.54,\"grad_norm\":1.93,\"learning_rate\":3e-04,"
            "\"tokens\":4096,\"step_time_s\":0.5,\"predicted_step_time_s\":0.5,"
            "\"tokens_per_s\":8192,\"mfu\":0.5,\"peak_bytes\":123456789}");
}

TEST(Metrics, WhatIsUnknownIsNull) {
  RunFacts unknown = facts();
  unknown.peak_flops = 0;
  const StepResult result{2, std::nullopt, std::numeric_limits<double>::infinity(), 1, Seconds(1)};
  const std::string line = step_line(unknown, result);
  EXPECT_NE(line.find("\"loss\":null"), std::string::npos) << line;
  EXPECT_NE(line.find("\"grad_norm\":null"), std::string::npos) << line;
  EXPECT_NE(line.find("\"mfu\":null"), std::string::npos) << line;
}

TEST(Metrics, EventsNameThePlanAndTheReason) {
  Header header;
  header.job = "tiny";
  header.entries = {{"layout.axis", "2"}, {"layout.kind", "plain"}, {"time.compute_s", "1"}};
  EXPECT_EQ(start_line(facts(), header),
            "{\"event\":\"start\",\"plan\":\"a \\\"b\\\".plan\",\"job\":\"tiny\","
            "\"fingerprint\":\"\",\"layout\":{\"axis\":2,\"kind\":\"plain\"},"
            "\"backend\":\"cpu\",\"world\":4}");
  EXPECT_EQ(stop_line(7, "signal"), "{\"event\":\"stop\",\"steps\":7,\"reason\":\"signal\"}");
}

TEST(Metrics, JsonStringsAreValidForAnyBytes) {
  EXPECT_EQ(json_string("a\"\\\n\x01\xC3\xA9\xFFz"), "\"a\\\"\\\\\\u000a\\u0001\xC3\xA9\\ufffdz\"");
}

TEST(Metrics, TheTableFitsATerminal) {
  const StepResult result{12345678, 123.4567, 12345.678, 3e-4, Seconds(1234.5678)};
  EXPECT_LE(table_row(facts(), result).size(), 80U);
  EXPECT_LE(table_header().size(), 80U);
  const StepResult nothing{1, std::nullopt, std::nullopt, 0, Seconds(0)};
  EXPECT_EQ(table_row(facts(), nothing).size(), table_header().size());
}

TEST(Metrics, ALongRunShowsFewRowsAndTheLast) {
  int shown = 0;
  for (std::int64_t step = 1; step <= 100'003; ++step) shown += is_shown(step, 100'003) ? 1 : 0;
  EXPECT_LT(shown, 60);
  EXPECT_TRUE(is_shown(1, 100'003));
  EXPECT_TRUE(is_shown(2, 100'003));
  EXPECT_TRUE(is_shown(100'003, 100'003));
  EXPECT_TRUE(is_shown(3, 3));
  EXPECT_TRUE(is_shown(100, 300));
  EXPECT_TRUE(is_shown(1, INT64_MAX));  // at once, and without leaving 64 bits
}

}  // namespace
}  // namespace mega::runtime
