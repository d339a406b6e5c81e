#include "planner/spec/yaml_reader.h"

#include <gtest/gtest.h>

namespace mega::planner {
namespace {

YamlNode parsed(const std::string& text) {
  Result<YamlNode> node = parse_yaml("f", text);
  EXPECT_TRUE(node.ok()) << (node.ok() ? "" : render(node.errors(), {}));
  return node.ok() ? std::move(node).value() : YamlNode{};
}

Diagnostic refused(const std::string& text) {
  const Result<YamlNode> node = parse_yaml("f", text);
  EXPECT_FALSE(node.ok()) << text.substr(0, 100);
  if (node.ok()) return {};
  EXPECT_FALSE(node.errors().empty());
  EXPECT_FALSE(node.errors()[0].message.empty());
  return node.errors()[0];
}

std::string repeated(const std::string& part, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

TEST(YamlReader, KeepsPlacesOrderAndQuotes) {
  const YamlNode root = parsed("b: 1\na: [x, \"8\"]\nc: {d: ~}\n");
  ASSERT_TRUE(root.is_mapping());
  ASSERT_EQ(root.keys.size(), 3u);
  EXPECT_EQ(root.keys[0].text, "b");
  EXPECT_EQ(root.items[0].where, (SourceLoc{1, 4}));
  const YamlNode& list = *find(root, "a");
  ASSERT_TRUE(list.is_sequence());
  EXPECT_FALSE(list.items[0].is_quoted);
  EXPECT_TRUE(list.items[1].is_quoted);
  EXPECT_EQ(list.items[1].where, (SourceLoc{2, 8}));
  EXPECT_EQ(find(*find(root, "c"), "d")->kind, YamlNode::Kind::Null);
  EXPECT_EQ(find(root, "e"), nullptr);
}

TEST(YamlReader, AnEmptyDocumentIsNull) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "~\n"}) {
    EXPECT_EQ(parsed(text).kind, YamlNode::Kind::Null) << text;
  }
}

TEST(YamlReader, ReportsEachDuplicateKeyWithItsFirst) {
  const YamlNode root = parsed("a: 1\nb: {c: 1, c: 2}\na: 3\n");
  const Errors errors = duplicate_keys(root);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].message, "duplicate key 'a'");
  EXPECT_EQ(errors[0].where, (SourceLoc{3, 1}));
  ASSERT_EQ(errors[0].notes.size(), 1u);
  EXPECT_EQ(errors[0].notes[0].where, (SourceLoc{1, 1}));
  EXPECT_EQ(errors[1].where, (SourceLoc{2, 11}));
  EXPECT_EQ(find(root, "a")->text, "1");  // the first stands until the user decides
}

TEST(YamlReader, RefusesByNameWhatASpecNeedsNot) {
  EXPECT_EQ(refused("a: &x 1\nb: 2\n").message, "anchors are not supported");
  EXPECT_EQ(refused("a: &x 1\nb: *x\n").where, (SourceLoc{1, 4}));
  EXPECT_EQ(refused("a: !!int 1\n").message, "the tag 'tag:yaml.org,2002:int' is not supported");
  EXPECT_EQ(refused("a: 1\n---\nb: 2\n").message, "a second YAML document starts here");
  EXPECT_EQ(refused("? [1, 2]\n: 3\n").message, "a key must be a word");
  EXPECT_EQ(refused("~: 3\n").message, "a key must be a word");
  EXPECT_EQ(refused("a: *x\n").message.substr(0, 15), "not valid YAML:");
}

TEST(YamlReader, RefusesWhatIsNoText) {
  using namespace std::string_literals;
  EXPECT_EQ(refused("a: 1\nb\0: 2\n"s).where, (SourceLoc{2, 2}));
  EXPECT_EQ(refused("a: \xFF\n").message, "not a text file: broken UTF-8");
  EXPECT_EQ(refused("\xFF\xFE"s + "a\0"s).message, "not a text file: broken UTF-8");  // UTF-16
  EXPECT_EQ(refused("\x7F"
                    "ELF\x02\x01"s)
                .message,
            "not a text file: a control character");
  EXPECT_EQ(refused(std::string((std::size_t{1} << 20) + 1, 'a')).message,
            "is larger than the limit of 1.00 MiB");
}

TEST(YamlReader, LocatesBrokenYaml) {
  const Diagnostic tab = refused("a:\n\tb: 1\n");
  EXPECT_EQ(tab.message.substr(0, 15), "not valid YAML:");
  EXPECT_EQ(tab.where.line, 2);
  EXPECT_EQ(refused("a: [1, 2\n").message, "not valid YAML: end of sequence flow not found");
  EXPECT_GT(refused("a: 'open").where.line, 0);
}

TEST(YamlReader, ALostQuoteSwallowsNothing) {
  const Diagnostic lost = refused("\xEF\xBB\xBF# c\r\na: 'it''s\nb: 1\n");
  EXPECT_EQ(lost.message, "the quote that opens here is never closed");
  EXPECT_EQ(lost.where, (SourceLoc{2, 4}));
  refused("a: \"x\\\"\n");
  const YamlNode root = parsed(
      "\xEF\xBB\xBF"
      "a: 'it''s'\r\nb: \"x\\\"\"\nc: |\n  'open\nd: >-\n  \"\n");
  EXPECT_EQ(find(root, "a")->text, "it's");
  EXPECT_EQ(find(root, "b")->text, "x\"");
  EXPECT_EQ(find(root, "c")->text, "'open\n");
}

TEST(YamlReader, CountsColumnsInBytes) {
  const YamlNode root = parsed("{gr\xC3\xB6sse: 1, b: 2}\n");
  EXPECT_EQ(root.keys[1].where, (SourceLoc{1, 14}));
}

// Each of these made some YAML reader recurse until it crashed, or took it hours.
TEST(YamlReader, SurvivesHostileNesting) {
  constexpr std::size_t kBytes = 100000;
  for (const char* part : {"[", "{", "- ", "? ", "[[],", "{a: ", "{? ", "- ? ", "? - ", "[a, ",
                           "&a ", "!a ", "{a: [", "? [", "[{"}) {
    refused(repeated(part, kBytes));
  }
  const Diagnostic deep = refused(repeated("[", 65) + repeated("]", 65));
  EXPECT_EQ(deep.message, "nested deeper than 64 levels");
  EXPECT_EQ(deep.where, (SourceLoc{1, 65}));
  parsed(repeated("[", 64) + repeated("]", 64));
  std::string bomb = "a: &a [x, x]\n";
  for (char c = 'b'; c <= 'z'; ++c) {
    const std::string one(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [*" + one + ", *" + one + ", *" + one + "]\n";
  }
  EXPECT_EQ(refused(bomb).message, "anchors are not supported");
}

TEST(YamlReader, SurvivesManySmallThings) {
  EXPECT_EQ(refused(repeated("a: b\n", 200000)).message, "more than 50000 values");
  for (const char* part :
       {"\"", "'",     "|",     ">", ":",  ",",  "]",     "}",    "%",          "@",
        "`",  "---\n", "...\n", "#", "\t", "\r", "\"\\x", "<<: ", "%TAG ! !\n", "a:\n "}) {
    const Result<YamlNode> node = parse_yaml("f", repeated(part, 50000));
    if (!node.ok()) {
      EXPECT_FALSE(node.errors().empty());
    }
  }
}

}  // namespace
}  // namespace mega::planner
