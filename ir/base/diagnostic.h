// What went wrong in a user's file, where, and what to do about it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mega {

struct SourceLoc {
  int line = 0;    // 1-based; 0 means "the file as a whole"
  int column = 0;  // 1-based, in bytes; 0 means "the line as a whole"
  bool operator==(const SourceLoc&) const = default;
};

struct Note {
  std::string file;  // a note may point into another file than its diagnostic
  SourceLoc where;
  std::string text;
};

// `message` starts with a lower-case letter, has no final period, and names the
// offending value. Notes point at the other half of a conflict.
struct Diagnostic {
  std::string file;
  SourceLoc where;
  std::string message;
  std::vector<Note> notes;
  std::string help;
};

using Errors = std::vector<Diagnostic>;  // never empty inside a failed Result

// The texts of the files that diagnostics point into, by the name they are reported under.
using Sources = std::map<std::string, std::string>;

// "file:line:column: error: message", the source line with a caret, notes and help. The caret
// stands right under tabs and UTF-8; lines over 160 columns are cut around it.
std::string render(const Diagnostic& diagnostic, const Sources& sources);
std::string render(const Errors& errors, const Sources& sources);

}  // namespace mega
