#include "planner/output/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace mega::planner {
namespace {

constexpr std::size_t kColumns = 80;

}  // namespace

std::string TextTable::print() const {
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + space : "  " + space + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string wrapped(const std::string& text, int indent) {
  std::string out;
  std::string line;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::string word = text.substr(start, end - start);
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = std::string(static_cast<std::size_t>(indent), ' ') + word;
    } else {
      line += (start == 0 ? "" : " ") + word;
    }
    start = end + 1;
  }
  return out + line + "\n";
}

std::string with_decimals(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string percent(double fraction) {
  return with_decimals(fraction * 100, 1) + " %";
}

}  // namespace mega::planner
