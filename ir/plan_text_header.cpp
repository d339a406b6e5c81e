#include <algorithm>
#include <array>
#include <limits>

#include "ir/base/text.h"
#include "ir/plan_text_parser.h"

namespace mega {
namespace {

constexpr std::int64_t kAnything = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxThreads = 4096;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;  // of a batch or a sequence
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 31;
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;
constexpr std::array kSchedules = {"constant", "linear", "cosine", "inverse_sqrt"};

}  // namespace

bool PlanParser::header_statement(TextCursor& line, std::string_view keyword) {
  if (keyword == "entry") return entry(line);
  const bool is_text = keyword == "job" || keyword == "fingerprint" || keyword == "precision";
  const bool is_real = keyword == "weight_decay" || keyword == "model_flops_per_step" ||
                       keyword == "peak_flops_per_rank";
  const bool is_number = keyword == "seed" || keyword == "global_batch" ||
                         keyword == "sequence_length" || keyword == "vocab" ||
                         keyword == "threads_per_rank" || keyword == "predicted_step_ns";
  const bool is_schedule = keyword == "learning_rate";
  if (!is_text && !is_real && !is_number && !is_schedule) return unknown_statement(line, keyword);
  if (!header_keys_.add(keyword)) return line.fail_last("a second line " + quote(keyword));
  if (is_schedule) return learning_rate(line);
  if (is_real) return header_real(line, keyword);
  if (is_number) return header_number(line, keyword);
  Header& header = plan_.header;
  std::string& target = keyword == "job"           ? header.job
                        : keyword == "fingerprint" ? header.fingerprint
                                                   : header.precision;
  return store(target, line.name("a name"));
}

bool PlanParser::header_number(TextCursor& line, std::string_view keyword) {
  Header& header = plan_.header;
  if (keyword == "seed") return store(header.seed, line.integer("the seed", -kAnything, kAnything));
  if (keyword == "threads_per_rank") {
    return store(header.threads_per_rank, line.integer("the thread count", 1, kMaxThreads));
  }
  std::int64_t& target = keyword == "global_batch"      ? header.global_batch
                         : keyword == "sequence_length" ? header.sequence_length
                         : keyword == "vocab"           ? header.vocab
                                                        : header.predicted_step_ns;
  const std::int64_t most = keyword == "predicted_step_ns" ? kAnything
                            : keyword == "vocab"           ? kMaxVocab
                                                           : kMaxSize;
  return store(target, line.integer("a count", 0, most));
}

bool PlanParser::header_real(TextCursor& line, std::string_view keyword) {
  Header& header = plan_.header;
  double& target = keyword == "weight_decay"           ? header.weight_decay
                   : keyword == "model_flops_per_step" ? header.model_flops_per_step
                                                       : header.peak_flops_per_rank;
  return store(target, line.real("a number"));
}

bool PlanParser::learning_rate(TextCursor& line) {
  LearningRateSchedule& schedule = plan_.header.schedule;
  const auto kind = line.word("a kind of schedule");
  if (!kind) return false;
  const std::vector<std::string> known(kSchedules.begin(), kSchedules.end());
  if (std::find(known.begin(), known.end(), *kind) == known.end()) {
    return line.fail_last("unknown schedule " + quote(*kind), "use " + any_of(known));
  }
  schedule.kind = *kind;
  while (!line.at_end()) {
    bool good = false;
    if (line.accept_key("peak")) {
      good = store(schedule.learning_rate, line.real("a rate"));
    } else if (line.accept_key("least")) {
      good = store(schedule.min_learning_rate, line.real("a rate"));
    } else if (line.accept_key("warmup")) {
      good = store(schedule.warmup_steps, line.integer("a number of steps", 0, kMaxSteps));
    } else if (line.accept_key("decay")) {
      good = store(schedule.decay_steps, line.integer("a number of steps", 0, kMaxSteps));
    } else {
      return line.fail_next("unknown part of a schedule", "use peak=, least=, warmup= or decay=");
    }
    if (!good) return false;
  }
  return true;
}

bool PlanParser::entry(TextCursor& line) {
  HeaderEntry entry;
  entry.key = declare(line, entries_, "entry");
  if (line.error() || !store(entry.value, line.name("a value"))) return false;
  plan_.header.entries.push_back(std::move(entry));
  return true;
}

}  // namespace mega
