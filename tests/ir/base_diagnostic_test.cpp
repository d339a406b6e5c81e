#include <gtest/gtest.h>

#include "ir/base/diagnostic.h"

namespace mega {
namespace {

Diagnostic at(int line, int column) {
  return {"job.yaml", {line, column}, "bad", {}, {}};
}

TEST(Render, PutsTheCaretUnderTheColumn) {
  EXPECT_EQ(render(at(2, 4), {{"job.yaml", "a\nbcdef\n"}}),
            "job.yaml:2:4: error: bad\n"
            "  2 | bcdef\n"
            "    |    ^\n");
}

TEST(Render, PadsWithTheTabsOfTheLine) {
  EXPECT_EQ(render(at(1, 4), {{"job.yaml", "\ta\tb"}}),
            "job.yaml:1:4: error: bad\n"
            "  1 | \ta\tb\n"
            "    | \t \t^\n");
}

TEST(Render, CountsCharactersNotBytes) {
  // "größe: " is 9 bytes and 7 characters.
  EXPECT_EQ(render(at(1, 10), {{"job.yaml", "größe: 3"}}),
            "job.yaml:1:10: error: bad\n"
            "  1 | größe: 3\n"
            "    |        ^\n");
}

TEST(Render, ColumnZeroIsTheWholeLineAndLineZeroTheWholeFile) {
  EXPECT_EQ(render(at(1, 0), {{"job.yaml", "abc"}}), "job.yaml:1: error: bad\n  1 | abc\n");
  EXPECT_EQ(render(at(0, 0), {{"job.yaml", "abc"}}), "job.yaml: error: bad\n");
  EXPECT_EQ(render(at(1, 1), {}), "job.yaml:1:1: error: bad\n");
}

TEST(Render, SurvivesPlacesOutsideTheFile) {
  EXPECT_EQ(render(at(9, 3), {{"job.yaml", "abc"}}), "job.yaml:9:3: error: bad\n  9 | \n    | ^\n");
  EXPECT_EQ(render(at(1, 99), {{"job.yaml", "abc\r\n"}}),
            "job.yaml:1:99: error: bad\n  1 | abc\n    |    ^\n");
}

TEST(Render, ShowsNothingThatATerminalWouldObey) {
  EXPECT_EQ(render(at(1, 3), {{"job.yaml",
                               "a\x1B"
                               "b\xFF"}}),
            "job.yaml:1:3: error: bad\n  1 | a?b?\n    |   ^\n");
}

TEST(Render, CutsLongLinesAroundTheCaret) {
  const std::string line = std::string(500, 'a') + "X" + std::string(500, 'b');
  const std::string text = render(at(1, 501), {{"job.yaml", line}});
  EXPECT_EQ(text, "job.yaml:1:501: error: bad\n  1 | ..." + std::string(80, 'a') + "X" +
                      std::string(79, 'b') + "...\n    |    " + std::string(80, ' ') + "^\n");
  // Near an end, the window stays inside the line.
  EXPECT_NE(render(at(1, 1), {{"job.yaml", line}}).find("  1 | " + std::string(160, 'a') + "...\n"),
            std::string::npos);
  EXPECT_NE(render(at(1, 1001), {{"job.yaml", line}}).find("..." + std::string(160, 'b') + "\n"),
            std::string::npos);
}

TEST(Render, NotesPointIntoTheirOwnFiles) {
  Diagnostic error = at(1, 1);
  error.notes.push_back({"gpu.yaml", {1, 2}, "given here"});
  error.help = "use pp: 1";
  EXPECT_EQ(render(Errors{error}, {{"job.yaml", "abc"}, {"gpu.yaml", "xyz"}}),
            "job.yaml:1:1: error: bad\n"
            "  1 | abc\n"
            "    | ^\n"
            "gpu.yaml:1:2: note: given here\n"
            "  1 | xyz\n"
            "    |  ^\n"
            "help: use pp: 1\n");
}

}  // namespace
}  // namespace mega
