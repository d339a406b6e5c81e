#include "runtime/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>

#include "tests/support/plans.h"
#include "tests/support/toy_plan.h"

namespace mega::runtime {
namespace {

using mega::testing::toy_plan;
using mega::testing::ToyOptions;

// Text with structure: each byte tells much about the next.
std::vector<std::uint8_t> text() {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 4000; ++i) {
    bytes.push_back(static_cast<std::uint8_t>('a' + (i * i / 3 + i) % 23));
  }
  return bytes;
}

struct Trained {
  std::vector<StepResult> steps;
  std::vector<GlobalTensor> parameters;
  std::vector<GlobalTensor> gradients;
};

class Data {
 public:
  explicit Data(Header header) : header_(std::move(header)), bytes_(text()) {
    for (std::uint8_t& byte : bytes_) byte = static_cast<std::uint8_t>(byte % header_.vocab);
    windows_.resize(static_cast<std::size_t>(header_.global_batch));
  }
  kernels::BatchView of_step(std::int64_t step) {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      const auto sample = (step - 1) * header_.global_batch + static_cast<std::int64_t>(i);
      windows_[i] = sample * 13 % 3900;
    }
    return {bytes_.data(), windows_};
  }

 private:
  Header header_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::int64_t> windows_;
};

Trained train(const ToyOptions& toy, std::int64_t steps, const SessionOptions& options = {}) {
  Trained run;
  auto opened = Session::open(toy_plan(toy), options);
  EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.errors().front().message);
  if (!opened.ok()) return run;
  Session& session = *opened.value();
  Data data(session.plan().header);
  EXPECT_TRUE(session.start().ok());
  for (std::int64_t step = 1; step <= steps; ++step) {
    auto result = session.train(data.of_step(step));
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.errors().front().message);
    if (!result.ok()) return run;
    run.steps.push_back(result.value());
  }
  run.parameters = session.gather(Role::Parameter).value();
  run.gradients = session.gather(Role::Gradient).value();
  return run;
}

void expect_same_bits(const Trained& a, const Trained& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].loss, b.steps[i].loss);
    EXPECT_EQ(a.steps[i].grad_norm, b.steps[i].grad_norm);
  }
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    EXPECT_EQ(a.parameters[i].name, b.parameters[i].name);
    EXPECT_EQ(a.parameters[i].data, b.parameters[i].data);
  }
}

bool mentions(const Errors& errors, const std::string& text) {
  for (const Diagnostic& error : errors) {
    if (error.message.find(text) != std::string::npos) return true;
    for (const Note& note : error.notes) {
      if (note.text.find(text) != std::string::npos) return true;
    }
  }
  return false;
}

TEST(Session, TheLossFalls) {
  const Trained run = train({}, 40);
  ASSERT_EQ(run.steps.size(), 40U);
  EXPECT_EQ(run.steps[0].step, 1);
  EXPECT_NEAR(*run.steps[0].loss, 5.545, 0.5);  // ln 256, about
  EXPECT_LT(*run.steps[39].loss, 4.0);
  EXPECT_GT(*run.steps[0].grad_norm, 0);
}

TEST(Session, PlansWrittenByHandRun) {
  for (const std::string& written :
       {mega::testing::kBigram, mega::testing::kTensorAndData, mega::testing::kPipelineOfThree}) {
    SessionOptions options;
    options.check = true;
    const auto opened = Session::open(parse_plan("hand", written).value(), options);
    ASSERT_TRUE(opened.ok()) << opened.errors().front().message;
    Session& session = *opened.value();
    Data data(session.plan().header);
    ASSERT_TRUE(session.start().ok());
    double first = 0, last = 0;
    for (std::int64_t step = 1; step <= 30; ++step) {
      const auto result = session.train(data.of_step(step));
      ASSERT_TRUE(result.ok()) << result.errors().front().message;
      ASSERT_TRUE(result.value().loss.has_value());
      (step == 1 ? first : last) = *result.value().loss;
    }
    EXPECT_LT(last, first);
  }
}

TEST(Session, LayoutsOfTheSameBatchTrainAlike) {
  // 12 samples each: copies * micro-batches * 2.
  const Trained whole = train({1, 1, 6}, 5);
  for (const ToyOptions& toy :
       {ToyOptions{3, 1, 2}, ToyOptions{1, 2, 6}, ToyOptions{3, 2, 2}, ToyOptions{6, 2, 1}}) {
    SCOPED_TRACE(std::to_string(toy.copies) + " x " + std::to_string(toy.stages));
    const Trained run = train(toy, 5);
    ASSERT_EQ(run.steps.size(), 5U);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(*run.steps[i].loss, *whole.steps[i].loss, 1e-5 * *whole.steps[i].loss);
      EXPECT_NEAR(*run.steps[i].grad_norm, *whole.steps[i].grad_norm,
                  1e-4 * *whole.steps[i].grad_norm);
    }
    ASSERT_EQ(run.parameters.size(), 2U);
    EXPECT_EQ(run.parameters[0].name, "head.weight");
    EXPECT_EQ(run.parameters[1].name, "table.weight");
    ASSERT_EQ(run.gradients.size(), 2U);
    for (std::size_t i = 0; i < run.parameters[0].data.size(); ++i) {
      ASSERT_NEAR(run.parameters[0].data[i], whole.parameters[0].data[i], 1e-3);
    }
  }
}

TEST(Session, RepeatedRunsGiveTheSameBits) {
  expect_same_bits(train({2, 2}, 4), train({2, 2}, 4));
}

// Case F01: delays in any place change neither the end nor a bit.
TEST(Session, DelaysChangeNoBit) {
  const Trained plain = train({2, 2}, 4);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SessionOptions options;
    options.delay_seed = seed;
    expect_same_bits(plain, train({2, 2}, 4, options));
  }
}

TEST(Session, CheckingChangesNoBit) {
  for (const ToyOptions& toy : {ToyOptions{2, 1}, ToyOptions{2, 2}}) {
    SessionOptions options;
    options.check = true;
    expect_same_bits(train(toy, 4), train(toy, 4, options));
  }
}

// Case F07: one operation at a time still completes, with identical losses.
TEST(Session, SerializingChangesNoBit) {
  SessionOptions options;
  options.serialize = true;
  expect_same_bits(train({2, 2}, 4), train({2, 2}, 4, options));
  options.check = true;
  options.delay_seed = 4;
  expect_same_bits(train({2, 2}, 2), train({2, 2}, 2, options));
}

TEST(Session, AllocatesExactlyWhatThePlanStates) {
  for (const bool check : {false, true}) {
    SessionOptions options;
    options.check = check;
    const auto session = Session::open(toy_plan({2, 2}), options).value();
    Bytes sum;
    for (int rank = 0; rank < 4; ++rank) {
      const Plan& plan = session->plan();
      const Bytes stated =
          arena_bytes(plan.programs[static_cast<std::size_t>(program_of(plan, rank))]);
      EXPECT_EQ(session->allocated(rank), stated);
      sum += stated;
    }
    EXPECT_EQ(arena_bytes_of_world(session->plan()), sum);
  }
}

TEST(Session, RefusesAPlanThatExceedsTheHost) {
  SessionOptions options;
  options.memory_limit = Bytes(1000);
  const auto session = Session::open(toy_plan({2, 1}), options);
  ASSERT_FALSE(session.ok());
  const std::string needed = std::to_string(arena_bytes_of_world(toy_plan({2, 1})).count());
  EXPECT_TRUE(mentions(session.errors(), needed + " bytes"));
  EXPECT_TRUE(mentions(session.errors(), "1000 bytes"));
}

TEST(Session, RefusesOtherPrecisions) {
  Plan plan = toy_plan({});
  plan.header.precision = "bf16";
  const auto session = Session::open(plan);
  ASSERT_FALSE(session.ok());
  EXPECT_TRUE(mentions(session.errors(), "bf16"));
  EXPECT_NE(session.errors().front().help.find("can be estimated but not run yet"),
            std::string::npos);
}

TEST(Session, RefusesAPlanThatDoesNotVerify) {
  Plan plan = toy_plan({1, 2});
  auto& train = plan.programs[1].sequences[1];
  std::get<Repeat>(train.steps[1]).body.pop_back();  // nobody sends dx
  EXPECT_FALSE(Session::open(plan).ok());
}

TEST(Session, ReadsLocalBuffers) {
  const auto session = Session::open(toy_plan({2, 1})).value();
  ASSERT_TRUE(session->start().ok());
  const auto weights = session->read(1, "weights");
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(weights.value().size(), 2U * 256 * 8 * 4);
  EXPECT_EQ(weights.value(), session->read(0, "weights").value());
  EXPECT_FALSE(session->read(0, "nothing").ok());
  EXPECT_FALSE(session->read(2, "weights").ok());
}

// Case F05, in one process: a rank that throws stops all, and the report names it.
TEST(Session, ARankThatThrowsStopsAllAndIsNamed) {
  for (const bool throws : {true, false}) {
    std::atomic<int> calls{0};
    SessionOptions options;
    options.before = [&](int rank, const Instruction& instruction, std::int64_t) -> Status {
      const bool is_transfer = std::holds_alternative<Exchange>(instruction.body);
      if (rank != 2 || !is_transfer || ++calls < 6) return Ok{};
      if (throws) throw std::runtime_error("reader lost");
      return failure("reader lost");
    };
    const auto session = Session::open(toy_plan({2, 2}), options).value();
    Data data(session->plan().header);
    ASSERT_TRUE(session->start().ok());
    Errors errors;
    for (std::int64_t step = 1; step <= 5 && errors.empty(); ++step) {
      const auto result = session->train(data.of_step(step));
      if (!result.ok()) errors = result.errors();
    }
    ASSERT_FALSE(errors.empty());
    const std::string& message = errors.front().message;
    EXPECT_NE(message.find("rank 2 (stage=1,copy=0), exchange along stage: "), std::string::npos)
        << message;
    EXPECT_NE(message.find("reader lost"), std::string::npos) << message;
    EXPECT_TRUE(mentions(errors, "rank 0 (stage=0,copy=0) compute: finished run"));
    // It stays stopped.
    EXPECT_FALSE(session->train(data.of_step(9)).ok());
  }
}

// Case F05: a rank that hangs is named by those who wait for it.
TEST(Session, ARankThatHangsIsNamedWithinTheDeadline) {
  std::atomic<bool> release{false};
  SessionOptions options;
  options.deadline = std::chrono::milliseconds(100);
  options.before = [&](int rank, const Instruction& instruction, std::int64_t) -> Status {
    const auto* run = std::get_if<mega::Run>(&instruction.body);
    if (rank == 1 && run != nullptr && run->micro_batch && run->micro_batch->at(0) == 0) {
      release.wait(false);
    }
    return Ok{};
  };
  // Before the session: the rank that hangs goes on reading it until the session ends.
  Data data(toy_plan({2, 1}).header);
  const auto session = Session::open(toy_plan({2, 1}), options).value();
  ASSERT_TRUE(session->start().ok());
  const auto begin = std::chrono::steady_clock::now();
  const auto result = session->train(data.of_step(1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  release = true;
  release.notify_all();
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(mentions(result.errors(), "rank 0 (copy=0) waited 100.0 ms in all_reduce"));
  EXPECT_TRUE(mentions(result.errors(), "for rank 1 (copy=1)"));
  EXPECT_TRUE(
      mentions(result.errors(), "rank 1 (copy=1) compute: finished run prologue, in run f"));
}

TEST(Session, ALossThatIsNoNumberStopsAndNamesTheStep) {
  ToyOptions toy;
  toy.learning_rate = 1e38;
  const auto session = Session::open(toy_plan(toy)).value();
  Data data(session->plan().header);
  ASSERT_TRUE(session->start().ok());
  ASSERT_TRUE(session->train(data.of_step(1)).ok());
  const auto result = session->train(data.of_step(2));
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(mentions(result.errors(), "step 2: the ")) << result.errors().front().message;
}

// Cases D01 and D02: a copy that drifts is found and named.
TEST(Session, ADriftingCopyIsNamed) {
  SessionOptions options;
  options.check = true;
  Plan plan = toy_plan({2, 1});
  Segment* update = nullptr;
  Table<SegmentId, Segment> segments;
  for (const Segment& segment : plan.programs[0].segments) segments.add(segment);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    Segment& segment = segments[SegmentId{static_cast<std::int32_t>(i)}];
    if (segment.name == "update") update = &segment;
  }
  ASSERT_NE(update, nullptr);
  update->ops.erase(update->ops.begin());  // the all_reduce of the gradients
  plan.programs[0].segments = segments;
  const auto session = Session::open(plan, options).value();
  Data data(session->plan().header);
  ASSERT_TRUE(session->start().ok());
  const auto result = session->train(data.of_step(1));
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(mentions(result.errors(), "rank 1 (copy=1)")) << result.errors().front().message;
}

}  // namespace
}  // namespace mega::runtime
