// Wrong files of any kind end with a clear error, never a crash; outputs are whole or absent.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/e2e/megaplan_process.h"

namespace mega::e2e {
namespace {

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string alias_bomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    const std::string name = "a" + std::to_string(i);
    text.append(name).append(": &").append(name).append(" [");
    text.append(repeated(before + ", ", 8)).append(before).append("]\n");
  }
  return text + "model: *a19\n";
}

class WrongFiles : public Megaplan {
 protected:
  // Each command that reads a job or a plan refuses `name`.
  void expect_refused(const std::string& name, const std::string& job = "") const {
    const std::string file = job.empty() ? "'" + name + "'" : job;
    for (const char* command : {"search ", "estimate ", "show ", "explain ", "verify "}) {
      const Outcome run = megaplan(command + file);
      EXPECT_EQ(run.code, 2) << command << file << "\n" << run.err.substr(0, 500);
      EXPECT_NE(run.err.find("error: "), std::string::npos) << command << file;
      EXPECT_TRUE(run.out.empty()) << command << file;
    }
    const Outcome as_json = megaplan("estimate " + file + " --format json");
    EXPECT_EQ(as_json.code, 2);
    EXPECT_FALSE(nlohmann::json::parse(as_json.out)["errors"].empty());
  }
};

TEST_F(WrongFiles, Empty) {
  write("empty", "");
  expect_refused("empty");
  EXPECT_EQ(megaplan("estimate empty").err.find("empty: error: the file must be a mapping"), 0U);
}

TEST_F(WrongFiles, Binary) {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>(i * 37 + i / 256);
  write("binary", bytes);
  expect_refused("binary");
  write("binary.plan", "megaplan 1\n" + bytes);
  expect_refused("binary.plan");
}

TEST_F(WrongFiles, AHundredMegabytes) {
  {
    std::ofstream job(path("large.yaml"), std::ios::binary);
    std::ofstream plan(path("large.plan"), std::ios::binary);
    plan << "megaplan 1\n";
    const std::string line = repeated("model: gpt2-124m\n", 6000);  // 102,000 bytes
    for (int i = 0; i < 1000; ++i) job << line;
    for (int i = 0; i < 1000; ++i) plan << line;
  }
  const Outcome job = megaplan("estimate large.yaml");
  EXPECT_EQ(job.code, 2);
  EXPECT_LT(job.err.size(), 100'000U);
  const Outcome plan = megaplan("verify large.plan");
  EXPECT_EQ(plan.code, 2);
  EXPECT_LT(plan.err.size(), 100'000U);
}

TEST_F(WrongFiles, DeepNesting) {
  write("brackets", "model: " + repeated("[", 100'000));
  expect_refused("brackets");
  write("dashes", repeated("- ", 100'000));
  expect_refused("dashes");
  write("questions", repeated("? ", 100'000));
  expect_refused("questions");
}

TEST_F(WrongFiles, AliasBomb) {
  write("bomb", alias_bomb());
  expect_refused("bomb");
}

TEST_F(WrongFiles, MissingOrADirectory) {
  expect_refused("no-such-file");
  std::filesystem::create_directory(folder / "directory");
  expect_refused("directory");
}

TEST_F(WrongFiles, Unreadable) {
  write("secret", tiny_job());
  ASSERT_EQ(::chmod(path("secret").c_str(), 0), 0);
  if (::access(path("secret").c_str(), R_OK) == 0) GTEST_SKIP() << "root reads everything";
  expect_refused("secret");
}

TEST_F(WrongFiles, ASpecThatIsWrong) {
  write("model.yaml", "family: [gpt2\n");
  write("job.yaml", "model: model.yaml\ntraining: {sequence_length: 16, global_batch: 8}\n");
  expect_refused("job.yaml");
}

TEST_F(WrongFiles, APlanCutShort) {
  write("job.yaml", tiny_job("layout: {micro_batch: 2, pp: 2}\n"));
  ASSERT_EQ(megaplan("compile job.yaml -o job.plan").code, 0);
  const std::string text = read_text(path("job.plan"));
  for (const std::size_t tenth : {1U, 5U, 9U}) {
    write("cut.plan", text.substr(0, text.size() * tenth / 10));
    const Outcome run = megaplan("verify cut.plan");
    EXPECT_EQ(run.code, 2) << tenth;
    EXPECT_FALSE(run.err.empty());
  }
}

using OutputFiles = Megaplan;

TEST_F(OutputFiles, AnUnwritablePlanIsAnErrorThatLeavesNothing) {
  write("job.yaml", tiny_job("layout: {micro_batch: 2}\n"));
  for (const char* command : {"compile", "search"}) {
    const Outcome run = megaplan(std::string(command) + " job.yaml -o no/such/folder.plan");
    EXPECT_EQ(run.code, 2) << command;
    EXPECT_NE(run.err.find("no/such/folder.plan"), std::string::npos) << run.err;
  }
  EXPECT_EQ(megaplan("search job.yaml -o . --format json").code, 2);
  EXPECT_EQ(megaplan("search job.yaml --stats no/such/file").code, 2);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    static_cast<void>(entry);
    ++files;
  }
  EXPECT_EQ(files, 1) << "only the job";
}

TEST_F(OutputFiles, AFailedCompileKeepsTheOldPlan) {
  write("job.yaml", tiny_job("layout: {micro_batch: 2}\n"));
  write("job.plan", "old");
  EXPECT_EQ(megaplan("compile job.yaml --set layout.tp=3 -o job.plan").code, 2);
  EXPECT_EQ(read_text(path("job.plan")), "old");
  EXPECT_EQ(megaplan("compile job.yaml -o job.plan").code, 0);
  EXPECT_NE(read_text(path("job.plan")), "old");
}

TEST_F(OutputFiles, NothingReplacesWhatIsRead) {
  const std::string job = tiny_job("layout: {micro_batch: 2}\n");
  write("job.yaml", job);
  for (const char* command : {"compile job.yaml -o job.yaml", "search job.yaml -o ./job.yaml",
                              "search job.yaml --stats job.yaml", "search job.yaml -o a --stats a",
                              "import hf job.yaml -o job.yaml"}) {
    const Outcome run = megaplan(command);
    EXPECT_EQ(run.code, 2) << command;
    EXPECT_NE(run.err.find("help: "), std::string::npos) << command << run.err;
    EXPECT_EQ(read_text(path("job.yaml")), job) << command;
  }
}

TEST_F(OutputFiles, AFullStandardOutputIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Outcome run = shell("\"$megaplan\" list models > /dev/full");
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.err.find("standard output"), std::string::npos) << run.err;
}

TEST_F(OutputFiles, AClosedPipeEndsQuietly) {
  write("job.yaml", tiny_job("layout: {micro_batch: 1, pp: 2}\n"));
  const Outcome run =
      shell("{ \"$megaplan\" show job.yaml --stage plan; echo $? > code; } | head -c 1; cat code");
  EXPECT_EQ(run.out, "m0\n");
  EXPECT_EQ(run.err, "");
}

}  // namespace
}  // namespace mega::e2e
