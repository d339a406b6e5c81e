// megarun: trains from a plan, in this process, and prints the loss.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "tools/help_format.h"
#include "tools/megarun_run.h"

namespace {

using mega::run::Options;

constexpr const char* kAbout =
    "Runs a plan that megaplan wrote: all of its ranks as threads of this process, training "
    "on a text whose bytes are the tokens.\n\n"
    "Example: megarun job.plan --data book.txt --steps 300 --log run.jsonl\n"
    "         megarun job.plan --dry-run";

constexpr const char* kDataHelp =
    "a text file, or a folder whose text files are read in sorted order; bytes are the tokens; "
    "repeatable; the last tenth is held out";

constexpr std::int64_t kMostSteps = 1'000'000'000'000;

void add_options(CLI::App& app, Options& options) {
  app.add_option("PLAN", options.plan, "the plan to run")->required();
  app.add_option("--data", options.data, kDataHelp)->allow_extra_args(false)->type_name("PATH");
  app.add_option("--steps", options.steps,
                 "optimizer steps (default: the schedule's decay_steps, else 100)")
      ->check(CLI::Range(std::int64_t{1}, kMostSteps))
      ->type_name("N");
  app.add_option("--backend", options.backend, "auto or cpu (default: auto, which is the cpu)")
      ->check(CLI::IsMember({"auto", "cpu"}))
      ->type_name("NAME");
  app.add_option("--log", options.log, "write one JSON line a step")->type_name("FILE.jsonl");
  app.add_option("--dump-gradients", options.dump_gradients,
                 "write DIR/gradients.safetensors: each gradient of the first step, whole")
      ->type_name("DIR");
  app.add_option("--timeout", options.timeout_s,
                 "longest wait of one communication in seconds (default: 600)")
      ->check(CLI::Range(0.001, 1e9))
      ->check([](const std::string& text) {  // of no order: the range lets it pass
        return text.find_first_of("nN") == std::string::npos ? ""
                                                             : text + " is no number of seconds";
      })
      ->type_name("SECONDS");
  app.add_flag("--check", options.check,
               "poison freed memory, guard arenas, inject delays, compare replicas each step");
  app.add_flag("--serialize", options.serialize, "run one operation at a time, for debugging");
  auto* dry = app.add_flag("--dry-run", options.dry_run,
                           "parse, verify, sum and print each rank's bytes, then stop");
  app.add_option("--rank", options.rank, "print only this rank")
      ->check(CLI::NonNegativeNumber)
      ->needs(dry)
      ->type_name("N");
  app.set_version_flag("--version", MEGA_VERSION);
}

// A failed check has printed its message and aborts: that is our bug, not the user's.
void on_abort(int /*signal*/) {
  _exit(mega::run::kOurBug);
}

void on_closed_pipe(int /*signal*/) {
  _exit(mega::run::kDone);
}

void on_stop(int signal) {
  mega::run::request_stop();
  std::signal(signal, SIG_DFL);  // a second one ends the process at once
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, on_abort);
  std::signal(SIGPIPE, on_closed_pipe);
  std::signal(SIGINT, on_stop);
  std::signal(SIGTERM, on_stop);

  CLI::App app(kAbout, "megarun");
  app.formatter(std::make_shared<mega::tool::HelpFormat>());
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? mega::run::kDone : mega::run::kWrongInput;
  }
  if (options.dry_run) return mega::run::dry_run(options);
  if (options.data.empty()) {
    std::cerr << "megarun: --data is missing: give " << kDataHelp << "\n";
    return mega::run::kWrongInput;
  }
  return mega::run::train(options);
}
