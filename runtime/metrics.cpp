#include "runtime/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>

#include "ir/base/text.h"

namespace mega::runtime {
namespace {

std::string number(double value) {
  return std::isfinite(value) ? format_real(value) : "null";
}

std::string number(const std::optional<double>& value) {
  return value ? number(*value) : "null";
}

std::optional<double> mfu(const RunFacts& facts, Seconds time) {
  if (facts.peak_flops <= 0 || time.count() <= 0) return std::nullopt;
  return facts.model_flops_per_step / (time.count() * facts.peak_flops);
}

double tokens_per_second(const RunFacts& facts, Seconds time) {
  return time.count() > 0 ? static_cast<double>(facts.tokens_per_step) / time.count() : 0;
}

// Appends ,"key":value to an object that is being written.
void add(std::string& object, const char* key, const std::string& value) {
  object += object.empty() ? "{\"" : ",\"";
  object += std::string(key) + "\":" + value;
}

std::string padded(const char* format, const std::optional<double>& value, std::size_t width) {
  if (!value) return std::string(width - 1, ' ') + "-";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, *value);
  return text.data();
}

// As a value of the layout reads: a number, a truth or a text.
std::string json_value(const std::string& text) {
  const bool is_literal = text == "true" || text == "false" || parse_real(text).has_value();
  return is_literal ? text : json_string(text);
}

}  // namespace

RunFacts facts_of(const Plan& plan, const std::string& plan_file, Bytes peak_bytes) {
  RunFacts facts;
  facts.plan_file = plan_file;
  facts.world = world_size(plan);
  facts.tokens_per_step = plan.header.global_batch * plan.header.sequence_length;
  facts.predicted_step_time = Seconds(static_cast<double>(plan.header.predicted_step_ns) * 1e-9);
  facts.model_flops_per_step = plan.header.model_flops_per_step;
  facts.peak_flops = plan.header.peak_flops_per_rank * facts.world;
  facts.peak_bytes = peak_bytes;
  return facts;
}

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(std::string_view(text).substr(i));
    const char c = text[i];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      out.append(text, i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return out + "\"";
}

std::string start_line(const RunFacts& facts, const Header& header) {
  std::string layout;
  for (const HeaderEntry& entry : header.entries) {
    const std::string prefix = "layout.";
    if (!entry.key.starts_with(prefix)) continue;
    layout += (layout.empty() ? "" : ",") + json_string(entry.key.substr(prefix.size())) + ":" +
              json_value(entry.value);
  }
  std::string line;
  add(line, "event", "\"start\"");
  add(line, "plan", json_string(facts.plan_file));
  add(line, "job", json_string(header.job));
  add(line, "fingerprint", json_string(header.fingerprint));
  add(line, "layout", "{" + layout + "}");
  add(line, "backend", json_string(facts.backend));
  add(line, "world", std::to_string(facts.world));
  return line + "}";
}

std::string step_line(const RunFacts& facts, const StepResult& result) {
  std::string line;
  add(line, "step", std::to_string(result.step));
  add(line, "loss", number(result.loss));
  if (result.aux_loss) add(line, "aux_loss", number(result.aux_loss));
  add(line, "grad_norm", number(result.grad_norm));
  add(line, "learning_rate", number(result.learning_rate));
  add(line, "tokens", std::to_string(facts.tokens_per_step));
  add(line, "step_time_s", number(result.time.count()));
  add(line, "predicted_step_time_s", number(facts.predicted_step_time.count()));
  add(line, "tokens_per_s", number(tokens_per_second(facts, result.time)));
  add(line, "mfu", number(mfu(facts, result.time)));
  add(line, "peak_bytes", std::to_string(facts.peak_bytes.count()));
  return line + "}";
}

std::string stop_line(std::int64_t steps, const std::string& reason) {
  std::string line;
  add(line, "event", "\"stop\"");
  add(line, "steps", std::to_string(steps));
  add(line, "reason", json_string(reason));
  return line + "}";
}

std::string table_header() {
  return "    step      loss  grad norm  learning rate    tokens/s   step ms  predicted";
}

std::string table_row(const RunFacts& facts, const StepResult& result) {
  std::array<char, 32> step{};
  std::snprintf(step.data(), step.size(), "%8lld", static_cast<long long>(result.step));
  std::optional<double> predicted;
  if (facts.predicted_step_time.count() > 0) predicted = facts.predicted_step_time.count() * 1e3;
  return step.data() + padded("%10.4f", result.loss, 10) + padded("%11.4g", result.grad_norm, 11) +
         padded("%15.3e", result.learning_rate, 15) +
         padded("%12.0f", tokens_per_second(facts, result.time), 12) +
         padded("%10.1f", result.time.count() * 1e3, 10) + padded("%11.1f", predicted, 11);
}

namespace {

// The least of 1, 2, 5, 10, 20, 50 ... that is not below `least`.
std::int64_t round_up_to_cadence(std::int64_t least) {
  for (std::int64_t unit = 1;; unit *= 10) {
    for (const std::int64_t cadence : {unit, 2 * unit, 5 * unit}) {
      if (cadence >= least) return cadence;
    }
  }
}

bool is_round(std::int64_t step) {
  while (step % 10 == 0) step /= 10;
  return step == 1 || step == 2 || step == 5;
}

}  // namespace

bool is_shown(std::int64_t step, std::int64_t steps) {
  if (step == steps) return true;
  const std::int64_t cadence = round_up_to_cadence(std::max<std::int64_t>(steps / 20, 10));
  return step % cadence == 0 || (step < cadence && is_round(step));
}

}  // namespace mega::runtime
