#include "ir/plan_text.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/plan_text_cursor.h"
#include "tests/support/pipeline_plan.h"
#include "tests/support/plan_check.h"
#include "tests/support/plans.h"

namespace mega {
namespace {

using testing::edited;
using testing::kBigram;
using testing::kPipelineOfThree;
using testing::kTensorAndData;
using testing::parsed;

// "12:5: message" per line.
std::string errors_of(const std::string& text) {
  const Result<Plan> plan = parse_plan("p.plan", text);
  if (plan.ok()) return "";
  std::string all;
  for (const Diagnostic& error : plan.errors()) {
    all += std::to_string(error.where.line) + ":" + std::to_string(error.where.column) + ": " +
           error.message + (error.help.empty() ? "" : " [" + error.help + "]") + "\n";
  }
  return all;
}

#define EXPECT_SAYS(text, expected) \
  EXPECT_NE(errors_of(text).find(expected), std::string::npos) << errors_of(text)

TEST(PlanText, SamplePlansComeBackFromTheirText) {
  for (const std::string& text : {kBigram, kTensorAndData, kPipelineOfThree,
                                  testing::pipeline_plan({.stages = 5, .micro_batches = 9})}) {
    const Plan plan = parsed(text);
    EXPECT_EQ(parsed(print_plan(plan)), plan);
    EXPECT_EQ(print_plan(parsed(print_plan(plan))), print_plan(plan));
  }
}

TEST(PlanText, FieldsArriveWhereTheyBelong) {
  const Plan plan = parsed(kTensorAndData);
  EXPECT_EQ(plan.header.vocab, 13);
  EXPECT_EQ(plan.header.schedule.learning_rate, 0.5);
  ASSERT_EQ(plan.programs.size(), 1U);
  const Program& program = plan.programs[0];
  const Buffer& table = program.buffers[find_buffer(program, "table").value()];
  EXPECT_EQ(table.shape, (Shape{7, 4}));
  ASSERT_TRUE(table.shard.has_value());
  EXPECT_EQ(table.shard->name, "table");
  EXPECT_EQ(table.shard->global_shape, (Shape{13, 4}));
  EXPECT_EQ(table.shard->axes[0], AxisSet::of(1));
  const Buffer& flat = program.buffers[find_buffer(program, "head_flat").value()];
  EXPECT_EQ(flat.parent, find_buffer(program, "head").value());
  const Segment& forward = program.segments[SegmentId{2}];
  EXPECT_EQ(forward.predicted_ns, 2000);
  EXPECT_EQ(forward.ops[0].attributes.stride, 4);
  EXPECT_EQ(forward.ops[0].origin, (std::vector<OriginTerm>{{AxisSet::of(0), 2}}));
  EXPECT_EQ(forward.ops[2].group, (Group{0, AxisSet::of(1), {}}));
  EXPECT_EQ(forward.ops[3].index, "sbh,vh->sbv");
}

TEST(PlanText, LoopsKeepTheirExpressions) {
  const Plan plan = parsed(kPipelineOfThree);
  const Sequence& train = *find_sequence(plan.programs[2], "train");
  const auto& repeat = std::get<Repeat>(train.steps[2]);
  EXPECT_EQ(repeat.count, 3);
  const auto& exchange = std::get<Exchange>(repeat.body[2].body);
  EXPECT_EQ(exchange.transfers[1].micro_batch, (Affine{1, 1}));
  EXPECT_EQ(exchange.transfers[1].hop, -1);
  const std::string loop = edited(kPipelineOfThree, "run forward mb=i slot=0 after p2p",
                                  "run forward mb=4*i-2 slot=i after p2p~3,compute");
  const Plan other = parsed(loop);
  const auto& run = std::get<Repeat>(find_sequence(other.programs[2], "train")->steps[2]);
  EXPECT_EQ(std::get<mega::Run>(run.body[0].body).micro_batch, (Affine{-2, 4}));
  EXPECT_EQ(run.body[0].waits, (std::vector<Wait>{{QueueId{1}, 3}, {QueueId{0}, 0}}));
}

TEST(PlanText, ASlotMayBeThatOfItsMicroBatch) {
  const Plan plan = parsed(kPipelineOfThree);
  const std::string text = print_plan(plan);
  EXPECT_NE(text.find("run forward mb=3 slot=mb%3"), std::string::npos) << text;
  EXPECT_EQ(parsed(text), plan);
  EXPECT_SAYS(edited(kPipelineOfThree, "slot=3%3", "slot=mb%4"),
              "slots are counted modulo the chunk's 3, not 4");
  EXPECT_SAYS(edited(kBigram, "run forward mb=i slot=0", "run forward slot=mb"),
              "expected a number or 'i'");
}

TEST(PlanText, AnEqualsSignNamesTheTensorOfABuffer) {
  EXPECT_EQ(tensor_of("w.grad.part"), "w");
  EXPECT_EQ(tensor_of("w.part.grad"), "w.part");
  EXPECT_EQ(tensor_of(".grad"), ".grad");
  Plan plan = parsed(kTensorAndData);
  Program& program = plan.programs[0];
  Buffer& table = program.buffers[find_buffer(program, "table").value()];
  for (const std::string name : {"table", "table.grad", "table.part", "table.grad.part"}) {
    table.name = name;
    EXPECT_NE(print_plan(plan).find(" parameter = ["), std::string::npos) << name;
    EXPECT_EQ(parsed(print_plan(plan)), plan) << name;
  }
  table.shard->name = "table.grad.part";
  EXPECT_EQ(parsed(print_plan(plan)), plan);
}

TEST(PlanText, OtherVersionsAndOtherFilesAreRefused) {
  EXPECT_SAYS("", "1:1: not a plan: the first line is empty");
  EXPECT_SAYS(
      "\x7f"
      "ELF\x02",
      "1:1: not a plan: the first line is");
  EXPECT_SAYS(edited(kBigram, "megaplan 1", "megaplan 2"),
              "1:10: plan version '2' is not the one that this program reads, 1");
  EXPECT_SAYS(edited(kBigram, "megaplan 1", "megaplan"), "expected a version");
  EXPECT_SAYS(kBigram + std::string("\nab\0c", 5), "75:3: not a plan: the file has a NUL byte");
}

TEST(PlanText, ATextThatEndsEarlyIsRefused) {
  const std::string cut = kBigram.substr(0, kBigram.find("ranks"));
  EXPECT_SAYS(cut, "the plan doesn't say which rank runs which program");
  EXPECT_SAYS(cut.substr(0, cut.find("  end")), "'repeat' has no 'end'");
}

TEST(PlanText, EveryBadLineIsReportedWithASuggestion) {
  std::string text = edited(kBigram, "matmul:sbh,vh->sbv x head", "matmull x head");
  text = edited(text, "embedding tokens table", "embedding tokens tabel");
  text = edited(text, "run prologue", "run prolog");
  text = edited(text, "slot x [8,2,4]", "slot x [8,two,4]");
  EXPECT_EQ(errors_of(text),
            "28:12: expected a dimension, got 'two,4]'\n"
            "47:20: no buffer named 'tabel' [did you mean 'table'?]\n"
            "48:3: unknown op or statement 'matmull' [did you mean 'matmul'?]\n"
            "66:7: no segment named 'prolog' [did you mean 'prologue'?]\n");
}

TEST(PlanText, ManyErrorsStopTheReading) {
  std::string text = "megaplan 1\n";
  for (int i = 0; i < 1000; ++i) text += "nonsense\n";
  const Result<Plan> plan = parse_plan("p.plan", text);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.errors().size(), 51U);
  EXPECT_EQ(plan.errors().back().message, "too many errors; the rest of the file was not read");
}

TEST(PlanText, DuplicatesAreRefused) {
  EXPECT_SAYS(edited(kBigram, "slot x [8,2,4] @128", "slot tokens [8,2,4] @128"),
              "a second buffer named 'tokens'");
  EXPECT_SAYS(edited(kBigram, "queue compute", "queue compute\nqueue compute"),
              "a second queue named 'compute'");
  EXPECT_SAYS(edited(kBigram, "vocab 13", "vocab 13\nvocab 14"), "a second line 'vocab'");
  EXPECT_SAYS(edited(kBigram, "segment prologue", "segment init"), "a second segment named 'init'");
  EXPECT_SAYS(edited(kBigram, "sequence train", "sequence init"), "a second sequence named 'init'");
  EXPECT_SAYS(edited(kBigram, "mesh all dp=1", "mesh all dp=1 dp=1"), "a second axis named 'dp'");
  EXPECT_SAYS(kBigram + "ranks: all\n", "a second line 'ranks'");
}

TEST(PlanText, SizesThatOverflowAreRefused) {
  EXPECT_SAYS(edited(kBigram, "slot x [8,2,4]", "slot x [99999999999,99999999999,4]"),
              "the shape has more than 140737488355328 elements");
  EXPECT_SAYS(edited(kBigram, "slot x [8,2,4]", "slot x [99999999999999999999]"),
              "a dimension must be 1 to 140737488355328, got 99999999999999999999");
  EXPECT_SAYS(edited(kBigram, "slot x [8,2,4]", "slot x [0]"), "a dimension must be 1 to");
  EXPECT_SAYS(edited(kBigram, "persistent=1728", "persistent=140737488355328"),
              "the program's arena is over 128.00 TiB");
  EXPECT_SAYS(edited(kBigram, "slots=1 slot_bytes=1344", "slots=1000000 slot_bytes=1000000000"),
              "the program's arena is over 128.00 TiB");
  EXPECT_SAYS(edited(kBigram, "repeat 2", "repeat 20000000"),
              "the loops come to over 20000000 instructions");
  EXPECT_SAYS(edited(kBigram, "dp=1", "dp=65536 tp=65536"), "more than 16777216 ranks");
  EXPECT_SAYS(edited(kBigram, "dp=1", "dp=0"), "the size of an axis must be 1 to 16777216, got 0");
}

TEST(PlanText, WhatDoesNotFitTogetherIsRefused) {
  EXPECT_SAYS(edited(kPipelineOfThree, "slot=3%3", "slot=3%4"),
              "slots are counted modulo the chunk's 3, not 4");
  EXPECT_SAYS(edited(kBigram, "run prologue", "run prologue mb=i"),
              "'i' has a value only between 'repeat' and 'end'");
  EXPECT_SAYS(edited(kBigram, "  end\n", "  repeat 2 as i\n"), "'repeat' inside 'repeat'");
  EXPECT_SAYS(edited(kBigram, "  repeat 2 as i\n", ""), "'end' without 'repeat'");
  EXPECT_SAYS(edited(kPipelineOfThree, "ranks by pp: front middle back", "ranks by pp: front back"),
              "2 programs for 3 positions along 'pp'");
  EXPECT_SAYS(edited(kTensorAndData, "along=tp", "along=tp+tp"), "the axis is in the set twice");
  EXPECT_SAYS(edited(kTensorAndData, "queue compute", "mesh other ep=3\nqueue compute"),
              "mesh 'other' has 3 ranks, mesh 'all' 4");
  EXPECT_SAYS(edited(kBigram, " fill -> table_velocity", " fill:sb- -> table_velocity"),
              "'sb-' are no letters of an op");
  EXPECT_SAYS(
      edited(kBigram, "view table_flat [52] in table", "view table_flat [52] in table_flat"),
      "the buffer is a view into itself");
  EXPECT_SAYS(edited(kBigram, "constant peak", "step peak"),
              "unknown schedule 'step' [use constant, linear, cosine or inverse_sqrt]");
}

TEST(PlanText, NamesAreQuotedOnlyWhereTheyMustBe) {
  Plan plan = parsed(kBigram);
  plan.header.job = "h.0.attn/c_attn:weight-1";
  EXPECT_NE(print_plan(plan).find("\njob h.0.attn/c_attn:weight-1\n"), std::string::npos);
  for (const std::string name :
       {"", " ", "a b", "a->b", "-", "a:", "#", "\"", "\\", "a\nb", "é\x01"}) {
    plan.header.job = name;
    EXPECT_NE(print_plan(plan).find("\njob \""), std::string::npos) << name;
    EXPECT_EQ(parsed(print_plan(plan)), plan) << name;
  }
}

TEST(PlanText, CommentsBlankLinesAndCarriageReturnsMeanNothing) {
  std::string text =
      edited(kBigram, "queue compute", "queue compute # the only one\r\n\t\n  # x\r");
  EXPECT_EQ(parsed(text), parsed(kBigram));
}

TEST(PlanText, ATextOverTheLimitIsRefused) {
  const std::string text(static_cast<std::size_t>(kMaxPlanBytes) + 1, ' ');
  EXPECT_SAYS(text, "more than the largest that is read, 256.00 MiB");
}

}  // namespace
}  // namespace mega
