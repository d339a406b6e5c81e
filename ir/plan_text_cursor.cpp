#include "ir/plan_text_cursor.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mega {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_plain(char c) {
  return is_letter_or_digit(c) || c == '_' || c == '.' || c == '-' || c == '/' || c == ':';
}

bool may_start_plain(char c) {
  return is_letter_or_digit(c) || c == '_' || c == '.';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

bool is_plain_name(std::string_view name) {
  // A ':' at the end would read as the colon of a statement.
  return !name.empty() && may_start_plain(name.front()) && name.back() != ':' &&
         std::all_of(name.begin(), name.end(), is_plain);
}

std::string_view tensor_of(std::string_view buffer_name) {
  for (const std::string_view ending : {".part", ".grad"}) {
    if (buffer_name.size() > ending.size() && buffer_name.ends_with(ending)) {
      buffer_name.remove_suffix(ending.size());
    }
  }
  return buffer_name;
}

std::string quoted_name(std::string_view name) {
  if (is_plain_name(name)) return std::string(name);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      text += "\\x";
      text += kHex[byte >> 4U];
      text += kHex[byte & 15U];
    } else {
      text += c;
    }
  }
  return text + "\"";
}

TextCursor::TextCursor(std::string file, std::string_view line, int number)
    : file_(std::move(file)), line_(line), number_(number) {}

void TextCursor::skip_blanks() {
  while (next_ < line_.size() && is_blank(line_[next_])) ++next_;
  if (next_ < line_.size() && line_[next_] == '#') next_ = line_.size();
}

bool TextCursor::peek(char c) {
  skip_blanks();
  return next_ < line_.size() && line_[next_] == c;
}

bool TextCursor::peek_name() {
  skip_blanks();
  return peek('"') || !plain_at(next_).empty();
}

bool TextCursor::accept(char c) {
  if (!peek(c)) return false;
  last_ = next_column();
  ++next_;
  return true;
}

bool TextCursor::expect(char c) {
  return accept(c) || expected("'" + std::string(1, c) + "'");
}

bool TextCursor::accept_arrow() {
  skip_blanks();
  if (line_.substr(next_, 2) != "->") return false;
  last_ = next_column();
  next_ += 2;
  return true;
}

std::string_view TextCursor::plain_at(std::size_t from) const {
  if (from >= line_.size() || !may_start_plain(line_[from])) return {};
  std::size_t end = from;
  while (end < line_.size() && is_plain(line_[end]) && line_.substr(end, 2) != "->") ++end;
  while (end > from && line_[end - 1] == ':') --end;
  return line_.substr(from, end - from);
}

bool TextCursor::peek_word(std::string_view word) {
  skip_blanks();
  return plain_at(next_) == word && line_.substr(next_ + word.size(), 1) != "=";
}

bool TextCursor::accept_word(std::string_view word) {
  if (!peek_word(word)) return false;
  last_ = next_column();
  next_ += word.size();
  return true;
}

bool TextCursor::expect_word(std::string_view word) {
  return accept_word(word) || expected("'" + std::string(word) + "'");
}

bool TextCursor::accept_key(std::string_view key) {
  skip_blanks();
  if (line_.substr(next_, key.size()) != key) return false;
  if (line_.substr(next_ + key.size(), 1) != "=") return false;
  last_ = next_column();
  next_ += key.size() + 1;
  return true;
}

bool TextCursor::at_end() {
  skip_blanks();
  return next_ == line_.size();
}

bool TextCursor::done() {
  if (error_) return false;
  return at_end() || fail(next_column(), "unexpected " + found() + " after the statement");
}

std::optional<std::string_view> TextCursor::word(std::string_view what) {
  skip_blanks();
  const std::string_view plain = plain_at(next_);
  if (plain.empty()) {
    expected(what);
    return std::nullopt;
  }
  last_ = next_column();
  next_ += plain.size();
  return plain;
}

std::optional<std::string_view> TextCursor::name(std::string_view what) {
  return peek('"') ? quoted() : word(what);
}

std::optional<std::string_view> TextCursor::name_before(char c) {
  skip_blanks();
  const std::size_t from = next_;
  if (!peek_name()) return std::nullopt;
  const auto text = name("a name");
  const int column = last_;
  if (text && accept(c)) {
    last_ = column;
    return text;
  }
  next_ = from;
  return std::nullopt;
}

std::optional<std::string_view> TextCursor::token(std::string_view what) {
  if (at_end()) {
    expected(what);
    return std::nullopt;
  }
  last_ = next_column();
  const std::size_t from = next_;
  while (next_ < line_.size() && !is_blank(line_[next_])) ++next_;
  return line_.substr(from, next_ - from);
}

std::optional<std::string_view> TextCursor::quoted() {
  last_ = next_column();
  std::string& text = unquoted_.emplace_back();
  for (++next_; next_ < line_.size(); ++next_) {
    const char c = line_[next_];
    if (c == '"') {
      ++next_;
      return text;
    }
    if (c != '\\') {
      text += c;
    } else if (!escape(text)) {
      return std::nullopt;
    }
  }
  fail_last("the quoted name has no end", "close it with '\"' on the same line");
  return std::nullopt;
}

// next_ is at the backslash; leaves it at the last character of the escape.
bool TextCursor::escape(std::string& text) {
  const int column = static_cast<int>(next_) + 1;
  const char kind = ++next_ < line_.size() ? line_[next_] : ' ';
  if (kind == '"' || kind == '\\') {
    text += kind;
  } else if (kind == 'n') {
    text += '\n';
  } else if (kind == 't') {
    text += '\t';
  } else if (kind == 'x' && next_ + 2 < line_.size() && hex_digit(line_[next_ + 1]) >= 0 &&
             hex_digit(line_[next_ + 2]) >= 0) {
    text += static_cast<char>(hex_digit(line_[next_ + 1]) * 16 + hex_digit(line_[next_ + 2]));
    next_ += 2;
  } else {
    return fail(column, "unknown escape in a quoted name",
                "use \\\", \\\\, \\n, \\t or \\x and two lower-case hexadecimal digits");
  }
  return true;
}

std::optional<std::int64_t> TextCursor::integer(std::string_view what, std::int64_t least,
                                                std::int64_t most) {
  skip_blanks();
  last_ = next_column();
  // from_chars takes no '+', and "+-3" is not a number.
  const bool plus = line_.substr(next_, 1) == "+" && line_.substr(next_ + 1, 1) != "-";
  const char* first = line_.data() + next_ + (plus ? 1 : 0);
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(first, line_.data() + line_.size(), value);
  if (problem == std::errc::invalid_argument) {
    expected(what);
    return std::nullopt;
  }
  const auto length = static_cast<std::size_t>(end - (line_.data() + next_));
  if (problem != std::errc() || value < least || value > most) {
    fail_last(std::string(what) + " must be " + std::to_string(least) + " to " +
              std::to_string(most) + ", got " + std::string(line_.substr(next_, length)));
    return std::nullopt;
  }
  next_ += length;
  return value;
}

std::optional<double> TextCursor::real(std::string_view what) {
  skip_blanks();
  last_ = next_column();
  double value = 0;
  const char* first = line_.data() + next_;
  const auto [end, problem] = std::from_chars(first, line_.data() + line_.size(), value);
  if (problem != std::errc() || std::isnan(value)) {
    expected(what);
    return std::nullopt;
  }
  next_ += static_cast<std::size_t>(end - first);
  return value;
}

int TextCursor::next_column() {
  skip_blanks();
  return static_cast<int>(next_) + 1;
}

// What comes next, quoted and shortened for a message.
std::string TextCursor::found() {
  if (at_end()) return "the end of the line";
  constexpr std::size_t kLongest = 40;
  std::size_t end = next_;
  while (end < line_.size() && !is_blank(line_[end]) && end - next_ < kLongest) ++end;
  return "'" + std::string(line_.substr(next_, end - next_)) + "'";
}

bool TextCursor::expected(std::string_view what) {
  if (error_) return false;
  const std::string next = found();
  return fail(next_column(), "expected " + std::string(what) + ", got " + next);
}

bool TextCursor::fail(int column, std::string message, std::string help) {
  if (!error_) {
    error_ = Diagnostic{file_, {number_, column}, std::move(message), {}, std::move(help)};
  }
  return false;
}

bool TextCursor::fail_next(std::string message, std::string help) {
  const std::string next = found();
  return fail(next_column(), std::move(message) + ", got " + next, std::move(help));
}

bool TextCursor::fail_last(std::string message, std::string help) {
  return fail(last_, std::move(message), std::move(help));
}

}  // namespace mega
