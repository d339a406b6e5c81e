#include "kernels/embedding.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

void set_tokens(KernelCall& call, int vocabulary) {
  auto tokens = call.in_ints(0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * 7 % static_cast<std::size_t>(vocabulary));
  }
}

TEST(Embedding, CopiesRowsOfTheTable) {
  for (const char* sizes : {"s1 b1 v1 h1", "s7 b3 v5 h33"}) {
    KernelCall call(OpKind::Embedding, "sb,vh->sbh", sizes);
    set_tokens(call, static_cast<int>(call.call.extents['v']));
    call.run();
    const auto columns = static_cast<std::size_t>(call.call.extents['h']);
    for (std::size_t i = 0; i < call.out(0).size(); ++i) {
      const auto token = static_cast<std::size_t>(call.in_ints(0)[i / columns]);
      ASSERT_EQ(call.out(0)[i], call.in(1)[token * columns + i % columns]);
    }
  }
}

TEST(Embedding, PartsOfTheVocabularyAddUpToTheWhole) {
  KernelCall whole(OpKind::Embedding, "sb,vh->sbh", "s5 b3 v8 h7");
  set_tokens(whole, 8);
  whole.run();
  std::vector<float> total(whole.out(0).size(), 0);
  for (std::size_t part = 0; part < 4; ++part) {
    KernelCall call(OpKind::Embedding, "sb,vh->sbh", "s5 b3 v2 h7");
    set_tokens(call, 8);
    call.call.origin = static_cast<std::int64_t>(part) * 2;
    std::copy_n(whole.in(1).begin() + static_cast<std::ptrdiff_t>(part * 14), 14,
                call.in(1).begin());
    call.run();
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += call.out(0)[i];
  }
  for (std::size_t i = 0; i < total.size(); ++i) ASSERT_EQ(total[i], whole.out(0)[i]);
}

TEST(EmbeddingBackward, AddsUpTheGradientsOfEachToken) {
  for (const bool accumulate : {false, true}) {
    for (const std::int64_t origin : {0, 3}) {
      KernelCall call(OpKind::EmbeddingBackward, "sb,sbh->vh", "s9 b3 v4 h601");
      set_tokens(call, 8);
      call.call.origin = origin;
      std::vector<double> expected(call.out(0).size(), 0);
      if (accumulate) {
        const auto before = call.accumulate(0);
        expected.assign(before.begin(), before.end());
      }
      for (std::size_t token = 0; token < 27; ++token) {
        const std::int64_t row = call.in_ints(0)[token] - origin;
        if (row < 0 || row >= 4) continue;
        for (std::size_t i = 0; i < 601; ++i) {
          expected[static_cast<std::size_t>(row) * 601 + i] +=
              static_cast<double>(call.in(1)[token * 601 + i]);
        }
      }
      call.run();
      expect_close(call.out(0), expected, 1e-6);
    }
  }
}

}  // namespace
}  // namespace mega::kernels
