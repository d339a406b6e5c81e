// fuzz_layouts: trains random jobs under random layouts and on one rank until the time is up, and
// prints the simplest job whose layout computes something else. tools/dev/fuzz-layouts builds it.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <iostream>

#include "tests/equality/random_layouts.h"

namespace mega::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  double minutes = 1;
  std::uint64_t seed = 1;
  int count = 0;  // 0: until the time is up
  int deadline_s = 120;
};

// In a process of its own: a crash or a hang is a verdict too.
Verdict check_apart(const LayoutCheck& checker, const Settings& settings, int deadline_s) {
  int ends[2] = {};
  if (::pipe(ends) != 0) return {Verdict::Kind::Different, "no pipe"};
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    const Verdict verdict = checker.check(settings, true);
    const std::string text = std::to_string(static_cast<int>(verdict.kind)) + verdict.why;
    const bool written = ::write(ends[1], text.data(), text.size()) >= 0;
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(deadline_s);
  bool is_late = false;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd wait{ends[0], POLLIN, 0};
    is_late = left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) == 0;
    if (is_late) break;
    char bytes[4096];
    const ssize_t got = ::read(ends[0], bytes, sizeof bytes);
    if (got <= 0) break;
    text.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  if (is_late) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (is_late) return {Verdict::Kind::Different, "hangs\n"};
  if (text.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return {Verdict::Kind::Different, "crashes\n"};
  return {static_cast<Verdict::Kind>(text[0] - '0'), text.substr(1)};
}

// What was tried, by what it has.
class Tally {
 public:
  void add(const Settings& settings) {
    ++jobs_;
    const auto over = [&](const char* key, int least) {
      const auto it = settings.find(key);
      return it != settings.end() && std::stoi(it->second) >= least;
    };
    const auto has = [&](const char* key) { return settings.contains(key); };
    for (const char* degree : {"tp", "cp", "pp", "vpp", "dp", "ep", "etp"})
      count(degree, over((std::string("layout.") + degree).c_str(), 2));
    count("pp>=3", over("layout.pp", 3));
    for (const char* zero : {"1", "2", "3"})
      count(std::string("zero") + zero, settings.at("layout.zero") == zero);
    count("recompute", has("layout.recompute"));
    count("experts", has("model.moe.experts"));
    count("rank_order", has("layout.rank_order"));
    count("stages", has("layout.stages"));
    ++counts_[settings.at("model.family")];
  }
  void print() const {
    std::cout << jobs_ << " jobs:";
    for (const auto& [name, count] : counts_) std::cout << " " << name << " " << count;
    std::cout << "\n";
  }

 private:
  void count(const std::string& name, bool has) { counts_[name] += has ? 1 : 0; }
  int jobs_ = 0;
  std::map<std::string, int> counts_;
};

int fuzz(const Options& options, const std::filesystem::path& folder) {
  const LayoutCheck checker(folder);
  RandomJob random(options.seed);
  Tally tally;
  const auto end = Clock::now() + std::chrono::duration<double>(options.minutes * 60);
  int found = 0;
  for (; options.count > 0 ? found < options.count : Clock::now() < end;) {
    const Settings settings = random.draw();
    if (!checker.is_legal(settings)) continue;
    ++found;
    tally.add(settings);
    const Verdict verdict = check_apart(checker, settings, options.deadline_s);
    if (verdict.kind == Verdict::Kind::Equal) continue;
    std::cerr << "job " << found << " differs, looking for a simpler one\n";
    std::string why = verdict.why;
    const Settings small = shrink(settings, [&](const Settings& simpler) {
      const Verdict one = check_apart(checker, simpler, options.deadline_s);
      if (one.kind == Verdict::Kind::Different) why = one.why;
      return one.kind == Verdict::Kind::Different;
    });
    std::cout << "# " << found << " jobs from seed " << options.seed << "; this one computes"
              << " something else than on one rank:\n";
    std::istringstream lines(why);
    for (std::string line; std::getline(lines, line);) std::cout << "#   " << line << "\n";
    std::cout << job_text(small);
    tally.print();
    return 1;
  }
  tally.print();
  std::cout << found << " passed, 0 failed\n";
  return 0;
}

}  // namespace
}  // namespace mega::testing

int main(int argc, char** argv) {
  mega::testing::Options options;
  CLI::App app("Trains random jobs under random layouts and on one rank.", "fuzz-layouts");
  app.add_option("--minutes", options.minutes, "how long (default: 1)")->check(CLI::PositiveNumber);
  app.add_option("--count", options.count, "this many jobs instead")->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "of the jobs (default: 1)");
  app.add_option("--deadline", options.deadline_s, "seconds for one job (default: 120)");
  CLI11_PARSE(app, argc, argv);
  const auto folder =
      std::filesystem::temp_directory_path() / ("fuzz_layouts_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const int code = mega::testing::fuzz(options, folder);
  std::error_code gone;
  std::filesystem::remove_all(folder, gone);
  return code;
}
