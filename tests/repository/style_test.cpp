// What clang-format and the compiler don't say about the sources.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/repository/source_tree.h"

namespace {

using mega::repository::SourceFile;

const std::vector<std::string> kFolders = {"ir", "planner", "kernels", "runtime", "tools", "tests"};

// Characters, not bytes: comments draw with box characters.
std::size_t columns_of(const std::string& line) {
  std::size_t columns = 0;
  for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return columns;
}

TEST(Style, NoLineIsOver100Columns) {
  for (const SourceFile& file : mega::repository::sources_in(kFolders)) {
    int number = 0;
    for (const std::string& line : mega::repository::lines_of(file.text)) {
      ++number;
      EXPECT_LE(columns_of(line), 100U) << file.path << ":" << number;
    }
  }
  EXPECT_EQ(columns_of("a──b"), 4U);
}

TEST(Style, HeadersGuardThemselvesAndStartWithWhatTheyAreFor) {
  for (const SourceFile& file : mega::repository::sources_in(kFolders)) {
    if (!file.path.ends_with(".h")) continue;
    EXPECT_NE(file.text.find("#pragma once\n"), std::string::npos) << file.path;
    EXPECT_TRUE(file.text.starts_with("// ")) << file.path;
  }
}

// Text that ties the project to one machine, or hides a finding from clang-tidy without a reason.
TEST(Style, NoMachinePathsAndNoBareSuppressions) {
  for (const SourceFile& file : mega::repository::sources_in(kFolders)) {
    if (file.path == "tests/repository/style_test.cpp") continue;
    for (const char* word : {"/work/", "/root/", "/home/", "NOLINT\n", "NOLINTNEXTLINE\n"})
      EXPECT_EQ(file.text.find(word), std::string::npos) << file.path << " says " << word;
  }
}

}  // namespace
