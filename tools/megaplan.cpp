// megaplan: chooses how a model is laid over GPUs, says what that costs, writes the plan.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string_view>
#include <system_error>

#include "planner/output/json.h"
#include "tools/help_format.h"
#include "tools/megaplan_commands.h"
#include "tools/megaplan_files.h"
#include "tools/megaplan_input.h"

namespace {

using mega::tool::Options;
using Command = int (*)(const Options&);

constexpr const char* kAbout =
    "Chooses how a transformer is laid over GPUs, predicts time and memory, and writes the plan "
    "that megarun executes.";
constexpr const char* kExitCodes =
    "Exit codes: 0 done, 2 wrong input or usage, 3 no feasible plan, 70 a bug of megaplan.";

constexpr const char* kJobHelp = "job file (YAML); - is standard input";
constexpr const char* kSetHelp =
    "set a key of the job file, such as layout.tp=8 or cluster.nodes=16; repeatable";

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& about,
                      const std::string& example) {
  CLI::App* command = app.add_subcommand(name, about);
  command->footer("Example: " + example);
  return command;
}

void add_job(CLI::App* command, Options& options, const char* what, const char* help) {
  command->add_option(what, options.input, help)->required()->type_name("");
  command->add_option("--set", options.sets, kSetHelp)
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

void add_format(CLI::App* command, Options& options) {
  command
      ->add_option_function<std::string>(
          "--format", [&options](const std::string& format) { options.json = format == "json"; },
          "table (default) or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->type_name("FORMAT");
}

void add_search(CLI::App& app, Options& options) {
  CLI::App* command = add_command(
      app, "search",
      "Finds the best legal layout of a job, with proof. Fields that the job gives are fixed, "
      "the others searched. Exit code 3: none is feasible, with the reason.",
      "megaplan search specs/jobs/gpt3-175b-a100.yaml --set cluster.nodes=16 -o job.plan");
  add_job(command, options, "JOB", kJobHelp);
  command->add_option("--top", options.top, "number of layouts to print (default: 5)")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  command
      ->add_option("--budget", options.budget,
                   "stop after so many evaluations and print the gap left (default: no limit)")
      ->check(CLI::PositiveNumber)
      ->type_name("EVALUATIONS");
  command->add_option("--stats", options.stats, "write counts and wall time in seconds as JSON")
      ->type_name("FILE");
  command->add_option("-o", options.output, "write the plan of the best layout")->type_name("PLAN");
  add_format(command, options);
}

void add_estimate(CLI::App& app, Options& options) {
  CLI::App* command = add_command(
      app, "estimate",
      "Time and memory of one layout, without running it. Absent fields have their defaults, "
      "micro_batch must be given. A plan is read alone. Without a cluster: memory only.",
      "megaplan estimate job.yaml --set layout.tp=8 --set layout.micro_batch=1 --format json");
  add_job(command, options, "JOB|PLAN", "job file (YAML; - is standard input) or plan");
  add_format(command, options);
}

void add_compile(CLI::App& app, Options& options) {
  CLI::App* command = add_command(
      app, "compile",
      "Writes the plan of the one layout that the job describes, without a search. Exit code 3: "
      "it doesn't fit.",
      "megaplan compile job.yaml --set layout.tp=2 --set layout.micro_batch=4 -o job.plan");
  add_job(command, options, "JOB", kJobHelp);
  command->add_option("-o", options.output, "the plan to write")->required()->type_name("PLAN");
}

void add_verify(CLI::App& app, Options& options) {
  CLI::App* command = add_command(
      app, "verify", "Proves that a plan runs to its end: shapes, memory, order, communication.",
      "megaplan verify job.plan");
  command->add_option("PLAN", options.input, "the plan")->required()->type_name("");
}

void add_show(CLI::App& app, Options& options) {
  CLI::App* command =
      add_command(app, "show", "Prints what a stage of the compiler made of a job, or a plan.",
                  "megaplan show job.yaml --set layout.micro_batch=4 --stage schedule --rank 1");
  add_job(command, options, "JOB|PLAN", "job file (YAML; - is standard input) or plan");
  command
      ->add_option("--stage", options.stage,
                   "model, partition, schedule or plan (default: model of a job, plan of a plan)")
      ->check(CLI::IsMember({"model", "partition", "schedule", "plan"}))
      ->type_name("STAGE");
  command->add_option("--rank", options.rank, "only what concerns this rank, counted from 0")
      ->check(CLI::Range(0, 1 << 30))
      ->type_name("N");
}

void add_explain(CLI::App& app, Options& options) {
  CLI::App* command = add_command(
      app, "explain",
      "Says which rules a layout meets or breaks and where its time and memory go; two layouts "
      "side by side. Free fields are searched. Exit code 0 also when a rule is broken.",
      "megaplan explain job.yaml --layout tp=8,pp=4 --against tp=4,pp=8");
  add_job(command, options, "JOB", kJobHelp);
  command->add_option("--layout", options.layout, "fields to fix over the job's layout")
      ->type_name("KEY=VALUE,...");
  command->add_option("--against", options.against, "a second layout to compare with")
      ->type_name("KEY=VALUE,...");
  add_format(command, options);
}

void add_list(CLI::App& app, Options& options) {
  CLI::App* command =
      add_command(app, "list", "Names what comes with megaplan, for the keys of a job file.",
                  "megaplan list models");
  command->add_option("KIND", options.input, "models, clusters, gpus or jobs")
      ->required()
      ->check(CLI::IsMember({"models", "clusters", "gpus", "jobs"}))
      ->type_name("");
}

void add_import(CLI::App& app, Options& options) {
  CLI::App* command = add_command(
      app, "import",
      "Makes a model spec of another program's configuration. What it says about the model and "
      "we don't understand is listed on standard error.",
      "megaplan import hf config.json -o model.yaml");
  command->add_option("FORMAT", options.format, "hf: config.json of a Hugging Face model")
      ->required()
      ->check(CLI::IsMember({"hf"}))
      ->type_name("");
  command->add_option("FILE", options.input, "the configuration; - is standard input")
      ->required()
      ->type_name("");
  command->add_option("-o", options.output, "the model spec to write (default: standard output)")
      ->type_name("FILE");
}

// A failed check has printed its message and aborts: that is our bug, not the user's.
void on_abort(int /*signal*/) {
  _exit(mega::tool::kOurBug);
}

void on_interrupt(int signal) {
  mega::tool::request_stop();
  std::signal(signal, SIG_DFL);  // a second one ends the process at once
}

// Whether the user asked for JSON, also when the rest of the line is wrong.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--format=json") return true;
    if (argument == "--format" && i + 1 < argc && std::string_view(argv[i + 1]) == "json")
      return true;
  }
  return false;
}

int usage(const CLI::App& app, const CLI::ParseError& error, bool wants_json) {
  if (error.get_exit_code() == 0) {
    app.exit(error);
    return mega::tool::kDone;
  }
  if (wants_json) {
    Options options;
    options.json = true;
    return mega::tool::refuse(options, {mega::tool::usage_error(error.what(), "see megaplan -h")},
                              {});
  }
  app.exit(error);
  return mega::tool::kWrongInput;
}

int run(const CLI::App& app, const Options& options) {
  constexpr std::pair<const char*, Command> kCommands[] = {
      {"search", mega::tool::search},   {"estimate", mega::tool::estimate},
      {"compile", mega::tool::compile}, {"verify", mega::tool::verify},
      {"show", mega::tool::show},       {"explain", mega::tool::explain},
      {"list", mega::tool::list},       {"import", mega::tool::import}};
  const mega::Status outputs = mega::tool::no_overwriting(options);
  if (!outputs.ok()) return mega::tool::refuse(options, outputs.errors(), {});
  for (const auto& [name, command] : kCommands)
    if (app.got_subcommand(name)) return command(options);
  return mega::tool::kWrongInput;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, on_abort);
  std::signal(SIGPIPE, SIG_IGN);  // a write says so, and the program ends quietly

  Options options;
  std::error_code unknown;
  options.program = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  if (unknown) options.program = argv[0];

  CLI::App app(kAbout, "megaplan");
  app.formatter(std::make_shared<mega::tool::HelpFormat>());
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.set_version_flag("--version", MEGA_VERSION);
  add_search(app, options);
  add_estimate(app, options);
  add_compile(app, options);
  add_verify(app, options);
  add_show(app, options);
  add_explain(app, options);
  add_list(app, options);
  add_import(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return usage(app, error, asks_for_json(argc, argv));
  }
  if (app.got_subcommand("search")) std::signal(SIGINT, on_interrupt);
  return run(app, options);
}
