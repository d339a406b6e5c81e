#include "runtime/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "tests/runtime/temporary_folder.h"
#include "tests/support/safetensors.h"

namespace mega::runtime {
namespace {

std::vector<GlobalTensor> tensors() {
  return {{"a.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"b", {}, {7}}, {"empty", {0, 4}, {}}};
}

TEST(Safetensors, ReadsBackAsWritten) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_safetensors(folder.path("x"), tensors()).ok());
  const auto stored = mega::testing::read_safetensors(folder.path("x"));
  ASSERT_EQ(stored.size(), 3U);
  EXPECT_EQ(stored.at("a.weight").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(stored.at("a.weight").dtype, "F32");
  EXPECT_EQ(stored.at("a.weight").as<float>(), tensors()[0].data);
  EXPECT_EQ(stored.at("b").as<float>(), std::vector<float>{7});
  EXPECT_TRUE(stored.at("empty").bytes.empty());
}

TEST(Safetensors, TheHeaderIsPaddedAndTheDataFollowsWithoutHoles) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_safetensors(folder.path("x"), tensors()).ok());
  std::ifstream file(folder.path("x"), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) +
                      (static_cast<std::size_t>(static_cast<unsigned char>(bytes[1])) << 8);
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(bytes[8], '{');
  EXPECT_EQ(bytes.size(), 8 + length + 7 * 4);  // seven numbers
  EXPECT_FALSE(std::filesystem::exists(folder.path("x.partial")));
}

TEST(Safetensors, AFailureLeavesNothingBehind) {
  const TemporaryFolder folder;
  const Status status = write_safetensors(folder.path("missing/x"), tensors());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.errors().front().file, folder.path("missing/x"));
  // The target is a folder: the rename fails, the old thing stays.
  std::filesystem::create_directories(folder.path("taken/inside"));
  EXPECT_FALSE(write_safetensors(folder.path("taken"), tensors()).ok());
  EXPECT_TRUE(std::filesystem::exists(folder.path("taken/inside")));
  EXPECT_FALSE(std::filesystem::exists(folder.path("taken.partial")));
}

}  // namespace
}  // namespace mega::runtime
