// The megarun program itself: exit codes, messages, logs. Plans are built by hand.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "ir/plan_text.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/safetensors.h"
#include "tests/support/toy_plan.h"

namespace mega::runtime {
namespace {

using mega::testing::toy_plan;
using mega::testing::ToyOptions;

struct Outcome {
  int code = -1;
  std::string output;  // both streams
};

std::string text() {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + (i * i / 3 + i) % 23);
  return text;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Megarun : public ::testing::Test {
 protected:
  void SetUp() override {
    plan_ = folder_.write("toy.plan", mega::testing::toy_plan_text({2, 2}));
    text_ = folder_.write("text.txt", text());
  }

  static Outcome shell(const std::string& command) {
    Outcome outcome;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        popen(("(" + command + ") 2>&1").c_str(), "r"),
        [](std::FILE* file) { return file == nullptr ? 0 : pclose(file); });
    std::array<char, 4096> buffer{};
    while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
      outcome.output.append(buffer.data(), count);
    }
    return outcome;
  }
  // `arguments` after the program's name.
  Outcome run(const std::string& arguments) const {
    Outcome outcome = shell("cd " + folder_.path() + " && " MEGA_BINARY_DIR "/bin/megarun " +
                            arguments + "; echo \"code=$?\"");
    const std::size_t at = outcome.output.rfind("code=");
    outcome.code = std::atoi(outcome.output.c_str() + at + 5);
    outcome.output.resize(at);
    return outcome;
  }
  void expect(const std::string& arguments, int code, const std::string& part) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << arguments << "\n" << outcome.output;
  }

  TemporaryFolder folder_;
  std::string plan_;
  std::string text_;
};

TEST_F(Megarun, TrainsAndLogs) {
  const Outcome outcome = run("toy.plan --data text.txt --steps 30 --log run.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const std::string log = contents(folder_.path("run.jsonl"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 32);  // start, 30 steps, stop
  EXPECT_TRUE(log.starts_with("{\"event\":\"start\",\"plan\":\"toy.plan\"")) << log;
  EXPECT_NE(log.find("\n{\"step\":30,\"loss\":"), std::string::npos);
  EXPECT_TRUE(log.ends_with("{\"event\":\"stop\",\"steps\":30,\"reason\":\"done\"}\n")) << log;
  for (std::size_t at = 0; at < outcome.output.size();) {
    const std::size_t end = outcome.output.find('\n', at);
    EXPECT_LE(end - at, 80U) << outcome.output.substr(at, end - at);
    at = end + 1;
  }
}

TEST_F(Megarun, CheckingAndSerializingLogTheSameLosses) {
  const auto losses = [&](const std::string& options) {
    EXPECT_EQ(run("toy.plan --data text.txt --steps 5 --log run.jsonl " + options).code, 0);
    std::string result;
    std::istringstream log(contents(folder_.path("run.jsonl")));
    for (std::string line; std::getline(log, line);) {
      result += line.substr(0, line.find("\"step_time_s\"")) + "\n";
    }
    return result;
  };
  const std::string plain = losses("");
  EXPECT_EQ(plain, losses("--check"));
  EXPECT_EQ(plain, losses("--serialize"));
  EXPECT_EQ(plain, losses("--backend cpu --timeout 5.5"));
}

TEST_F(Megarun, DumpsTheGradientsOfTheFirstStep) {
  ASSERT_EQ(run("toy.plan --data text.txt --steps 2 --dump-gradients new/dir").code, 0);
  const auto stored =
      mega::testing::read_safetensors(folder_.path("new/dir/gradients.safetensors"));
  ASSERT_EQ(stored.size(), 2U);
  EXPECT_EQ(stored.at("head.weight").shape, (std::vector<std::int64_t>{256, 8}));
  EXPECT_TRUE(stored.contains("table.weight"));
}

TEST_F(Megarun, DryRunPrintsEachRanksBytes) {
  const Plan plan = toy_plan(ToyOptions{2, 2});
  const Outcome all = run("toy.plan --dry-run");
  EXPECT_EQ(all.code, 0) << all.output;
  for (int rank = 0; rank < 4; ++rank) {
    const Program& program = plan.programs[static_cast<std::size_t>(program_of(plan, rank))];
    EXPECT_NE(all.output.find(std::to_string(arena_bytes(program).count())), std::string::npos);
  }
  const Outcome one = run("toy.plan --dry-run --rank 3");
  EXPECT_LT(one.output.size(), all.output.size());
  expect("toy.plan --dry-run --rank 4", 2, "there is no rank 4");
  expect("toy.plan --rank 1 --data text.txt", 2, "--dry-run");
}

TEST_F(Megarun, WrongUsageIsExplained) {
  expect("toy.plan", 2, "--data is missing: give a text file, or a folder");
  expect("", 2, "PLAN is required");
  expect("toy.plan --data text.txt --steps 0", 2, "--steps: Value 0 not in range 1 to ");
  expect("toy.plan --data text.txt --timeout 0", 2, "--timeout");
  expect("toy.plan --data text.txt --timeout nan", 2, "nan is no number of seconds");
  expect("toy.plan --data text.txt --backend tpu", 2, "tpu");
  expect("toy.plan --data text.txt --save dir", 2, "--save");  // not built: absent, no stub
  expect("-h", 0, "Example: megarun");
}

TEST_F(Megarun, WrongPlansAreLocatedErrors) {
  folder_.write("empty.plan", "");
  folder_.write("binary.plan", std::string("\x7f"
                                           "ELF\0\0\1\xff",
                                           8));
  folder_.write("broken.plan", "megaplan 1\njob x\nnonsense here\n");
  std::string large;
  large.resize(100'000'000, 'x');
  folder_.write("large.plan", large);
  std::string missing = mega::testing::toy_plan_text({2, 2});
  missing.resize(missing.rfind("run update"));
  folder_.write("cut.plan", missing);
  for (const char* options : {" --data text.txt", " --dry-run"}) {
    for (const char* plan : {"empty", "binary", "broken", "large", "cut", "missing"}) {
      const std::string file = std::string(plan) + ".plan";
      expect(file + options, 2, file + ":");
    }
    expect(std::string(".") + options, 2, "is a directory");
    expect(std::string("broken.plan") + options, 2, "broken.plan:3:");
  }
}

TEST_F(Megarun, OtherPrecisionsAreRefused) {
  Plan plan = toy_plan(ToyOptions{});
  plan.header.precision = "bf16";
  folder_.write("bf16.plan", print_plan(plan));
  expect("bf16.plan --data text.txt", 2, "bf16 plans can be estimated but not run yet");
}

TEST_F(Megarun, WrongDataIsNamed) {
  folder_.write("short.txt", "abc");
  expect("toy.plan --data nothing.txt", 2, "nothing.txt: error: no such file or folder");
  expect("toy.plan --data short.txt", 2, "the text has 3 bytes for training");
  expect("toy.plan --data /dev/null", 2, "/dev/null: error: neither");
  Plan plan = toy_plan(ToyOptions{});
  plan.header.vocab = 'c';
  folder_.write("small.plan", print_plan(plan));
  expect("small.plan --data text.txt", 2, "outside the model's vocabulary of 99");
  expect("toy.plan --data text.txt --log no/where.jsonl", 2, "cannot write the log");
}

TEST_F(Megarun, APlanTooBigForTheHostSaysBothFigures) {
  Plan plan = toy_plan(ToyOptions{});
  plan.programs[0].scratch = Bytes(std::int64_t{1} << 45);
  folder_.write("big.plan", print_plan(plan));
  const Outcome outcome = run("big.plan --data text.txt");
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("the plan needs 32.00 TiB"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("this host has"), std::string::npos) << outcome.output;
  expect("big.plan --dry-run", 0, "does not fit");
}

TEST_F(Megarun, ALossThatExplodesIsAFailureOfTheRun) {
  ToyOptions toy;
  toy.learning_rate = 1e38;
  folder_.write("wild.plan", mega::testing::toy_plan_text(toy));
  expect("wild.plan --data text.txt --log run.jsonl", 4, "step 2: the ");
  EXPECT_NE(contents(folder_.path("run.jsonl"))
                .find("{\"event\":\"stop\",\"steps\":1,\"reason\":\"failed: step 2"),
            std::string::npos);
}

TEST_F(Megarun, ASignalEndsTheRunAfterAStep) {
  for (const char* signal : {"INT", "TERM"}) {
    // The signal comes once the log shows that steps run.
    const Outcome outcome =
        shell("cd " + folder_.path() +
              " && rm -f run.jsonl && (" MEGA_BINARY_DIR
              "/bin/megarun toy.plan --data text.txt --steps 100000000 --log run.jsonl >out.txt & "
              "p=$!; until grep -q step.:3, run.jsonl; do :; done; kill -" +
              signal + " $p; wait $p; echo code=$?)");
    EXPECT_NE(outcome.output.find("code=0"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("stopped by a signal after step "), std::string::npos)
        << outcome.output;
    EXPECT_TRUE(contents(folder_.path("run.jsonl")).ends_with("\"reason\":\"signal\"}\n"));
  }
}

TEST_F(Megarun, AClosedPipeEndsQuietly) {
  const Outcome outcome =
      shell("cd " + folder_.path() +
            " && { " MEGA_BINARY_DIR
            "/bin/megarun toy.plan --data text.txt --steps 100000000; echo code=$? >code; } | "
            "head -n 1 && cat code");
  EXPECT_NE(outcome.output.find("code=0"), std::string::npos) << outcome.output;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 2) << outcome.output;
}

}  // namespace
}  // namespace mega::runtime
