// Words and numbers as users type and read them: suggestions for a mistyped word, lists, strict
// numbers, quantities with units, and whole files with a size limit. Strict means: the whole text
// must be the number; overflow, NaN and infinity are no numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/result.h"
#include "ir/base/units.h"

namespace mega {

std::vector<std::string> split(std::string_view text, char separator);  // "a,,b" has three parts
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string any_of(const std::vector<std::string>& parts);  // "1, 2 or 4"

// Least number of inserted, deleted, replaced or swapped neighbouring bytes.
std::size_t edit_distance(std::string_view a, std::string_view b);
// The candidate that `word` was probably meant to be (ties to the first); empty when none is near.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

// 'text' for a message: control characters and broken UTF-8 shown as '?', long text cut.
std::string quote(std::string_view text);
// Length in bytes of the UTF-8 character that `text` starts with; 0 when it is malformed.
std::size_t utf8_length(std::string_view text);

std::string format_real(double value);  // shortest text that reads back as the same value
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

// "80GiB", "1.5 GB", "4096"; GiB is 2^30, GB is 10^9. Rounded to whole bytes.
std::optional<Bytes> parse_bytes(std::string_view text);
// "900GB/s", "25GiB/s", "400Gb/s" (bits), "2.5e10".
std::optional<BytesPerSecond> parse_bandwidth(std::string_view text);
std::optional<Seconds> parse_seconds(std::string_view text);       // "5us", "2.5ms", "0.1"
std::optional<FlopsPerSecond> parse_flops(std::string_view text);  // "312TFLOPS", "312e12"

std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 14695981039346656037ULL);

// The text of a regular file. Missing, unreadable, a directory, larger than `limit`: an error.
Result<std::string> read_file(const std::string& path, Bytes limit);
// What errors and Sources call it, too.
inline constexpr const char* kStandardInput = "<stdin>";
Result<std::string> read_standard_input(Bytes limit);

}  // namespace mega
