#include "planner/spec/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "ir/base/text.h"

namespace mega::planner {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostNodes = 50000;

SourceLoc locate(const YAML::Mark& mark) {
  return mark.is_null() ? SourceLoc{} : SourceLoc{mark.line + 1, mark.column + 1};
}

// Whether the quoted scalar that starts at `start` ends. yaml-cpp takes the end of the file for a
// closing quote when the last line is complete, and so swallows all keys below a lost quote.
bool is_closed(std::string_view text, std::size_t start) {
  if (start >= text.size() || (text[start] != '\'' && text[start] != '"')) return true;
  const char quote_mark = text[start];
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote_mark == '"') {
      ++i;
    } else if (text[i] == quote_mark) {
      const bool is_doubled =
          quote_mark == '\'' && i + 1 < text.size() && text[i + 1] == quote_mark;
      if (!is_doubled) return true;
      ++i;
    }
  }
  return false;
}

// Builds nodes from the parser's events. yaml-cpp's own tree is never built: it would expand
// aliases, drop duplicate keys, and recurse when it is destroyed. After the first error the
// remaining events are ignored; the parser itself stops at 500 levels.
class NodeBuilder final : public YAML::EventHandler {
 public:
  NodeBuilder(std::string file, std::string_view text) : file_(std::move(file)), text_(text) {}

  const Errors& errors() const { return errors_; }
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) fail(mark, "a second YAML document starts here", "keep one per file");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (check(mark, "", anchor)) add(make(YamlNode::Kind::Null, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "aliases are not supported", "write the value out, or use a file of its own");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!check(mark, tag, anchor)) return;
    if (tag == "!" && !is_closed(text_, static_cast<std::size_t>(mark.pos))) {
      fail(mark, "the quote that opens here is never closed", "");
      return;
    }
    YamlNode node = make(YamlNode::Kind::Scalar, mark);
    node.text = value;
    node.is_quoted = tag == "!";
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (check(mark, tag, anchor)) open(make(YamlNode::Kind::Sequence, mark));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (check(mark, tag, anchor)) open(make(YamlNode::Kind::Mapping, mark));
  }
  void OnMapEnd() override { close(); }

 private:
  YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark) const {
    YamlNode node;
    node.kind = kind;
    node.file = file_;
    node.where = locate(mark);
    return node;
  }

  void fail(const YAML::Mark& mark, std::string message, std::string help) {
    if (errors_.empty()) {
      errors_.push_back({file_, locate(mark), std::move(message), {}, std::move(help)});
    }
  }

  // False once anything went wrong. Plain scalars have the tag "?", quoted ones "!".
  bool check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) {
      fail(mark, "anchors are not supported", "write the value out, or use a file of its own");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(mark, "the tag " + quote(tag) + " is not supported", "remove it");
    }
    if (++nodes_ > kMostNodes) {
      fail(mark, "more than " + std::to_string(kMostNodes) + " values", "this is no spec");
    }
    return errors_.empty();
  }

  void open(YamlNode node) {
    if (open_.size() >= kDeepest) {
      const std::string limit = std::to_string(kDeepest);
      errors_.push_back({file_, node.where, "nested deeper than " + limit + " levels", {}, {}});
      return;
    }
    open_.push_back(std::move(node));
  }

  void close() {
    if (!errors_.empty()) return;
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  // In a mapping, keys and values come in turn.
  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    YamlNode& parent = open_.back();
    const bool is_key = parent.is_mapping() && parent.keys.size() == parent.items.size();
    if (!is_key) {
      parent.items.push_back(std::move(node));
      return;
    }
    // A document "a: 1" may write null for a key: "~: 1" or ": 1".
    if (!node.is_scalar()) {
      errors_.push_back({file_, node.where, "a key must be a word", {}, {}});
      return;
    }
    parent.keys.push_back({std::move(node.text), file_, node.where});
  }

  std::string file_;
  std::string_view text_;
  Errors errors_;
  YamlNode root_;
  std::vector<YamlNode> open_;  // the mappings and sequences around the next value
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

// yaml-cpp guesses UTF-16 and UTF-32 from the first bytes and maps broken text to U+FFFD.
Errors check_text(const std::string& file, const std::string& text) {
  SourceLoc where{1, 1};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t length = utf8_length(rest);
    const auto lead = static_cast<unsigned char>(rest[0]);
    const bool is_control = lead < 0x20 && lead != '\n' && lead != '\r' && lead != '\t';
    if (length == 0) return {{file, where, "not a text file: broken UTF-8", {}, {}}};
    if (is_control) return {{file, where, "not a text file: a control character", {}, {}}};
    where.column += static_cast<int>(length);
    if (lead == '\n') where = {where.line + 1, 1};
    rest.remove_prefix(length);
  }
  return {};
}

}  // namespace

Result<YamlNode> parse_yaml(const std::string& file, const std::string& text) {
  if (static_cast<std::int64_t>(text.size()) > kLargestYaml.count()) {
    const std::string limit = to_string(kLargestYaml);
    return Diagnostic{file, {}, "is larger than the limit of " + limit, {}, {}};
  }
  if (Errors errors = check_text(file, text); !errors.empty()) return errors;
  // Without a byte order mark, the parser's offsets are those of the text.
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::size_t start = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const std::string body = text.substr(start);
  NodeBuilder builder(file, body);
  try {
    std::istringstream stream(body);
    YAML::Parser parser(stream);
    while (builder.errors().empty() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    // The builder's own word for it is better than what the parser stumbled over later.
    if (builder.errors().empty()) {
      return Diagnostic{file, locate(error.mark), "not valid YAML: " + error.msg, {}, {}};
    }
  } catch (const std::exception& error) {
    return Diagnostic{file, {}, std::string("not valid YAML: ") + error.what(), {}, {}};
  }
  if (!builder.errors().empty()) return builder.errors();
  YamlNode root = builder.take();
  if (root.file.empty()) root.file = file;  // of no document at all
  return root;
}

Errors duplicate_keys(const YamlNode& node) {
  Errors errors;
  std::map<std::string, const YamlKey*> first;
  for (const YamlKey& key : node.keys) {
    const auto [entry, is_new] = first.emplace(key.text, &key);
    if (is_new) continue;
    const YamlKey& earlier = *entry->second;
    errors.push_back({key.file,
                      key.where,
                      "duplicate key " + quote(key.text),
                      {{earlier.file, earlier.where, "first given here"}},
                      "keep one of them"});
  }
  for (const YamlNode& item : node.items) {
    const Errors below = duplicate_keys(item);
    errors.insert(errors.end(), below.begin(), below.end());
  }
  return errors;
}

}  // namespace mega::planner
