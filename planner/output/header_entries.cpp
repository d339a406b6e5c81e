#include "planner/output/header_entries.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "ir/base/text.h"

namespace mega::planner {
namespace {

std::string text_of(bool flag) {
  return flag ? "true" : "false";
}

std::string text_of(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (const int number : numbers) parts.push_back(std::to_string(number));
  return join(parts, ",");
}

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

void add_layout(std::vector<HeaderEntry>& entries, const Strategy& s) {
  const auto add = [&](const char* field, std::string value) {
    entries.push_back({std::string("layout.") + field, std::move(value)});
  };
  add("tp", std::to_string(s.tp));
  add("cp", std::to_string(s.cp));
  add("pp", std::to_string(s.pp));
  add("vpp", std::to_string(s.vpp));
  add("dp", std::to_string(s.dp));
  add("ep", std::to_string(s.ep));
  add("etp", std::to_string(s.etp));
  add("micro_batch", std::to_string(s.micro_batch));
  add("schedule", to_string(s.schedule));
  add("sequence_parallel", text_of(s.sequence_parallel));
  add("recompute", to_string(s.recompute));
  add("zero", std::to_string(s.zero));
  add("zero_group", std::to_string(s.zero_group));
  add("context", to_string(s.context));
  add("overlap", or_none(join(names(s.overlap), ",")));
  add("rank_order", s.rank_order);
  add("stages", text_of(s.stages));
}

// Takes values out of the entries; remembers what was missing or unreadable.
class EntryReader {
 public:
  explicit EntryReader(const std::vector<HeaderEntry>& entries) {
    for (const HeaderEntry& entry : entries) values_.emplace(entry.key, entry.value);
  }

  template <class T, class Parse>
  T read(const std::string& key, T otherwise, Parse parse) {
    const auto found = values_.find(key);
    if (found == values_.end()) {
      bad_.push_back(key);
      return otherwise;
    }
    auto value = parse(found->second);
    if (!value) bad_.push_back(key);
    return value ? static_cast<T>(*value) : otherwise;
  }
  std::int64_t integer(const std::string& key) {
    return read<std::int64_t>(key, 0, [](const std::string& text) { return parse_integer(text); });
  }
  int degree(const std::string& key) {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    return static_cast<int>(std::clamp<std::int64_t>(integer(key), 0, kMost));
  }
  bool flag(const std::string& key) { return text(key) == "true"; }
  std::string text(const std::string& key) {
    return read<std::string>(key, "", [](const std::string& t) { return std::optional(t); });
  }

  const std::vector<std::string>& bad() const { return bad_; }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> bad_;
};

std::optional<std::vector<int>> to_numbers(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& part : split(text, ',')) {
    const std::optional<std::int64_t> number = parse_integer(part);
    if (!number || *number < 0 || *number > 1 << 30) return std::nullopt;
    numbers.push_back(static_cast<int>(*number));
  }
  return numbers;
}

std::optional<Overlap> to_overlap(const std::string& text) {
  return text == "none" ? Overlap{} : overlap_named(split(text, ','));
}

Strategy read_layout(EntryReader& reader) {
  Strategy s;
  s.tp = reader.degree("layout.tp");
  s.cp = reader.degree("layout.cp");
  s.pp = reader.degree("layout.pp");
  s.vpp = reader.degree("layout.vpp");
  s.dp = reader.degree("layout.dp");
  s.ep = reader.degree("layout.ep");
  s.etp = reader.degree("layout.etp");
  s.micro_batch = reader.degree("layout.micro_batch");
  s.schedule = reader.read("layout.schedule", s.schedule, schedule_named);
  s.sequence_parallel = reader.flag("layout.sequence_parallel");
  s.recompute = reader.read("layout.recompute", s.recompute, recompute_named);
  s.zero = reader.degree("layout.zero");
  s.zero_group = reader.degree("layout.zero_group");
  s.context = reader.read("layout.context", s.context, context_named);
  s.overlap = reader.read("layout.overlap", s.overlap, to_overlap);
  s.rank_order = reader.text("layout.rank_order");
  s.stages = reader.read("layout.stages", s.stages, to_numbers);
  return s;
}

Evaluation read_evaluation(EntryReader& reader, const Header& header) {
  Evaluation evaluation;
  evaluation.step_ns = header.predicted_step_ns;
  for (const TimeTerm& term : time_terms())
    evaluation.time.*term.ns = reader.integer(std::string("time.") + term.name + "_ns");
  StageMemory fullest;
  fullest.total = Bytes(reader.integer("memory.peak_bytes"));
  evaluation.memory = {fullest};
  evaluation.peak_at = reader.text("memory.peak_at");
  return evaluation;
}

// A plan written by hand may say anything.
std::int64_t product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return b > 0 && a > kMost / b ? kMost : a * b;
}

}  // namespace

std::vector<HeaderEntry> header_entries(const Candidate& candidate) {
  const Estimate estimate = estimate_of(candidate);
  std::vector<HeaderEntry> entries;
  const auto add = [&](const std::string& key, std::string value) {
    entries.push_back({key, std::move(value)});
  };
  const auto add_bytes = [&](const std::string& key, Bytes bytes) {
    add(key, std::to_string(bytes.count()));
  };
  add_layout(entries, candidate.strategy);
  add("world", std::to_string(candidate.world));
  add("micro_batches", std::to_string(candidate.micro_batches));
  add("parameters", std::to_string(candidate.parameters));
  add("parameters_allocated", std::to_string(candidate.parameters_allocated));
  add("hardware_flops_per_step", format_real(candidate.hardware_flops_per_step));
  add("times", text_of(candidate.has_times));
  for (const TimeTerm& term : time_terms()) {
    add(std::string("time.") + term.name + "_ns",
        std::to_string(candidate.evaluation.time.*term.ns));
  }
  add_bytes("memory.peak_bytes", peak(candidate.evaluation));
  add_bytes("memory.capacity_bytes", candidate.capacity);
  add_bytes("memory.margin_bytes", candidate.margin);
  add("memory.fits", text_of(candidate.fits));
  add("memory.peak_at", candidate.evaluation.peak_at);
  add("conventions.flops", estimate.flops);
  add("conventions.bytes_per_parameter", estimate.bytes_per_parameter);
  return entries;
}

Result<Estimate> read_estimate(const std::string& file, const Header& header) {
  EntryReader reader(header.entries);
  Estimate estimate;
  Candidate& candidate = estimate.candidate;
  candidate.strategy = read_layout(reader);
  candidate.evaluation = read_evaluation(reader, header);
  candidate.world = reader.degree("world");
  candidate.micro_batches = reader.integer("micro_batches");
  candidate.parameters = reader.integer("parameters");
  candidate.parameters_allocated = reader.integer("parameters_allocated");
  candidate.hardware_flops_per_step = reader.read<double>(
      "hardware_flops_per_step", 0, [](const std::string& text) { return parse_real(text); });
  candidate.has_times = reader.flag("times");
  candidate.tokens_per_step = product(header.global_batch, header.sequence_length);
  candidate.model_flops_per_step = header.model_flops_per_step;
  candidate.peak_per_rank = FlopsPerSecond(header.peak_flops_per_rank);
  candidate.capacity = Bytes(reader.integer("memory.capacity_bytes"));
  candidate.margin = Bytes(reader.integer("memory.margin_bytes"));
  candidate.fits = reader.flag("memory.fits");
  estimate.flops = reader.text("conventions.flops");
  estimate.bytes_per_parameter = reader.text("conventions.bytes_per_parameter");
  estimate.has_stages = false;
  if (reader.bad().empty()) return estimate;
  Diagnostic error;
  error.file = file;
  error.message =
      "the plan carries no estimate: entry " + quote(reader.bad()[0]) + " is missing or unreadable";
  error.help = "`megaplan compile` and `megaplan search -o` write it; a plan without runs too";
  return error;
}

}  // namespace mega::planner
