// A short seeded sample of what tools/dev/fuzz-layouts looks at for as long as it is told to.
#include "tests/equality/random_layouts.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace mega::testing {
namespace {

class RandomLayouts : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("random_layouts_" + std::to_string(GetParam()) + "_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::error_code gone;
    std::filesystem::remove_all(folder_, gone);
  }
  std::filesystem::path folder_;
};

TEST_P(RandomLayouts, EqualOneRank) {
  RandomJob random(static_cast<std::uint64_t>(GetParam()));
  const LayoutCheck checker(folder_);
  constexpr int kJobs = 5;
  for (int found = 0; found < kJobs;) {
    const Settings settings = random.draw();
    if (!checker.is_legal(settings)) continue;
    const Verdict verdict = checker.check(settings, found == 0);
    EXPECT_EQ(verdict.kind, Verdict::Kind::Equal) << verdict.why << job_text(settings);
    ++found;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLayouts, ::testing::Range(1, 13));

TEST(ShrinkJobs, LeavesWhatMakesItFail) {
  const Settings large = {{"layout.pp", "8"},        {"layout.tp", "4"},
                          {"layout.zero", "3"},      {"model.layers", "9"},
                          {"model.family", "llama"}, {"model.moe.experts", "8"},
                          {"layout.ep", "2"}};
  const Settings small = shrink(large, [](const Settings& settings) {
    return settings.contains("layout.pp") && std::stoi(settings.at("layout.pp")) >= 3 &&
           settings.contains("model.layers") &&
           std::stoi(settings.at("model.layers")) >= std::stoi(settings.at("layout.pp"));
  });
  EXPECT_EQ(small, (Settings{{"layout.pp", "3"}, {"model.layers", "3"}}));
}

TEST(ShrinkJobs, AJobReadsAsItWasWritten) {
  EXPECT_EQ(job_text({{"layout.tp", "2"},
                      {"model.family", "llama"},
                      {"model.moe.experts", "4"},
                      {"model.moe.router.bias", "true"},
                      {"model.vocab", "61"}}),
            "layout:\n  tp: 2\nmodel:\n  family: llama\n  moe:\n    experts: 4\n    router:\n"
            "      bias: true\n  vocab: 61\n");
}

}  // namespace
}  // namespace mega::testing
