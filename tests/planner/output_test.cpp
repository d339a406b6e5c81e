#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/output/explain.h"
#include "planner/output/header_entries.h"
#include "planner/output/json.h"
#include "planner/output/table.h"
#include "planner/output/text_table.h"

namespace mega::planner {
namespace {

using nlohmann::json;

Candidate sample() {
  Candidate candidate;
  Strategy& s = candidate.strategy;
  s.tp = 2;
  s.pp = 2;
  s.dp = 2;
  s.micro_batch = 4;
  s.stages = {3, 2};
  s.sequence_parallel = true;
  s.overlap.gradient_reduce = true;
  s.overlap.pipeline = true;
  Evaluation& evaluation = candidate.evaluation;
  evaluation.step_ns = 2'000'000'000;
  evaluation.time.compute_ns = 1'500'000'000;
  evaluation.time.bubble_ns = 499'999'999;
  evaluation.time.other_ns = 1;
  for (int stage = 0; stage < 2; ++stage) {
    StageMemory memory;
    memory.stage = stage;
    memory.parameters = Bytes(400);
    memory.gradients = Bytes(400);
    memory.optimizer = Bytes(800);
    memory.activations = Bytes(100 * (2 - stage));
    memory.total = Bytes(1600 + 100 * (2 - stage));
    evaluation.memory.push_back(memory);
  }
  evaluation.peak_at = "stage 0, 2 micro-batches in flight";
  candidate.world = 8;
  candidate.micro_batches = 4;
  candidate.tokens_per_step = 32'000;
  candidate.model_flops_per_step = 8e12;
  candidate.hardware_flops_per_step = 9e12;
  candidate.peak_per_rank = FlopsPerSecond(1e12);
  candidate.parameters = 123;
  candidate.parameters_allocated = 128;
  candidate.capacity = Bytes(4000);
  candidate.margin = Bytes(100);
  return candidate;
}

Header header_of(const Candidate& candidate) {
  Header header;
  header.job = "job";
  header.global_batch = 32;
  header.sequence_length = 1000;
  header.predicted_step_ns = candidate.evaluation.step_ns;
  header.model_flops_per_step = candidate.model_flops_per_step;
  header.peak_flops_per_rank = candidate.peak_per_rank.count();
  header.entries = header_entries(candidate);
  return header;
}

std::vector<std::string> keys(const json& object) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

void expect_80_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(OutputJson, TermsAddUpAndRatesFollowFromThem) {
  const json candidate = json::parse(json_of(estimate_of(sample())));
  double time = 0;
  for (const auto& term : candidate["time"]) time += term.get<double>();
  EXPECT_NEAR(time, candidate["step_time_s"].get<double>(), 1e-9);
  for (const json& stage : candidate["memory"]["per_stage"]) {
    std::int64_t sum = 0;
    for (const auto& item : stage.items())
      if (item.key() != "stage" && item.key() != "total_bytes") sum += item.value().get<int>();
    EXPECT_EQ(sum, stage["total_bytes"]);
  }
  EXPECT_EQ(candidate["tokens_per_s_per_gpu"], 2000.0);  // 32,000 tokens / 2 s / 8
  EXPECT_EQ(candidate["model_tflops_per_gpu"], 0.5);     // 8e12 / 2 s / 8
  EXPECT_EQ(candidate["mfu"], 0.5);                      // of 1e12
  EXPECT_EQ(candidate["memory"]["peak_bytes"], 1800);
  EXPECT_EQ(candidate["conventions"]["bytes_per_parameter"],
            "16: 4 weight + 4 gradient + 8 optimizer (fp32)");
}

TEST(OutputJson, ACandidateHasEveryKey) {
  const json candidate = json::parse(json_of(estimate_of(sample())));
  const json expected = json::parse(R"({"layout": {"tp":0,"cp":0,"pp":0,"vpp":0,"dp":0,"ep":0,
    "etp":0,"micro_batch":0,"schedule":0,"sequence_parallel":0,"recompute":0,"zero":0,
    "zero_group":0,"context":0,"overlap":0,"rank_order":0,"stages":0},
    "world":0,"micro_batches":0,"step_time_s":0,"step_time_interval_s":0,
    "tokens_per_s_per_gpu":0,"model_tflops_per_gpu":0,"hardware_tflops_per_gpu":0,"mfu":0,
    "parameters":0,"parameters_allocated":0,
    "time":{"compute_s":0,"recompute_s":0,"exposed_tp_s":0,"exposed_cp_s":0,"exposed_ep_s":0,
    "exposed_pp_s":0,"exposed_dp_s":0,"bubble_s":0,"optimizer_s":0,"other_s":0},
    "memory":{"peak_bytes":0,"capacity_bytes":0,"fits":0,"fit_probability":0,"recipe":0,
    "peak_at":0,"per_stage":0},"conventions":{"flops":0,"bytes_per_parameter":0}})");
  EXPECT_EQ(keys(candidate), keys(expected));
  for (const char* part : {"layout", "time", "memory", "conventions"})
    EXPECT_EQ(keys(candidate[part]), keys(expected[part])) << part;
}

TEST(OutputJson, DoublesHaveAtMostNineDecimals) {
  Candidate candidate = sample();
  candidate.evaluation.step_ns = 1'234'567'891;
  candidate.tokens_per_step = 7'777'777;
  const std::string text = json_of(estimate_of(candidate));
  EXPECT_NE(text.find("\"step_time_s\": 1.234567891"), std::string::npos) << text;
  for (std::size_t at = text.find('.'); at != std::string::npos; at = text.find('.', at + 1)) {
    const std::size_t digits = text.find_first_not_of("0123456789", at + 1) - at - 1;
    EXPECT_LE(digits, 9U) << text.substr(at - 10, 40);
  }
}

TEST(OutputJson, UnknownIsNull) {
  Candidate candidate = sample();
  candidate.has_times = false;
  candidate.evaluation.step_ns = 0;
  candidate.evaluation.time = {};
  candidate.capacity = Bytes(0);
  const json parsed = json::parse(json_of(estimate_of(candidate)));
  for (const char* key : {"step_time_s", "mfu", "tokens_per_s_per_gpu", "step_time_interval_s"})
    EXPECT_TRUE(parsed[key].is_null()) << key;
  EXPECT_TRUE(parsed["time"]["compute_s"].is_null());
  EXPECT_TRUE(parsed["memory"]["capacity_bytes"].is_null());
  EXPECT_TRUE(parsed["memory"]["fit_probability"].is_null());
}

TEST(OutputJson, ASearchWithoutPlanIsADocumentToo) {
  SearchResult result;
  result.counts.space = 4;
  result.counts.over_memory = 4;
  result.infeasible = {{"memory", "too big", "64 GPUs would do"}};
  const json parsed = json::parse(json_of(result, {}));
  EXPECT_TRUE(parsed["best"].is_null());
  EXPECT_TRUE(parsed["top"].empty());
  EXPECT_EQ(parsed["search"]["over_memory"], 4);
  EXPECT_EQ(parsed["infeasible"][0]["nearest"], "64 GPUs would do");
}

TEST(OutputJson, ErrorsSayWhereAndSurviveBrokenUtf8) {
  Diagnostic error{"job.yaml", {3, 7}, "bad \xff name", {{"model.yaml", {1, 2}, "here"}}, "try"};
  const json parsed = json::parse(json_of(Errors{error}));
  const json& first = parsed["errors"][0];
  EXPECT_EQ(first["file"], "job.yaml");
  EXPECT_EQ(first["line"], 3);
  EXPECT_EQ(first["column"], 7);
  EXPECT_EQ(first["help"], "try");
  EXPECT_EQ(first["notes"][0]["file"], "model.yaml");
}

TEST(OutputHeader, AnEstimateReadFromAPlanIsTheSameLessItsStages) {
  const Candidate candidate = sample();
  const Result<Estimate> read = read_estimate("job.plan", header_of(candidate));
  ASSERT_TRUE(read.ok());
  json expected = json::parse(json_of(estimate_of(candidate)));
  expected["memory"].erase("per_stage");
  EXPECT_EQ(json::parse(json_of(read.value())), expected);
}

TEST(OutputHeader, AMissingOrUnreadableEntryIsNamed) {
  Header header = header_of(sample());
  header.entries[0].value = "two";
  Result<Estimate> read = read_estimate("job.plan", header);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.errors()[0].message.find("'layout.tp'"), std::string::npos);
  header.entries.clear();
  EXPECT_FALSE(read_estimate("job.plan", header).ok());
}

TEST(OutputTable, FitsIn80ColumnsAndSaysUnitsAndConventions) {
  Candidate candidate = sample();
  candidate.strategy.stages.assign(64, 12);
  candidate.evaluation.memory.resize(64, candidate.evaluation.memory[0]);
  for (std::size_t i = 0; i < 64; ++i) candidate.evaluation.memory[i].stage = static_cast<int>(i);
  Estimate estimate = estimate_of(candidate);
  estimate.defaulted = {"cp", "ep", "etp", "schedule", "recompute", "zero", "rank_order"};
  const std::string text = table_of(estimate);
  expect_80_columns(text);
  EXPECT_NE(text.find("2.00 s"), std::string::npos) << text;
  EXPECT_NE(text.find("MFU 50.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("causal half, logits included"), std::string::npos) << text;
  EXPECT_NE(text.find("4 weight + 4 gradient"), std::string::npos) << text;
  EXPECT_NE(text.find("2-63"), std::string::npos) << "equal stages share a line\n" << text;
  EXPECT_NE(text.find("margin 100 B: fits"), std::string::npos) << text;
}

TEST(OutputTable, SaysWhenALayoutDoesNotFit) {
  Candidate candidate = sample();
  candidate.fits = false;
  EXPECT_NE(table_of(estimate_of(candidate)).find("DOES NOT FIT"), std::string::npos);
}

TEST(OutputTable, ASearchSaysWhatItProved) {
  SearchResult result;
  result.counts = {10, 5, 1, 6, 3, true, 0};
  const std::string proved = table_of(result, {estimate_of(sample())});
  expect_80_columns(proved);
  EXPECT_NE(proved.find("optimum proved"), std::string::npos) << proved;
  result.counts = {10, 5, 1, 2, 3, false, 0.25};
  const std::string stopped = table_of(result, {estimate_of(sample())});
  EXPECT_NE(stopped.find("+ 4 not"), std::string::npos) << stopped;
  EXPECT_NE(stopped.find("25.0 %"), std::string::npos) << stopped;
}

TEST(OutputExplain, ComparesTermByTerm) {
  Candidate other = sample();
  other.evaluation.step_ns = 3'000'000'000;
  other.evaluation.time.bubble_ns = 1'499'999'999;
  Explained a, b;
  a.estimate = estimate_of(sample());
  a.rules = {{"heads", true, "model.heads % tp = 0", "", {}}};
  a.summary = "tp2";
  b = a;
  b.estimate = estimate_of(other);
  const Explanation explanation = compare({a, b});
  const json parsed = json::parse(json_of(explanation));
  EXPECT_EQ(parsed["layouts"].size(), 2U);
  EXPECT_EQ(parsed["rules"].size(), 2U);
  EXPECT_EQ(parsed["differences"][0], json::parse(R"({"term":"step_time_s","a":2.0,"b":3.0})"));
  const std::string text = table_of(explanation);
  expect_80_columns(text);
  EXPECT_NE(text.find("+50.0 %"), std::string::npos) << text;
}

TEST(OutputExplain, ABrokenLayoutHasNoCandidate) {
  Explained broken;
  broken.rules = {{"heads", false, "tp 3 does not divide 4 heads", "layout.tp: 2", {}}};
  const Explanation explanation = compare({broken});
  const json parsed = json::parse(json_of(explanation));
  EXPECT_TRUE(parsed["layouts"][0].is_null());
  EXPECT_EQ(parsed["rules"][0]["ok"], false);
  EXPECT_NE(table_of(explanation).find("nearest: layout.tp: 2"), std::string::npos);
}

TEST(OutputTextTable, BreaksLinesBetweenWords) {
  const std::string text = wrapped(std::string(70, 'x') + " yyyyyyyyyyyyyyy z", 4);
  EXPECT_EQ(text, std::string(70, 'x') + "\n    yyyyyyyyyyyyyyy z\n");
}

}  // namespace
}  // namespace mega::planner
