// Help texts and lists that fit a terminal of 80 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <sstream>
#include <string>

namespace mega::tool {

inline constexpr std::size_t kTerminalColumns = 80;

// Breaks every longer line between words; what goes on stands under the line's last column: the
// first after a run of two or more blanks, else where the line itself begins. Words are never cut.
inline std::string wrap(const std::string& text, std::size_t columns = kTerminalColumns) {
  std::istringstream lines(text);
  std::string wrapped, line;
  while (std::getline(lines, line)) {
    std::size_t indent = line.find_first_not_of(' ');
    const std::size_t gap = line.find("  ", indent);
    if (gap != std::string::npos) indent = line.find_first_not_of(' ', gap);
    while (line.size() > columns && indent < columns) {
      std::size_t end = line.rfind(' ', columns);
      if (end == std::string::npos || end <= indent) end = line.find(' ', columns);
      if (end == std::string::npos) break;
      wrapped += line.substr(0, end) + "\n";
      line = std::string(indent, ' ') + line.substr(end + 1);
    }
    wrapped += line + "\n";
  }
  return wrapped;
}

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return wrap(CLI::Formatter::make_help(app, std::move(name), mode));
  }
};

}  // namespace mega::tool
