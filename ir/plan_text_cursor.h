// Reads one line of a plan: words, names, numbers and punctuation, each with its column.
//
// A statement stops at its first mistake: every reader returns nothing after a failure, which is
// recorded once with its place, and the parser goes on with the next line, so that one run
// reports every bad line.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace mega {

// Names of plain characters are written as they are, all others in quotes.
bool is_plain_name(std::string_view name);
std::string quoted_name(std::string_view name);
// What a shard's "=" stands for: the buffer's name, less the ".part" of a rank's piece of it and
// the ".grad" of its gradient: "w" for "w", "w.part", "w.grad" and "w.grad.part".
std::string_view tensor_of(std::string_view buffer_name);

class TextCursor {
 public:
  TextCursor(std::string file, std::string_view line, int number);

  // One more character of punctuation, after any blanks.
  bool peek(char c);
  bool peek_name();
  bool peek_word(std::string_view word);
  bool accept(char c);
  bool expect(char c);
  bool accept_arrow();  // "->"
  // True, and taken, when the next word is exactly this one.
  bool accept_word(std::string_view word);
  bool expect_word(std::string_view word);
  // True, and taken with its '=', when `key=` comes next.
  bool accept_key(std::string_view key);
  bool at_end();
  // Whether all of the line was read; complains about what is left.
  bool done();

  // The views stay valid as long as the cursor and its line.
  std::optional<std::string_view> name(std::string_view what);
  // A name that `c` follows; takes both or, when it isn't there, neither.
  std::optional<std::string_view> name_before(char c);
  std::optional<std::string_view> word(std::string_view what);
  // Everything up to the next blank.
  std::optional<std::string_view> token(std::string_view what);
  std::optional<std::int64_t> integer(std::string_view what, std::int64_t least, std::int64_t most);
  std::optional<double> real(std::string_view what);

  int number() const { return number_; }
  // Column (1-based) of what comes next, and of what was read last.
  int next_column();
  int last_column() const { return last_; }
  void back_to(int column) { next_ = static_cast<std::size_t>(column) - 1; }
  // Records the line's first mistake; always false.
  bool fail(int column, std::string message, std::string help = {});
  bool fail_last(std::string message, std::string help = {});  // at what was read last
  bool fail_next(std::string message, std::string help = {});  // at what comes next
  const std::optional<Diagnostic>& error() const { return error_; }

 private:
  void skip_blanks();
  bool expected(std::string_view what);
  std::string found();
  std::string_view plain_at(std::size_t from) const;
  std::optional<std::string_view> quoted();
  bool escape(std::string& text);

  std::string file_;
  std::string_view line_;
  int number_;
  std::size_t next_ = 0;
  int last_ = 1;
  std::optional<Diagnostic> error_;
  std::deque<std::string> unquoted_;
};

}  // namespace mega
