#include "tools/megarun_run.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>

#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "ir/plan_verify.h"
#include "runtime/batches.h"
#include "runtime/corpus.h"
#include "runtime/host_memory.h"
#include "runtime/metrics.h"
#include "runtime/safetensors.h"
#include "runtime/session.h"

namespace mega::run {
namespace {

constexpr std::int64_t kDefaultSteps = 100;

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

int complain(Errors errors, const std::string& where, int code, const Sources& sources = {}) {
  for (Diagnostic& error : errors) {
    if (error.file.empty()) error.file = where;
  }
  std::cerr << render(errors, sources);
  return code;
}

// The log of a run, if one is wanted.
class Log {
 public:
  Status open(const std::string& path) {
    path_ = path;
    if (!path.empty()) file_.open(path, std::ios::trunc);
    return state();
  }
  Status write(const std::string& line) {
    if (file_.is_open()) file_ << line << '\n' << std::flush;
    return state();
  }

 private:
  Status state() const {
    if (path_.empty() || (file_.is_open() && file_.good())) return Ok{};
    return Diagnostic{path_, {}, "cannot write the log", {}, {}};
  }
  std::string path_;
  std::ofstream file_;
};

// Everything that can be wrong before the first step.
struct Prepared {
  std::unique_ptr<runtime::Corpus> corpus;  // batches point into it
  std::optional<runtime::Batches> batches;
  std::unique_ptr<runtime::Session> session;
};

Result<Plan> read_plan(const Options& options, Sources& sources) {
  MEGA_TRY(std::string text, read_file(options.plan, Bytes(kMaxPlanBytes)));
  Result<Plan> plan = parse_plan(options.plan, text);
  if (!plan.ok()) sources[options.plan] = std::move(text);
  return plan;
}

Result<Prepared> prepare(const Options& options, Plan plan) {
  const Header header = plan.header;
  const Bytes available = runtime::available_memory().value_or(Bytes(kMaxArenaBytes));
  const Bytes arenas = runtime::arena_bytes_of_world(plan);
  runtime::SessionOptions session;
  session.name = options.plan;
  session.deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options.timeout_s));
  session.check = options.check;
  session.serialize = options.serialize;
  session.delay_seed = options.check ? static_cast<std::uint64_t>(header.seed) | 1 : 0;
  session.memory_limit = available;
  Prepared prepared;
  MEGA_TRY(prepared.session, runtime::Session::open(std::move(plan), std::move(session)));
  MEGA_TRY(runtime::Corpus corpus, runtime::read_corpus(options.data, available - arenas));
  prepared.corpus = std::make_unique<runtime::Corpus>(std::move(corpus));
  MEGA_TRY_STATUS(runtime::check_tokens(*prepared.corpus, header.vocab));
  MEGA_TRY(prepared.batches, runtime::Batches::over(*prepared.corpus, header.sequence_length,
                                                    header.global_batch, header.seed));
  return prepared;
}

void print_start(const runtime::Session& session, const runtime::RunFacts& facts,
                 const runtime::Corpus& corpus, std::int64_t steps) {
  const Header& header = session.plan().header;
  std::cout << "job " << quote(header.job) << ": " << facts.world
            << (facts.world == 1 ? " rank" : " ranks") << " as threads on the " << facts.backend
            << ", at most " << to_string(facts.peak_bytes) << " a rank\n"
            << "text: " << corpus.files.size()
            << (corpus.files.size() == 1 ? " file, " : " files, ")
            << to_string(Bytes(corpus.training_bytes())) << " for training; " << steps
            << " steps of " << facts.tokens_per_step << " tokens\n"
            << runtime::table_header() << std::endl;
}

Status dump_gradients(const runtime::Session& session, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Diagnostic{folder, {}, "cannot be created: " + error.message(), {}, {}};
  MEGA_TRY(const std::vector<runtime::GlobalTensor> gradients, session.gather(Role::Gradient));
  return runtime::write_safetensors(folder + "/gradients.safetensors", gradients);
}

// Trains until the last step, a signal or a failure; returns the steps done.
Result<std::int64_t> run_steps(const Options& options, std::int64_t steps, Prepared& prepared,
                               const runtime::RunFacts& facts, Log& log) {
  runtime::Session& session = *prepared.session;
  MEGA_TRY_STATUS(session.start());
  for (std::int64_t step = 1; step <= steps; ++step) {
    MEGA_TRY(const runtime::StepResult result, session.train(prepared.batches->of_step(step)));
    MEGA_TRY_STATUS(log.write(runtime::step_line(facts, result)));
    const bool is_last = stop_requested || step == steps;
    if (is_last || runtime::is_shown(step, steps)) {
      std::cout << runtime::table_row(facts, result) << std::endl;
    }
    if (step == 1 && !options.dump_gradients.empty()) {
      MEGA_TRY_STATUS(dump_gradients(session, options.dump_gradients));
    }
    if (stop_requested) return step;
  }
  return steps;
}

// Ranks may still be inside an operation that cannot be interrupted: leave without joining them.
[[noreturn]] void leave(int code) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

void request_stop() {
  stop_requested = true;
}

int dry_run(const Options& options) {
  Sources sources;
  const Result<Plan> read = read_plan(options, sources);
  if (!read.ok()) return complain(read.errors(), options.plan, kWrongInput, sources);
  const Plan& plan = read.value();
  const Errors errors = verify(plan, options.plan);
  if (!errors.empty()) return complain(errors, options.plan, kWrongInput);
  if (options.rank >= world_size(plan)) {
    return complain({Diagnostic{options.plan,
                                {},
                                "there is no rank " + std::to_string(options.rank),
                                {},
                                "the plan has ranks 0 to " + std::to_string(world_size(plan) - 1)}},
                    options.plan, kWrongInput);
  }
  std::printf("%6s  %-14s %15s %13s %15s %15s\n", "rank", "program", "persistent", "scratch",
              "slots", "bytes in all");
  for (int rank = 0; rank < world_size(plan); ++rank) {
    if (options.rank >= 0 && rank != options.rank) continue;
    const Program& program = plan.programs[static_cast<std::size_t>(program_of(plan, rank))];
    const Bytes all = arena_bytes(program);
    const Bytes slots = all - program.persistent - program.scratch;
    std::printf("%6d  %-14.14s %15lld %13lld %15lld %15lld\n", rank, quote(program.name).c_str(),
                static_cast<long long>(program.persistent.count()),
                static_cast<long long>(program.scratch.count()),
                static_cast<long long>(slots.count()), static_cast<long long>(all.count()));
  }
  const Bytes sum = runtime::arena_bytes_of_world(plan);
  std::printf("the plan is verified; %d ranks need %s", world_size(plan), to_string(sum).c_str());
  if (const std::optional<Bytes> available = runtime::available_memory()) {
    std::printf(", this host has %s available: %s", to_string(*available).c_str(),
                sum <= *available ? "fits" : "does not fit");
  }
  std::printf("\n");
  return kDone;
}

int train(const Options& options) {
  Sources sources;
  Result<Plan> plan = read_plan(options, sources);
  if (!plan.ok()) return complain(plan.errors(), options.plan, kWrongInput, sources);
  Log log;
  if (const Status opened = log.open(options.log); !opened.ok()) {
    return complain(opened.errors(), options.log, kWrongInput);
  }
  Result<Prepared> result = prepare(options, std::move(plan).value());
  if (!result.ok()) return complain(result.errors(), options.plan, kWrongInput);
  Prepared prepared = std::move(result).value();
  const runtime::Session& session = *prepared.session;
  const Header& header = session.plan().header;
  std::int64_t steps = options.steps;
  if (steps == 0) steps = header.schedule.decay_steps;
  if (steps == 0) steps = kDefaultSteps;

  Bytes peak;
  for (int rank = 0; rank < world_size(session.plan()); ++rank) {
    peak = std::max(peak, session.allocated(rank));
  }
  const runtime::RunFacts facts = runtime::facts_of(session.plan(), options.plan, peak);
  print_start(session, facts, *prepared.corpus, steps);
  if (const Status wrote = log.write(runtime::start_line(facts, header)); !wrote.ok()) {
    return complain(wrote.errors(), options.log, kWorldFailed);
  }
  const Result<std::int64_t> done = run_steps(options, steps, prepared, facts, log);
  if (!done.ok()) {
    (void)log.write(
        runtime::stop_line(session.steps(), "failed: " + done.errors().front().message));
    leave(complain(done.errors(), "megarun", kWorldFailed));
  }
  const bool is_early = done.value() < steps;
  if (is_early) {
    std::cerr << "megarun: stopped by a signal after step " << done.value() << " of " << steps
              << "\n";
  }
  const std::string reason = is_early ? "signal" : "done";
  if (const Status wrote = log.write(runtime::stop_line(done.value(), reason)); !wrote.ok()) {
    return complain(wrote.errors(), options.log, kWorldFailed);
  }
  return kDone;
}

}  // namespace mega::run
