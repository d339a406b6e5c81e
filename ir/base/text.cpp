#include "ir/base/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

namespace mega {
namespace {

constexpr std::size_t kLongestQuote = 60;  // bytes of a user's text that a message repeats

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string any_of(const std::vector<std::string>& parts) {
  if (parts.size() < 2) return join(parts, "");
  return join({parts.begin(), parts.end() - 1}, ", ") + " or " + parts.back();
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the dynamic program: two before, before, now (the oldest is for swaps).
  std::vector<std::size_t> oldest(b.size() + 1), before(b.size() + 1), now(b.size() + 1);
  std::iota(before.begin(), before.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({now[j - 1] + 1, before[j] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], oldest[j - 2] + 1);
    }
    std::swap(oldest, before);
    std::swap(before, now);
  }
  return before[b.size()];
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  // A third of the word may be wrong: "tpp" is tp, but "np" is not "tp" more than "pp".
  const std::size_t limit = std::max<std::size_t>(1, word.size() / 3);
  std::string best;
  std::size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    // The start of a name is meant before a neighbour: "dgx-a100" is "dgx-a100-80g".
    if (word.size() >= 3 && candidate.starts_with(word)) return candidate;
    const std::size_t shorter = std::min(word.size(), candidate.size());
    if (std::max(word.size(), candidate.size()) - shorter > limit) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance || distance >= candidate.size()) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  unsigned code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
    code = code << 6U | (byte(i) & 0x3FU);
  }
  // Overlong forms, surrogates and codes beyond Unicode.
  if (length == 3 && (code < 0x800 || (code >= 0xD800 && code <= 0xDFFF))) return 0;
  if (length == 4 && (code < 0x10000 || code > 0x10FFFF)) return 0;
  return length;
}

std::string quote(std::string_view text) {
  std::string out = "'";
  while (!text.empty()) {
    if (out.size() > kLongestQuote) return out + "...'";
    const std::size_t length = utf8_length(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    const bool shown = length > 1 || (length == 1 && lead >= 0x20 && lead != 0x7F);
    const std::size_t step = std::max<std::size_t>(1, length);
    if (shown) {
      out += text.substr(0, step);
    } else {
      out += '?';
    }
    text.remove_prefix(step);
  }
  return out + "'";
}

std::string format_real(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  // "010" is eight to some YAML readers and ten to others: refused, as is "+1".
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

namespace {

// A number, optional spaces, and the rest.
struct Measure {
  double value = 0;
  std::string_view unit;
};

std::optional<Measure> parse_measure(std::string_view text) {
  std::size_t end = text.starts_with('-') ? 1 : 0;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
  // An exponent only when digits follow: "3e9" has one, "3EFLOPS" has a unit.
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    std::size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '-' || text[digits] == '+')) ++digits;
    if (digits < text.size() && is_digit(text[digits])) {
      end = digits;
      while (end < text.size() && is_digit(text[end])) ++end;
    }
  }
  const std::optional<double> value = parse_real(text.substr(0, end));
  if (!value) return std::nullopt;
  while (end < text.size() && text[end] == ' ') ++end;
  return Measure{*value, text.substr(end)};
}

std::optional<double> decimal_prefix(std::string_view prefix) {
  if (prefix.empty()) return 1;
  constexpr std::string_view kPrefixes = "kMGTPE";
  const char letter = prefix[0] == 'K' ? 'k' : prefix[0];
  const std::size_t power = kPrefixes.find(letter);
  if (prefix.size() != 1 || power == std::string_view::npos) return std::nullopt;
  return std::pow(10.0, 3.0 * static_cast<double>(power + 1));
}

// The factor of "B", "KB", "KiB", ... in bytes.
std::optional<double> byte_unit(std::string_view unit) {
  if (unit.empty()) return 1;
  if (unit.back() != 'B') return std::nullopt;
  unit.remove_suffix(1);
  if (!unit.ends_with('i')) return decimal_prefix(unit);
  constexpr std::string_view kPrefixes = "KMGTPE";
  const std::size_t power = unit.size() == 2 ? kPrefixes.find(unit[0]) : std::string_view::npos;
  if (power == std::string_view::npos) return std::nullopt;
  return std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
}

std::optional<double> scaled(double value, std::optional<double> factor) {
  if (!factor || !std::isfinite(value * *factor)) return std::nullopt;
  return value * *factor;
}

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
  const auto measure = parse_measure(text);
  if (!measure) return std::nullopt;
  const auto bytes = scaled(measure->value, byte_unit(measure->unit));
  // The largest double below 2^63 has room to spare; beyond it the conversion is undefined.
  if (!bytes || std::abs(*bytes) >= 0x1p63) return std::nullopt;
  return Bytes(std::llround(*bytes));
}

std::optional<BytesPerSecond> parse_bandwidth(std::string_view text) {
  const auto measure = parse_measure(text);
  if (!measure) return std::nullopt;
  std::string_view unit = measure->unit;
  if (!unit.empty() && !unit.ends_with("/s")) return std::nullopt;
  unit.remove_suffix(unit.empty() ? 0 : 2);
  std::optional<double> factor = byte_unit(unit);
  if (unit.empty() && !measure->unit.empty()) factor.reset();  // a lone "/s"
  if (unit.ends_with('b')) {
    factor = decimal_prefix(unit.substr(0, unit.size() - 1));
    if (factor) *factor /= 8;
  }
  const auto rate = scaled(measure->value, factor);
  if (!rate) return std::nullopt;
  return BytesPerSecond(*rate);
}

std::optional<Seconds> parse_seconds(std::string_view text) {
  const auto measure = parse_measure(text);
  if (!measure) return std::nullopt;
  constexpr std::array<std::pair<std::string_view, double>, 6> kUnits = {
      {{"", 1}, {"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"µs", 1e6}, {"ns", 1e9}}};
  for (const auto& [unit, per_second] : kUnits) {
    // Divided, because 2.5e-3 is the double nearest to 2.5 / 1e3 but not to 2.5 * 1e-3.
    if (measure->unit == unit) return Seconds(measure->value / per_second);
  }
  return std::nullopt;
}

std::optional<FlopsPerSecond> parse_flops(std::string_view text) {
  const auto measure = parse_measure(text);
  if (!measure) return std::nullopt;
  std::string_view unit = measure->unit;
  for (const std::string_view suffix : {"FLOPS", "FLOP/s", "FLOPs/s"}) {
    if (!unit.ends_with(suffix)) continue;
    unit.remove_suffix(suffix.size());
    const auto rate = scaled(measure->value, decimal_prefix(unit));
    if (!rate) return std::nullopt;
    return FlopsPerSecond(*rate);
  }
  if (!unit.empty()) return std::nullopt;
  return FlopsPerSecond(measure->value);
}

std::uint64_t fnv1a(std::string_view text, std::uint64_t hash) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

namespace {

Result<std::string> read_stream(std::FILE* stream, const std::string& name, Bytes limit) {
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  // Reads to the limit whatever the size says: a pipe or a device has none.
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), stream)) {
    text.append(block.data(), count);
    if (static_cast<std::int64_t>(text.size()) > limit.count()) {
      return Diagnostic{name, {}, "is larger than the limit of " + to_string(limit), {}, {}};
    }
  }
  if (std::ferror(stream)) {
    return Diagnostic{name, {}, std::string("cannot be read: ") + std::strerror(errno), {}, {}};
  }
  return text;
}

}  // namespace

Result<std::string> read_file(const std::string& path, Bytes limit) {
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::not_found) {
    return Diagnostic{path, {}, "no such file", {}, {}};
  }
  if (type == std::filesystem::file_type::directory) {
    return Diagnostic{path, {}, "is a directory, not a file", {}, {}};
  }
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) {
    return Diagnostic{path, {}, std::string("cannot be opened: ") + std::strerror(errno), {}, {}};
  }
  return read_stream(file.get(), path, limit);
}

Result<std::string> read_standard_input(Bytes limit) {
  return read_stream(stdin, kStandardInput, limit);
}

}  // namespace mega
