// Columns for people: the first flush left, numbers flush right, two spaces between.
#pragma once

#include <string>
#include <vector>

namespace mega::planner {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Breaks between words so that no line is longer than 80 columns; further lines are indented.
std::string wrapped(const std::string& text, int indent);

std::string with_decimals(double value, int decimals);  // "151.0"
std::string percent(double fraction);                   // "48.4 %"

}  // namespace mega::planner
