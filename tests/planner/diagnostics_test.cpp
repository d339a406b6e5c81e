// Every file of tests/diagnostics is a wrong job whose bad lines carry the errors they cause.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "ir/base/text.h"
#include "planner/layout_defaults.h"
#include "planner/spec/read_spec.h"

namespace mega::planner {
namespace {

const std::string kFolder = std::string(MEGA_SOURCE_DIR) + "/tests/diagnostics";

std::multiset<std::string> expected_errors(const std::string& text) {
  constexpr std::string_view kMark = "# error: ";
  std::multiset<std::string> expected;
  const std::vector<std::string> lines = split(text, '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::size_t at = lines[i].find(kMark);
    while (at != std::string::npos) {
      const std::size_t start = at + kMark.size();
      at = lines[i].find(kMark, start);
      std::string message = lines[i].substr(start, at == std::string::npos ? at : at - start);
      while (message.ends_with(' ')) message.pop_back();
      expected.insert(std::to_string(i + 1) + ": " + message);
    }
  }
  return expected;
}

std::multiset<std::string> reported_errors(const std::string& path) {
  const ReadJob read = read_job(path, {}, std::string(MEGA_SOURCE_DIR) + "/specs");
  Errors errors;
  if (!read.job.ok()) {
    errors = read.job.errors();
  } else if (const auto layout = complete_layout(read.job.value()); !layout.ok()) {
    errors = layout.errors();
  }
  std::multiset<std::string> reported;
  for (const Diagnostic& error : errors) {
    EXPECT_EQ(error.file, path);
    EXPECT_NE(render(error, read.sources), "");
    reported.insert(std::to_string(std::max(1, error.where.line)) + ": " + error.message);
  }
  return reported;
}

TEST(Diagnostics, EachBadSpecReportsExactlyTheErrorsOnItsLines) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const std::string path = entry.path().string();
    const auto expected = expected_errors(read_file(path, Bytes(1 << 20)).value());
    EXPECT_FALSE(expected.empty()) << path;
    EXPECT_EQ(reported_errors(path), expected) << path;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace mega::planner
