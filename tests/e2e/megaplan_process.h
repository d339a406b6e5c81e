// Runs the real megaplan, as a user would, and keeps what it printed.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace mega::e2e {

struct Outcome {
  int code = -1;  // exit code; 128 + signal
  std::string out, err;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A folder of its own for each test, removed at its end.
class Megaplan : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::temp_directory_path() /
             (std::string("megaplan_") + test->name() + "_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override {
    std::error_code gone;
    std::filesystem::remove_all(folder, gone);
  }

  // A line of the shell, in the test's folder; $megaplan is the program.
  Outcome shell(const std::string& line) const {
    const std::string out = path("stdout"), err = path("stderr");
    const std::string command = "cd '" + folder.string() + "' && megaplan='" + program_ +
                                "' && specs='" + specs_ + "' && { " + line + "\n} >'" + out +
                                "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    Outcome run;
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    run.out = read_text(out);
    run.err = read_text(err);
    std::filesystem::remove(out);
    std::filesystem::remove(err);
    return run;
  }
  Outcome megaplan(const std::string& arguments) const {
    return shell("\"$megaplan\" " + arguments);
  }

  std::string path(const std::string& name) const { return (folder / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    write_text(folder / name, text);
  }

  std::filesystem::path folder;

 private:
  const std::string program_ = std::string(MEGA_BINARY_DIR) + "/bin/megaplan";
  const std::string specs_ = std::string(MEGA_SOURCE_DIR) + "/specs";
};

// A job that plans in no time: two layers, up to eight CPU ranks.
inline std::string tiny_job(const std::string& rest = "") {
  return "model: {family: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 64, max_position: 16}\n"
         "cluster: {use: cpu-2, gpus_per_node: 4}\n"
         "training: {sequence_length: 16, global_batch: 8, precision: fp32}\n" +
         rest;
}

}  // namespace mega::e2e
