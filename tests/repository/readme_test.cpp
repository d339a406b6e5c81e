// Examples in documents are run, and what they point at exists.
//
// A document shows commands in ```sh blocks as lines that start with "$ ". Those of megaplan,
// megarun and megabench run here, in order, in a scratch folder with the tree's specs; "# exits 3"
// at the end says what else than 0 is right. Scripts are looked at only: they build and train.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/repository/source_tree.h"

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = MEGA_SOURCE_DIR;
const fs::path kPrograms = fs::path(MEGA_BINARY_DIR) / "bin";

std::vector<std::string> documents() {
  std::vector<std::string> paths;
  for (const char* folder : {".", "docs", "ir", "planner", "kernels", "runtime", "specs"}) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::directory_iterator(kRoot / folder))
      if (entry.path().extension() == ".md")
        paths.push_back(fs::relative(entry.path(), kRoot).generic_string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct Command {
  std::string text;
  int exit_code = 0;
};

std::vector<Command> commands_of(const std::string& document) {
  static const std::regex kExit(R"(\s+#\s+exits (\d+)\s*$)");
  std::vector<Command> commands;
  bool is_shell = false, continues = false;
  for (const std::string& line : mega::repository::lines_of(document)) {
    if (line.starts_with("```")) {
      is_shell = line == "```sh" && !is_shell;
      continues = false;
    } else if (is_shell && (continues || line.starts_with("$ "))) {
      if (!continues) commands.emplace_back();
      std::string& text = commands.back().text;
      text += continues ? line : line.substr(2);
      continues = text.ends_with("\\");
      if (continues) text.pop_back();
      std::smatch match;
      if (std::regex_search(text, match, kExit)) {
        commands.back().exit_code = std::stoi(match[1]);
        text = match.prefix().str();
      }
    }
  }
  return commands;
}

std::string program_of(const Command& command) {
  return command.text.substr(0, command.text.find(' '));
}

TEST(Documents, EveryFolderTellsWhatItIs) {
  for (const char* folder : {"", "ir/", "planner/", "kernels/", "runtime/", "specs/"})
    EXPECT_TRUE(fs::exists(kRoot / folder / "README.md")) << folder;
}

TEST(Documents, LinksPointAtFiles) {
  static const std::regex kLink(R"(\]\(([^)#:\s]+)(#[^)]*)?\))");
  for (const std::string& path : documents()) {
    const std::string text = mega::repository::read_text(kRoot / path);
    for (std::sregex_iterator i(text.begin(), text.end(), kLink), end; i != end; ++i)
      EXPECT_TRUE(fs::exists(kRoot / fs::path(path).parent_path() / (*i)[1].str()))
          << path << " links " << (*i)[1];
  }
}

TEST(Documents, ScriptsOfExamplesExistAndParse) {
  int scripts = 0;
  for (const std::string& path : documents()) {
    for (const Command& command : commands_of(mega::repository::read_text(kRoot / path))) {
      const std::string program = program_of(command);
      if (program.find('/') == std::string::npos) continue;
      ++scripts;
      const fs::path script = kRoot / program;
      ASSERT_TRUE(fs::exists(script)) << path << " calls " << program;
      EXPECT_NE(fs::status(script).permissions() & fs::perms::owner_exec, fs::perms::none)
          << program;
      if (mega::repository::read_text(script).starts_with("#!/usr/bin/env bash")) {
        EXPECT_EQ(std::system(("bash -n '" + script.string() + "'").c_str()), 0) << program;
      }
    }
  }
  EXPECT_GE(scripts, 2) << "the README shows two commands";
}

TEST(Documents, ExamplesOfThePrograms) {
  for (const char* program : {"megaplan", "megarun", "megabench"})
    if (!fs::exists(kPrograms / program)) GTEST_SKIP() << program << " is not built";
  const fs::path scratch = fs::path(MEGA_BINARY_DIR) / "documents";
  int ran = 0;
  for (const std::string& path : documents()) {
    fs::remove_all(scratch);
    fs::create_directories(scratch / "out");
    fs::create_directory_symlink(kRoot / "specs", scratch / "specs");
    for (const Command& command : commands_of(mega::repository::read_text(kRoot / path))) {
      if (!fs::exists(kPrograms / program_of(command))) continue;
      ++ran;
      const std::string line = "cd '" + scratch.string() + "' && PATH='" + kPrograms.string() +
                               "':\"$PATH\" && " + command.text + " > output.txt 2>&1";
      const int status = std::system(line.c_str());
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == command.exit_code)
          << path << ": " << command.text << "\n"
          << mega::repository::read_text(scratch / "output.txt");
    }
  }
  EXPECT_GE(ran, 3);
}

TEST(Documents, CommandsAreFoundInShellBlocksOnly) {
  const auto commands = commands_of(
      "text\n$ not this\n```sh\n$ megaplan verify \\\n  a.plan  # exits 2\noutput\n$ b c\n```\n$ "
      "d\n");
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_EQ(commands[0].text, "megaplan verify   a.plan");
  EXPECT_EQ(commands[0].exit_code, 2);
  EXPECT_EQ(commands[1].text, "b c");
}

}  // namespace
