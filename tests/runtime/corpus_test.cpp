#include "runtime/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/runtime/temporary_folder.h"

namespace mega::runtime {
namespace {

constexpr Bytes kPlenty(1 << 20);

std::string text_of(const Corpus& corpus) {
  return {corpus.bytes.begin(), corpus.bytes.end()};
}

Result<Corpus> read(const std::string& path, Bytes limit = kPlenty) {
  const std::vector<std::string> paths = {path};
  return read_corpus(paths, limit);
}

TEST(Corpus, FoldersAreReadInSortedPathOrder) {
  const TemporaryFolder folder;
  folder.write("b.txt", "2");
  folder.write("a/z.txt", "1");
  folder.write("a.txt", "0");  // '.' sorts before '/'
  folder.write("c/d/e.txt", "3");
  const auto corpus = read(folder.path());
  ASSERT_TRUE(corpus.ok());
  EXPECT_EQ(text_of(corpus.value()), "0123");
  ASSERT_EQ(corpus.value().files.size(), 4U);
  EXPECT_EQ(corpus.value().files[2].path, folder.path("b.txt"));
  EXPECT_EQ(corpus.value().files[2].offset, 2);
}

TEST(Corpus, HiddenFilesBuildTreesLinksAndBinariesAreSkipped) {
  const TemporaryFolder folder;
  folder.write("text", "text");
  folder.write(".hidden", "x");
  folder.write(".git/config", "x");
  folder.write("build/a", "x");
  folder.write("sub/out/a", "x");
  folder.write("cmake-build-debug/a", "x");
  folder.write("binary", std::string("x\0y", 3));
  folder.write("empty", "");
  std::filesystem::create_symlink(folder.path("text"), folder.path("link"));
  std::filesystem::create_directory_symlink(folder.path("build"), folder.path("linked"));
  folder.write("tools/build", "+script");  // a file of that name is no tree
  const auto corpus = read(folder.path());
  ASSERT_TRUE(corpus.ok());
  EXPECT_EQ(text_of(corpus.value()), "text+script");
  EXPECT_EQ(corpus.value().files.size(), 2U);
}

TEST(Corpus, SeveralPathsAreReadAsGiven) {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = {folder.write("b", "first"), folder.write("a", "second")};
  const auto corpus = read_corpus(paths, kPlenty);
  ASSERT_TRUE(corpus.ok());
  EXPECT_EQ(text_of(corpus.value()), "firstsecond");
}

TEST(Corpus, TheLastTenthIsHeldOut) {
  const TemporaryFolder folder;
  const auto corpus = read(folder.write("a", std::string(1009, 'x')));
  EXPECT_EQ(corpus.value().training_bytes(), 909);  // 1009 - 100
}

TEST(Corpus, EveryWrongPathIsNamed) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("nothing"));
  const std::vector<std::string> paths = {folder.path("missing"), folder.write("empty", ""),
                                          folder.write("binary", std::string("a\0", 2)),
                                          folder.path("nothing"), "/dev/null"};
  const auto corpus = read_corpus(paths, kPlenty);
  ASSERT_FALSE(corpus.ok());
  const Errors& errors = corpus.errors();
  ASSERT_EQ(errors.size(), 5U);
  const char* const kMessages[] = {
      "no such file or folder", "the file is empty", "the file holds NUL bytes: it is not a text",
      "the folder holds no text files", "neither a regular file nor a folder"};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(errors[i].file, paths[i]);
    EXPECT_EQ(errors[i].message, kMessages[i]);
  }
}

TEST(Corpus, MoreThanTheLimitIsRefused) {
  const TemporaryFolder folder;
  folder.write("a", "12345");
  folder.write("b", "67890");
  EXPECT_TRUE(read(folder.path(), Bytes(10)).ok());
  const auto corpus = read(folder.path(), Bytes(9));
  ASSERT_FALSE(corpus.ok());
  EXPECT_EQ(corpus.errors().front().file, folder.path("b"));
}

TEST(Corpus, ATokenOutsideTheVocabularyNamesFileOffsetAndValue) {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = {folder.write("a", "abc"), folder.write("b", "abz!")};
  const auto corpus = read_corpus(paths, kPlenty);
  EXPECT_TRUE(check_tokens(corpus.value(), 'z' + 1).ok());
  const Status status = check_tokens(corpus.value(), 'z');
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.errors().front().file, paths[1]);
  EXPECT_EQ(status.errors().front().message,
            "the byte at offset 2 is 122, outside the model's vocabulary of 122");
}

}  // namespace
}  // namespace mega::runtime
