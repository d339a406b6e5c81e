#include "ir/base/diagnostic.h"

#include <algorithm>
#include <string_view>

#include "ir/base/text.h"

namespace mega {
namespace {

constexpr std::size_t kWidestLine = 160;  // in characters

std::string position(const std::string& file, SourceLoc where) {
  std::string out = file;
  if (where.line > 0) out += ":" + std::to_string(where.line);
  if (where.line > 0 && where.column > 0) out += ":" + std::to_string(where.column);
  return out;
}

std::string_view line_at(std::string_view source, int wanted) {
  for (int line = 1; line < wanted; ++line) {
    const std::size_t end = source.find('\n');
    if (end == std::string_view::npos) return {};
    source.remove_prefix(end + 1);
  }
  source = source.substr(0, source.find('\n'));
  if (source.ends_with('\r')) source.remove_suffix(1);
  return source;
}

// A line as characters, each one column of a terminal but for tabs. What a terminal would obey or
// choke on is shown as '?'.
struct Characters {
  std::vector<std::string> cells;
  std::size_t caret = 0;  // the cell under which the caret belongs; cells.size() behind the end
};

Characters characters_of(std::string_view line, int column) {
  Characters out;
  const std::size_t target =
      std::min(line.size(), column > 0 ? static_cast<std::size_t>(column - 1) : 0);
  // Only what can be shown: a binary file may be one line of a hundred megabytes. Characters have
  // at most four bytes.
  constexpr std::size_t kReach = 4 * kWidestLine;
  std::size_t offset = target < kReach ? 0 : target - kReach;
  while (offset > 0 && offset < target && (static_cast<unsigned char>(line[offset]) & 0xC0) == 0x80)
    ++offset;
  line = line.substr(0, target + kReach);
  while (offset < line.size()) {
    const std::size_t length = utf8_length(line.substr(offset));
    const std::size_t step = std::max<std::size_t>(1, length);
    const auto lead = static_cast<unsigned char>(line[offset]);
    const bool shown =
        length > 1 || (length == 1 && (lead >= 0x20 || lead == '\t') && lead != 0x7F);
    if (offset + step <= target) out.caret = out.cells.size() + 1;
    out.cells.push_back(shown ? std::string(line.substr(offset, step)) : "?");
    offset += step;
  }
  return out;
}

// The source line and a caret below it, padded with the line's own tabs so that both shift alike.
std::string snippet(SourceLoc where, const std::string& source) {
  const Characters line = characters_of(line_at(source, where.line), where.column);
  std::size_t first = 0;
  std::size_t last = line.cells.size();
  if (last > kWidestLine) {
    first = line.caret < kWidestLine / 2 ? 0 : line.caret - kWidestLine / 2;
    first = std::min(first, last - kWidestLine);
    last = first + kWidestLine;
  }
  const std::string number = std::to_string(where.line);
  std::string text = "  " + number + " | ";
  std::string below = "  " + std::string(number.size(), ' ') + " | ";
  if (first > 0) {
    text += "...";
    below += "   ";
  }
  for (std::size_t i = first; i < last; ++i) {
    text += line.cells[i];
    if (i < line.caret) below += line.cells[i] == "\t" ? '\t' : ' ';
  }
  if (last < line.cells.size()) text += "...";
  text += "\n";
  return where.column > 0 ? text + below + "^\n" : text;
}

std::string snippet(const std::string& file, SourceLoc where, const Sources& sources) {
  const auto source = sources.find(file);
  if (where.line == 0 || source == sources.end()) return {};
  return snippet(where, source->second);
}

}  // namespace

std::string render(const Diagnostic& diagnostic, const Sources& sources) {
  std::string out =
      position(diagnostic.file, diagnostic.where) + ": error: " + diagnostic.message + "\n";
  out += snippet(diagnostic.file, diagnostic.where, sources);
  for (const Note& note : diagnostic.notes) {
    out += position(note.file, note.where) + ": note: " + note.text + "\n";
    out += snippet(note.file, note.where, sources);
  }
  if (!diagnostic.help.empty()) out += "help: " + diagnostic.help + "\n";
  return out;
}

std::string render(const Errors& errors, const Sources& sources) {
  std::string out;
  for (const Diagnostic& error : errors) out += render(error, sources);
  return out;
}

}  // namespace mega
