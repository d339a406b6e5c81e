// The printed stages of tiny jobs, word for word. tools/dev/update-goldens rewrites them.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/e2e/megaplan_process.h"

namespace mega::e2e {
namespace {

using Golden = Megaplan;

std::vector<std::filesystem::path> golden_jobs() {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(MEGA_SOURCE_DIR) + "/tests/golden"))
    if (std::filesystem::exists(entry.path() / "job.yaml")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

TEST_F(Golden, PrintedStagesAreAsStored) {
  const auto folders = golden_jobs();
  ASSERT_GE(folders.size(), 2U);
  for (const std::filesystem::path& folder_of_job : folders) {
    const std::string enter = "cd '" + folder_of_job.string() + "' && \"$megaplan\" ";
    for (const std::string stage : {"model", "partition", "schedule", "plan"}) {
      std::string command = enter;
      command.append("show job.yaml --stage ").append(stage);
      const Outcome run = shell(command);
      ASSERT_EQ(run.code, 0) << run.err;
      EXPECT_EQ(run.out, read_text(folder_of_job / (stage + ".txt")))
          << folder_of_job << ": " << stage;
    }
    EXPECT_EQ(shell(enter + "estimate job.yaml").out, read_text(folder_of_job / "estimate.txt"))
        << folder_of_job;
  }
}

}  // namespace
}  // namespace mega::e2e
