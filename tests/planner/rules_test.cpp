#include "planner/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "planner/layout_defaults.h"
#include "planner/spec/read_spec.h"

namespace mega::planner {
namespace {

// A GPT of easy sizes on one node of eight.
JobSpec job() {
  JobSpec job;
  job.model.family = "gpt2";
  job.model.layers = 8;
  job.model.hidden = 64;
  job.model.heads = job.model.kv_heads = 8;
  job.model.head_dim = 8;
  job.model.ffn_hidden = 256;
  job.model.vocab = 61;
  job.model.max_position = 64;
  job.training.sequence_length = 32;
  job.training.global_batch = 8;
  return job;
}

void set_cluster(JobSpec& job, int nodes, int gpus_per_node) {
  job.cluster.emplace();
  job.cluster->nodes = nodes;
  job.cluster->gpus_per_node = gpus_per_node;
  job.cluster->gpus = nodes * gpus_per_node;
}

std::vector<RuleResult> broken(const JobSpec& job, const Strategy& strategy) {
  std::vector<RuleResult> results = check_rules(job, strategy);
  results.erase(std::remove_if(results.begin(), results.end(),
                               [](const RuleResult& result) { return result.ok; }),
                results.end());
  EXPECT_EQ(results.empty(), is_legal(job, strategy));
  return results;
}

std::vector<std::string> broken_ids(const JobSpec& job, const Strategy& strategy) {
  std::vector<std::string> ids;
  for (const RuleResult& result : broken(job, strategy)) ids.push_back(result.rule);
  return ids;
}

RuleResult only_broken(const JobSpec& job, const Strategy& strategy) {
  const std::vector<RuleResult> results = broken(job, strategy);
  EXPECT_EQ(results.size(), 1u);
  return results.empty() ? RuleResult{} : results[0];
}

using Ids = std::vector<std::string>;

TEST(Rules, EveryRuleHoldsForOneRank) {
  const std::vector<RuleResult> results = check_rules(job(), Strategy{});
  EXPECT_EQ(results.size(), 28u);
  for (const RuleResult& result : results) {
    EXPECT_TRUE(result.ok) << result.rule;
    EXPECT_FALSE(result.message.empty());  // its formula, for explain
  }
}

TEST(Rules, A01_TheWorldMustBeTheProductOfTheDegrees) {
  JobSpec spec = job();
  set_cluster(spec, 2048, 8);
  spec.model.heads = spec.model.kv_heads = 64;
  spec.model.layers = 126;
  spec.training.sequence_length = 64;
  Strategy s;
  s.tp = 8;
  s.cp = 16;
  s.pp = 16;
  s.dp = 4;
  const std::vector<RuleResult> results = broken(spec, s);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].rule, "world");
  EXPECT_EQ(results[0].message,
            "layout.tp 8 * cp 16 * pp 16 * dp 4 = 8192, but the cluster has 16384 GPUs");
  EXPECT_EQ(results[0].nearest, "layout.dp: 8");
  s.dp = 8;
  EXPECT_TRUE(is_legal(spec, s));
}

TEST(Rules, WorldNamesTheDegreesThatDoNotDivide) {
  JobSpec spec = job();
  set_cluster(spec, 1, 8);
  Strategy s;
  s.pp = 3;
  s.dp = 2;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.message,
            "layout.tp 1 * cp 1 * pp 3 = 3 does not divide the 8 GPUs of the cluster");
  // dp follows the world; pp 2 leaves dp 4 for 8 sequences. 3 nodes leave dp 8.
  EXPECT_EQ(result.nearest, "layout.pp: 2 or 4, or cluster.nodes: 3");
}

TEST(Rules, A02_UnevenLayersAreNeverDropped) {
  JobSpec spec = job();
  spec.model.layers = 30;
  Strategy s;
  s.pp = 4;
  EXPECT_TRUE(is_legal(spec, s));  // auto
  s.stages = {7, 8, 8, 7};
  EXPECT_TRUE(is_legal(spec, s));
  s.stages = {7, 7, 7, 7};
  EXPECT_EQ(only_broken(spec, s).message, "layout.stages sums to 28, not to model.layers 30");
  spec.layout.stages_mode = "even";
  s.stages = {};
  const RuleResult even = only_broken(spec, s);
  EXPECT_EQ(even.rule, "even_stages");
  EXPECT_EQ(even.message,
            "layout.stages even: model.layers 30 over layout.pp 4 * vpp 1 = 4 stages leaves a "
            "remainder of 2");
  EXPECT_EQ(even.nearest, "layout.stages: auto, or layout.stages: [7, 8, 8, 7]");
}

TEST(Rules, EvenCutsSumToTheLayersAndCountEmbeddingAndHead) {
  using Counts = std::vector<int>;
  EXPECT_EQ(even_cut(30, 4), (Counts{7, 8, 8, 7}));
  EXPECT_EQ(even_cut(70, 12), (Counts{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));  // bigscience 176B
  EXPECT_EQ(even_cut(46, 4), (Counts{11, 12, 12, 11}));
  EXPECT_EQ(even_cut(4, 1), (Counts{4}));
  for (int layers = 1; layers <= 40; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      const Counts counts = even_cut(layers, stages);
      EXPECT_EQ(counts.size(), static_cast<std::size_t>(stages));
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), layers);
      EXPECT_GE(*std::min_element(counts.begin(), counts.end()), 1);
    }
  }
}

TEST(Rules, A04_InterleavingNeedsAsManyMicroBatchesAsStages) {
  JobSpec spec = job();
  spec.model.layers = 12;
  spec.training.global_batch = 3;
  Strategy s;
  s.pp = 6;
  s.vpp = 2;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.rule, "interleaved_micro_batches");
  EXPECT_EQ(result.message,
            "layout.vpp 2 (interleaved) needs at least as many micro-batches as layout.pp 6, but "
            "training.global_batch 3 / (layout.micro_batch 1 * dp 1) = 3");
  EXPECT_EQ(result.nearest, "training.global_batch: 6, or layout.vpp: 1");
  s.vpp = 1;
  EXPECT_TRUE(is_legal(spec, s));
  s.vpp = 2;
  s.micro_batch = 3;
  spec.training.global_batch = 12;
  EXPECT_EQ(only_broken(spec, s).nearest,
            "training.global_batch: 18, or layout.micro_batch: 2, or layout.vpp: 1");
}

TEST(Rules, EachScheduleTakesItsChunks) {
  JobSpec spec = job();
  spec.training.global_batch = 8;
  Strategy s;
  s.pp = 4;
  const auto takes = [&](ScheduleKind kind) {
    std::vector<int> all;
    s.schedule = kind;
    for (s.vpp = 1; s.vpp <= 2; ++s.vpp) {
      if (is_legal(spec, s)) all.push_back(s.vpp);
    }
    return all;
  };
  EXPECT_EQ(takes(ScheduleKind::OneFOneB), (std::vector<int>{1, 2}));
  EXPECT_EQ(takes(ScheduleKind::Gpipe), std::vector<int>{1});
  EXPECT_EQ(takes(ScheduleKind::ZbH1), std::vector<int>{1});
  EXPECT_EQ(takes(ScheduleKind::ZbV), std::vector<int>{2});
  EXPECT_EQ(takes(ScheduleKind::DualpipeV), std::vector<int>{2});
  s.schedule = ScheduleKind::ZbV;
  s.vpp = 1;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.message, "layout.schedule zb_v takes layout.vpp 2, but it is 1");
  EXPECT_EQ(result.nearest, "layout.vpp: 2, or layout.schedule: 1f1b");
}

TEST(Rules, DualpipeVNeedsTwoMicroBatchesARank) {
  JobSpec spec = job();
  spec.training.global_batch = 7;
  Strategy s;
  s.pp = 4;
  s.vpp = 2;
  s.schedule = ScheduleKind::DualpipeV;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.message,
            "layout.schedule dualpipe_v needs at least twice as many micro-batches as layout.pp 4, "
            "but training.global_batch 7 / (layout.micro_batch 1 * dp 1) = 7");
  EXPECT_EQ(result.nearest, "layout.schedule: zb_v, or training.global_batch: 8, or layout.pp: 3");
  s.schedule = ScheduleKind::ZbV;  // fewer only leave gaps
  spec.training.global_batch = 1;
  EXPECT_TRUE(is_legal(spec, s));
}

TEST(Rules, ASplitBackwardKeepsItsGradientsWhole) {
  JobSpec spec = job();
  spec.training.global_batch = 8;
  Strategy s;
  s.pp = 4;
  s.dp = 2;
  s.schedule = ScheduleKind::ZbH1;
  s.zero_group = 2;
  s.zero = 1;
  EXPECT_TRUE(is_legal(spec, s));
  s.zero = 2;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.message,
            "layout.zero 2 reduces gradients inside backward, which layout.schedule zb_h1 splits "
            "in two passes");
  EXPECT_EQ(result.nearest, "layout.zero: 1, or layout.schedule: 1f1b");
  s.schedule = ScheduleKind::Gpipe;
  EXPECT_TRUE(is_legal(spec, s));
}

// H07: the first stage may be shorter than the others, or empty.
TEST(Rules, H07_GivenCountsMayLeaveStagesShortOrEmpty) {
  JobSpec spec = job();
  spec.model.layers = 61;
  Strategy s;
  s.pp = 8;
  s.stages = {5, 8, 8, 8, 8, 8, 8, 8};
  EXPECT_TRUE(is_legal(spec, s));
  s.stages = {0, 8, 8, 8, 8, 8, 8, 13};
  EXPECT_TRUE(is_legal(spec, s));
  s.stages = {4, 8, 8, 8, 8, 8, 8, 8};
  EXPECT_EQ(only_broken(spec, s).message, "layout.stages sums to 60, not to model.layers 61");
  spec.model.layers = 3;  // fewer layers than stages
  s.stages = {0, 1, 0, 1, 0, 1, 0, 0};
  EXPECT_TRUE(is_legal(spec, s));
}

TEST(Rules, A05_AnyNumberOfMicroBatchesFromThePipelineUpCanInterleave) {
  JobSpec spec = job();
  Strategy s;
  s.pp = 4;
  s.vpp = 2;
  for (int micro_batches = 1; micro_batches <= 24; ++micro_batches) {
    spec.training.global_batch = micro_batches;
    EXPECT_EQ(is_legal(spec, s), micro_batches >= 4) << micro_batches;
  }
}

TEST(Rules, A06_TensorDegreesMustDivideTheHeads) {
  JobSpec spec = job();
  spec.model.heads = 28;
  spec.model.kv_heads = 4;
  spec.model.ffn_hidden = 18944;
  spec.training.global_batch = 64;
  spec.training.sequence_length = 56;
  set_cluster(spec, 1, 8);
  Strategy s;
  s.tp = 8;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.message,
            "layout.tp 8 does not divide model.heads 28; usable: 1, 2, 4 or 28 (pp has no head "
            "constraint)");
  EXPECT_EQ(result.nearest, "layout.tp: 4, or layout.tp: 4 with layout.pp: 2");
  EXPECT_EQ(result.keys, (Ids{"layout.tp", "model.heads", "model.kv_heads"}));
}

TEST(Rules, A06_TheUsableDegreesOfOtherModels) {
  const auto usable = [](int heads, int tp) {
    JobSpec spec = job();
    spec.model.heads = spec.model.kv_heads = heads;
    spec.model.ffn_hidden = 6 * 7 * 13 * 64;
    Strategy s;
    s.tp = tp;
    const std::vector<RuleResult> results = broken(spec, s);
    const std::string message = results.empty() ? "" : results[0].message;
    const std::size_t start = message.find("usable: ") + 8;
    return message.substr(start, message.find(" (") - start);
  };
  EXPECT_EQ(usable(52, 8), "1, 2, 4, 13, 26 or 52");
  EXPECT_EQ(usable(40, 3), "1, 2, 4, 5, 8, 10, 20 or 40");
  EXPECT_EQ(usable(64, 6), "1, 2, 4, 8, 16, 32 or 64");
  EXPECT_EQ(usable(12, 8), "1, 2, 3, 4, 6 or 12");
}

TEST(Rules, H03_FewerKvHeadsThanRanksAreReplicated) {
  JobSpec spec = job();
  spec.model.heads = 64;
  spec.model.kv_heads = 2;
  spec.model.ffn_hidden = 768;
  Strategy s;
  for (const int tp : {1, 2, 4, 8}) {
    s.tp = tp;
    EXPECT_TRUE(is_legal(spec, s)) << tp;
  }
  spec.model.heads = 6;
  spec.model.kv_heads = 3;
  s.tp = 2;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.rule, "kv_heads");
  EXPECT_EQ(result.message,
            "neither of layout.tp 2 and model.kv_heads 3 divides the other; usable: 1, 3 or 6 (pp "
            "has no head constraint)");
  EXPECT_EQ(result.nearest.substr(0, 17), "layout.tp: 1 or 3");
  spec.model.kv_heads = 2;
  s.tp = 3;
  EXPECT_EQ(broken_ids(spec, s), Ids{"kv_heads"});
}

TEST(Rules, A12_TheGlobalBatchMustFillAllReplicas) {
  JobSpec spec = job();
  spec.model.layers = 40;
  spec.model.heads = spec.model.kv_heads = 32;
  spec.training.global_batch = 1024;
  set_cluster(spec, 96, 4);
  Strategy s;
  s.tp = 2;
  s.pp = 4;
  s.dp = 48;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.message,
            "training.global_batch 1024 is no multiple of layout.micro_batch 1 * dp 48 = 48 "
            "(remainder 16)");
  EXPECT_EQ(result.nearest, "training.global_batch: 1008 or 1056, or cluster.nodes: 64 or 128");
}

TEST(Rules, A09_SequenceParallelismSplitsWhatContextParallelismLeaves) {
  JobSpec spec = job();
  spec.model.position = PositionKind::Rope;
  spec.training.sequence_length = 36;
  Strategy s;
  s.tp = 8;
  EXPECT_TRUE(is_legal(spec, s));
  s.sequence_parallel = true;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.message,
            "sequence_parallel splits training.sequence_length 36 / cp 1 = 36 tokens over "
            "layout.tp 8, which does not divide them");
  EXPECT_EQ(result.nearest,
            "layout.sequence_parallel: false, or training.sequence_length: 32 or 40, or "
            "layout.tp: 4");
  s.cp = 5;
  EXPECT_EQ(
      broken(spec, s)[0].message,
      "training.sequence_length 36 is no multiple of 2 * layout.cp 5 = 10 (remainder 6): each "
      "rank holds two chunks, one early and one late");
}

// cp * lcm(2, tp): neither lcm(2 cp, tp), which lets 8 pass, nor 2 cp tp, which refuses 32.
TEST(Rules, A09_SequencesSplitOverContextAndTensorRanks) {
  JobSpec spec = job();
  spec.model.position = PositionKind::Rope;
  spec.model.heads = spec.model.kv_heads = 8;
  Strategy s;
  s.cp = 4;
  s.tp = 8;
  s.sequence_parallel = true;
  for (const std::int64_t length : {32, 64}) {
    spec.training.sequence_length = length;
    EXPECT_TRUE(is_legal(spec, s)) << length;
  }
  for (const std::int64_t length : {8, 16, 48, 8200}) {
    spec.training.sequence_length = length;
    const std::vector<RuleResult> results = broken(spec, s);
    ASSERT_FALSE(results.empty()) << length;
    EXPECT_NE(results[0].nearest.find("training.sequence_length: "), std::string::npos) << length;
  }
}

TEST(Rules, RanksOfASplitSequenceStayTogether) {
  JobSpec spec = job();
  spec.training.sequence_length = 32;
  Strategy s;
  s.tp = s.cp = 2;
  s.rank_order = "cp-tp-ep-dp-pp";
  EXPECT_TRUE(is_legal(spec, s));
  s.sequence_parallel = true;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.rule, "context_order");
  EXPECT_EQ(result.nearest,
            "layout.rank_order: tp-cp-ep-dp-pp, or layout.sequence_parallel: false");
}

TEST(Rules, AStepHasSoManyMicroBatches) {
  JobSpec spec = job();
  spec.training.global_batch = 65536 * 2;
  Strategy s;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.rule, "micro_batches");
  EXPECT_EQ(result.message,
            "training.global_batch 131072 makes 131072 micro-batches of layout.micro_batch 1 on "
            "each of layout.dp 1; at most 65536 a step are supported");
  EXPECT_EQ(result.nearest, "training.global_batch: 65536");
  s.micro_batch = 2;
  EXPECT_TRUE(is_legal(spec, s));
}

// H13: heads go round, and those of keys too; ring has no such rule and is offered.
TEST(Rules, H13_UlyssesNeedsHeadsForEachRank) {
  JobSpec spec = job();
  spec.training.sequence_length = 80;
  spec.model.position = PositionKind::Rope;
  const auto allows = [&](int heads, int kv_heads, int cp) {
    spec.model.heads = heads;
    spec.model.kv_heads = kv_heads;
    Strategy s;
    s.cp = cp;
    s.context = ContextKind::Ulysses;
    return is_legal(spec, s);
  };
  EXPECT_TRUE(allows(40, 8, 8));
  EXPECT_FALSE(allows(40, 8, 10));
  EXPECT_FALSE(allows(28, 4, 8));
  EXPECT_TRUE(allows(12, 12, 4));
  Strategy s;
  s.cp = 10;
  s.context = ContextKind::Ulysses;
  spec.model.heads = 40;
  spec.model.kv_heads = 8;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.message,
            "ulysses exchanges rows for heads: the 8 kv heads of a tensor rank (model.kv_heads 8 / "
            "tp 1) are no multiple of layout.cp 10");
  EXPECT_EQ(result.nearest.find("layout.context: ring"), 0u);
}

TEST(Rules, LearnedPositionsBoundTheSequence) {
  JobSpec spec = job();
  spec.training.sequence_length = 65;
  EXPECT_EQ(only_broken(spec, Strategy{}).message,
            "training.sequence_length 65 is longer than the model.max_position 64 of the learned "
            "positions");
  spec.model.position = PositionKind::Rope;
  EXPECT_TRUE(is_legal(spec, Strategy{}));
}

TEST(Rules, VirtualStagesNeedAPipelineAndALayerEach) {
  const JobSpec spec = job();
  Strategy s;
  s.vpp = 2;
  EXPECT_EQ(only_broken(spec, s).message, "layout.vpp 2 needs more than layout.pp 1");
  s.pp = 4;
  EXPECT_TRUE(is_legal(spec, s));
  s.vpp = 3;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(
      result.message,
      "layout.pp 4 * vpp 3 = 12 virtual stages need a layer each, but model.layers 8 is less");
  EXPECT_EQ(result.nearest, "layout.pp: 2, or layout.vpp: 2");
}

TEST(Rules, H12_DegreesBelowOneBreakOneRuleAndDivideNothing) {
  Strategy s;
  s.pp = 0;
  s.dp = -1;
  const RuleResult result = only_broken(job(), s);
  EXPECT_EQ(result.rule, "degrees");
  EXPECT_EQ(result.message, "layout.pp 0, layout.dp -1 must be at least 1");
  EXPECT_EQ(result.nearest, "layout.pp: 1, or layout.dp: 1");
}

TEST(Rules, NotBuiltNamesEachValue) {
  const JobSpec spec = job();
  Strategy s;
  s.overlap.tensor = true;
  EXPECT_EQ(only_broken(spec, s).message, "layout.overlap tensor is not built yet");
  EXPECT_EQ(only_broken(spec, s).nearest, "layout.overlap: []");
}

TEST(Rules, ZeroGroupTakesWholeDataRanks) {
  const JobSpec spec = job();
  Strategy s;
  s.dp = 4;
  s.zero = 2;
  s.zero_group = 3;
  const RuleResult result = only_broken(spec, s);
  EXPECT_EQ(result.rule, "zero_group");
  EXPECT_EQ(result.nearest, "layout.zero_group: 2 or 4");
  s.zero_group = 2;
  EXPECT_EQ(broken_ids(spec, s), Ids{});
}

TEST(Rules, WorldsBeyondAnyClusterDoNotOverflow) {
  JobSpec spec = job();
  set_cluster(spec, 1, 8);
  Strategy s;
  s.tp = s.cp = s.pp = s.dp = 1 << 30;
  s.micro_batch = 1 << 30;
  const std::vector<std::string> ids = broken_ids(spec, s);
  EXPECT_EQ(ids[0], "world");
}

TEST(Rules, AllBrokenRulesAreReportedAtOnceWithPlaces) {
  JobSpec spec = job();
  spec.file = "job.yaml";
  spec.places["layout.tp"] = {"job.yaml", {7, 3}};
  spec.places["model.heads"] = {"model.yaml", {2, 1}};
  Strategy s;
  s.tp = 3;
  s.micro_batch = 3;
  const Errors errors = rule_errors(spec, s);
  ASSERT_EQ(errors.size(), 4u);  // heads, kv_heads, ffn_hidden, global_batch
  EXPECT_EQ(errors[0].file, "job.yaml");
  EXPECT_EQ(errors[0].where, (SourceLoc{7, 3}));
  ASSERT_EQ(errors[0].notes.size(), 1u);
  EXPECT_EQ(errors[0].notes[0].file, "model.yaml");
  EXPECT_EQ(errors[0].notes[0].text, "model.heads is given here");
  // tp alone cannot mend the batch, but it can mend the heads without breaking more.
  EXPECT_EQ(errors[0].help.substr(0, 27), "nearest: layout.tp: 2 or 4");
  EXPECT_EQ(errors[3].where, SourceLoc{});  // no key of it is in a file
}

TEST(Rules, NormalisedFixesFieldsWithoutEffect) {
  Strategy s;
  s.sequence_parallel = true;
  s.zero_group = 4;
  s.context = ContextKind::Ulysses;
  s.overlap = {true, true, true, true, true};
  EXPECT_EQ(normalised(s), Strategy{});
  s.tp = s.pp = s.dp = 2;
  const Strategy kept = normalised(s);
  EXPECT_TRUE(kept.sequence_parallel);
  EXPECT_EQ(names(kept.overlap), (Ids{"gradient_reduce", "tensor", "pipeline"}));
  EXPECT_EQ(normalised(kept), kept);
}

}  // namespace
}  // namespace mega::planner
