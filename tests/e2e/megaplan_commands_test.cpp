// What each command answers, through the real program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/e2e/megaplan_process.h"

namespace mega::e2e {
namespace {

using nlohmann::json;

const std::string kLayout = "layout: {tp: 2, pp: 2, micro_batch: 2}\n";

std::set<std::string> keys(const json& object) {
  std::set<std::string> names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
}

TEST_F(Megaplan, UsageErrorsAreTwoAndHelpIsZero) {
  EXPECT_EQ(megaplan("").code, 2);
  EXPECT_EQ(megaplan("dance").code, 2);
  EXPECT_EQ(megaplan("search").code, 2);
  EXPECT_EQ(megaplan("search job.yaml --sweep layout.tp=1,2").code, 2) << "not built: absent";
  EXPECT_EQ(megaplan("list recipes").code, 2);
  EXPECT_EQ(megaplan("--version").code, 0);
  for (const char* command :
       {"", "search ", "estimate ", "compile ", "verify ", "show ", "explain ", "list "}) {
    const Outcome help = megaplan(std::string(command) + "-h");
    EXPECT_EQ(help.code, 0) << command;
    if (*command != '\0') {
      EXPECT_NE(help.out.find("Example: megaplan "), std::string::npos) << help.out;
    }
  }
}

TEST_F(Megaplan, HelpAndListsFitATerminal) {
  for (const char* words :
       {"-h", "search -h", "estimate -h", "compile -h", "verify -h", "show -h", "explain -h",
        "import -h", "list -h", "list models", "list clusters", "list gpus", "list jobs"}) {
    std::istringstream lines(megaplan(words).out);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count)
      EXPECT_LE(line.size(), 80U) << words << ": " << line;
    EXPECT_GT(count, 0) << words;
  }
}

TEST_F(Megaplan, UsageErrorsAreJsonWhenAskedFor) {
  const Outcome run = megaplan("search job.yaml --top none --format json");
  EXPECT_EQ(run.code, 2);
  EXPECT_FALSE(json::parse(run.out)["errors"].empty());
}

TEST_F(Megaplan, SearchProvesTheBestOfTheQuickstart) {
  const Outcome run = megaplan(
      "search $specs/jobs/quickstart.yaml --top 3 --stats stats.json "
      "--format json -o best.plan");
  ASSERT_EQ(run.code, 0) << run.err;
  const json result = json::parse(run.out);
  EXPECT_EQ(keys(result), (std::set<std::string>{"best", "top", "search", "infeasible", "pareto",
                                                 "sensitivity"}));
  const json& counts = result["search"];
  EXPECT_EQ(counts["space"], counts["over_memory"].get<int>() + counts["bounded"].get<int>() +
                                 counts["evaluated"].get<int>());
  EXPECT_EQ(counts["proven_optimal"], true);
  EXPECT_EQ(counts["gap"], 0.0);
  ASSERT_FALSE(result["top"].empty());
  EXPECT_EQ(result["best"], result["top"][0]);
  double last = 0;
  for (const json& candidate : result["top"]) {
    EXPECT_GE(candidate["step_time_s"], last);
    last = candidate["step_time_s"];
  }
  EXPECT_TRUE(json::parse(read_text(path("stats.json"))).contains("wall_s"));
  EXPECT_EQ(megaplan("verify best.plan").code, 0);
}

TEST_F(Megaplan, TheLayoutOfJsonIsTakenBack) {
  write("job.yaml", tiny_job());
  const json best = json::parse(megaplan("search job.yaml --format json").out)["best"];
  json job;
  job["layout"] = best["layout"];
  write("fixed.yaml", tiny_job("layout: " + best["layout"].dump() + "\n"));
  const Outcome again = megaplan("estimate fixed.yaml --format json");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out), best);
}

TEST_F(Megaplan, AnEstimateOfThePlanIsThatOfItsJobLessTheStages) {
  write("job.yaml", tiny_job(kLayout));
  ASSERT_EQ(megaplan("compile job.yaml -o job.plan").code, 0);
  json of_job = json::parse(megaplan("estimate job.yaml --format json").out);
  of_job["memory"].erase("per_stage");
  const Outcome of_plan = megaplan("estimate job.plan --format json");
  ASSERT_EQ(of_plan.code, 0) << of_plan.err;
  EXPECT_EQ(json::parse(of_plan.out), of_job);
  EXPECT_EQ(megaplan("estimate job.plan --set layout.tp=1").code, 2);
}

TEST_F(Megaplan, AnImportedModelIsAModel) {
  write("config.json",
        R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 256,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}, "secret": 7})");
  const Outcome import = megaplan("import hf config.json -o model.yaml");
  ASSERT_EQ(import.code, 0) << import.err;
  EXPECT_EQ(import.err, "not understood  secret: 7\n");
  write("job.yaml",
        "model: model.yaml\ntraining: {sequence_length: 16, global_batch: 2}\n"
        "layout: {micro_batch: 1}\n");
  const Outcome estimate = megaplan("estimate job.yaml --format json");
  ASSERT_EQ(estimate.code, 0) << estimate.err;
  EXPECT_EQ(json::parse(estimate.out)["parameters"], 106816);
}

TEST_F(Megaplan, WhatIsNoConfigurationIsNotImported) {
  EXPECT_EQ(megaplan("import hf nothing.json").code, 2);
  write("bad.json", "{\"model_type\":\n oops}");
  const Outcome bad = megaplan("import hf bad.json -o model.yaml");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("bad.json:2:"), std::string::npos) << bad.err;
  EXPECT_FALSE(std::filesystem::exists(path("model.yaml")));
  write("deep.json", "{\"x\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  EXPECT_EQ(megaplan("import hf deep.json").code, 2);
  EXPECT_EQ(megaplan("import torch bad.json").code, 2);
}

TEST_F(Megaplan, AnEstimateWithoutClusterHasMemoryAndNoTimes) {
  write("job.yaml",
        "model: tiny-gpt2\ntraining: {sequence_length: 16, global_batch: 8}\n"
        "layout: {micro_batch: 2}\n");
  const Outcome run = megaplan("estimate job.yaml --format json");
  ASSERT_EQ(run.code, 0) << run.err;
  const json estimate = json::parse(run.out);
  EXPECT_TRUE(estimate["step_time_s"].is_null());
  EXPECT_GT(estimate["memory"]["peak_bytes"], 0);
  EXPECT_EQ(megaplan("search job.yaml").code, 2) << "no GPUs to lay anything over";
}

TEST_F(Megaplan, AnEstimateThatDoesNotFitIsDoneAndCompileIsNot) {
  write("job.yaml", tiny_job(kLayout));
  const std::string small = "job.yaml --set cluster.gpu='{use: cpu, memory: 64KiB}' ";
  const Outcome estimate = megaplan("estimate " + small + "--format json");
  ASSERT_EQ(estimate.code, 0) << estimate.err;
  EXPECT_EQ(json::parse(estimate.out)["memory"]["fits"], false);
  const Outcome compile = megaplan("compile " + small + "-o job.plan");
  EXPECT_EQ(compile.code, 3);
  EXPECT_NE(compile.err.find("64.00 KiB"), std::string::npos) << compile.err;
  EXPECT_FALSE(std::filesystem::exists(path("job.plan")));
  const Outcome search = megaplan("search " + small + "--format json -o job.plan");
  EXPECT_EQ(search.code, 3);
  const json result = json::parse(search.out);
  EXPECT_TRUE(result["best"].is_null());
  EXPECT_EQ(result["infeasible"][0]["rule"], "memory");
  EXPECT_FALSE(std::filesystem::exists(path("job.plan")));
  EXPECT_EQ(megaplan("explain " + small).code, 0);
}

TEST_F(Megaplan, ValuesThatBreakRulesAreWrongInputWithAllRules) {
  write("job.yaml", tiny_job("layout: {tp: 3, micro_batch: 5}\n"));
  const Outcome run = megaplan("search job.yaml --format json");
  EXPECT_EQ(run.code, 2);
  const json errors = json::parse(run.out)["errors"];
  EXPECT_GE(errors.size(), 2U) << run.out;
  EXPECT_GT(errors[0]["line"], 0);
  EXPECT_EQ(megaplan("estimate job.yaml").code, 2);
  EXPECT_EQ(megaplan("compile job.yaml -o job.plan").code, 2);
  const Outcome explain = megaplan("explain job.yaml --format json");
  EXPECT_EQ(explain.code, 0) << explain.err;
  EXPECT_TRUE(json::parse(explain.out)["layouts"][0].is_null());
}

TEST_F(Megaplan, ExplainComparesTwoLayouts) {
  write("job.yaml", tiny_job("layout: {micro_batch: 2}\n"));
  const Outcome run =
      megaplan("explain job.yaml --layout tp=2,pp=2 --against tp=4,overlap=[] --format json");
  ASSERT_EQ(run.code, 0) << run.err;
  const json result = json::parse(run.out);
  EXPECT_EQ(result["layouts"][0]["layout"]["pp"], 2);
  EXPECT_EQ(result["layouts"][1]["layout"]["tp"], 4);
  EXPECT_EQ(result["differences"][0]["term"], "step_time_s");
  for (const json& rule : result["rules"]) EXPECT_EQ(rule["ok"], true) << rule;
  EXPECT_EQ(megaplan("explain job.yaml --layout tp").code, 2);
  const Outcome wrong = megaplan("explain job.yaml --set layout.pp=1 --layout tp=2,micro_bach=4");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err.find("--layout:2:1: error: unknown key"), 0U) << wrong.err;
  EXPECT_NE(wrong.err.find("| micro_bach=4\n"), std::string::npos) << wrong.err;
}

TEST_F(Megaplan, AJobComesFromStandardInputToo) {
  write("job.yaml", tiny_job(kLayout));
  const Outcome run = shell("\"$megaplan\" estimate - --format json < job.yaml");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out, megaplan("estimate job.yaml --format json").out);
}

TEST_F(Megaplan, ABudgetLeavesAGap) {
  const Outcome run = megaplan("search $specs/jobs/quickstart.yaml --budget 1 --format json");
  ASSERT_EQ(run.code, 0) << run.err;
  const json counts = json::parse(run.out)["search"];
  EXPECT_EQ(counts["evaluated"], 1);
  EXPECT_EQ(counts["proven_optimal"], counts["gap"] == 0.0);
}

TEST_F(Megaplan, ShowPrintsEveryStageAndOneRank) {
  write("job.yaml", tiny_job(kLayout));
  EXPECT_FALSE(megaplan("show job.yaml").out.empty());
  const Outcome schedule = megaplan("show job.yaml --stage schedule");
  EXPECT_NE(schedule.out.find("rank 0 | F0"), std::string::npos) << schedule.out;
  const Outcome one = megaplan("show job.yaml --stage schedule --rank 3");
  EXPECT_EQ(one.out.find("rank 0"), std::string::npos) << one.out;
  ASSERT_EQ(megaplan("compile job.yaml -o job.plan").code, 0);
  EXPECT_EQ(megaplan("show job.yaml --stage plan").out, read_text(path("job.plan")));
  EXPECT_EQ(megaplan("show job.plan").out, read_text(path("job.plan")));
  EXPECT_EQ(megaplan("show job.plan --stage model").code, 2);
  EXPECT_EQ(megaplan("show job.plan --rank 4").code, 2);
  EXPECT_EQ(megaplan("show job.plan --rank 3").code, 0);
  EXPECT_EQ(megaplan("show job.plan --set layout.tp=1").code, 2);
}

TEST_F(Megaplan, ListNamesTheBundledSpecs) {
  EXPECT_NE(megaplan("list models").out.find("gpt3-175b"), std::string::npos);
  EXPECT_NE(megaplan("list clusters").out.find("dgx-a100-80g"), std::string::npos);
  EXPECT_NE(megaplan("list gpus").out.find("cpu"), std::string::npos);
  EXPECT_NE(megaplan("list jobs").out.find("quickstart"), std::string::npos);
}

TEST_F(Megaplan, TwoRunsGiveTheSameBytes) {
  write("job.yaml", tiny_job());
  const Outcome first = megaplan("search job.yaml --format json -o a.plan");
  const Outcome second = megaplan("search job.yaml --format json -o b.plan");
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(read_text(path("a.plan")), read_text(path("b.plan")));
  EXPECT_GT(read_text(path("a.plan")).size(), 1000U);
}

TEST_F(Megaplan, A175BPlanFor1024RanksIsSmallAndVerifies) {
  for (const char* vpp : {"1", "3"}) {
    const Outcome run =
        shell(std::string("\"$megaplan\" compile $specs/jobs/gpt3-175b-a100.yaml --set layout.tp=8 "
                          "--set layout.pp=16 --set layout.micro_batch=1 --set layout.vpp=") +
              vpp + " -o big.plan && \"$megaplan\" verify big.plan");
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("1024 ranks, 16 programs"), std::string::npos) << run.out;
    EXPECT_LT(std::filesystem::file_size(path("big.plan")), 2'000'000U) << vpp;
  }
}

}  // namespace
}  // namespace mega::e2e
