#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

// The sum over all values of all letters, straight from the index string.
std::vector<double> einsum(KernelCall& call, const std::string& text) {
  const Index index = *parse_index(text);
  std::string letters = index.inputs[0];
  for (const char letter : index.inputs[1]) {
    if (letters.find(letter) == std::string::npos) letters += letter;
  }
  std::vector<double> c(call.out(0).size(), 0);
  std::vector<std::int64_t> at(letters.size(), 0);
  const auto offset = [&](const std::string& operand) {
    std::int64_t result = 0;
    for (const char letter : operand) {
      result = result * call.call.extents[letter] + at[letters.find(letter)];
    }
    return static_cast<std::size_t>(result);
  };
  const std::int64_t points = call.call.extents.product(letters);
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t rest = point;
    for (std::size_t i = letters.size(); i-- > 0; rest /= call.call.extents[letters[i]]) {
      at[i] = rest % call.call.extents[letters[i]];
    }
    c[offset(index.outputs[0])] += static_cast<double>(call.in(0)[offset(index.inputs[0])]) *
                                   static_cast<double>(call.in(1)[offset(index.inputs[1])]);
  }
  return c;
}

const char* const kIndices[] = {"sbh,nh->sbn",
                                "sbn,nh->sbh",
                                "sbn,sbh->nh",  // forward and its two backwards
                                "sbh,grdh->sbgrd",
                                "sbgrd,grdh->sbh",
                                "sbgrd,sbh->grdh",
                                "sbgrd,hgrd->sbh",
                                "sbh,hgrd->sbgrd",
                                "sbh,sbgrd->hgrd",
                                "hsb,hn->nsb",
                                "hs,nh->ns",
                                "sh,hn->ns",
                                "sh,nh->ns",
                                "s,n->sn",
                                "h,nh->n",
                                "h,h->"};

TEST(MatMul, MatchesTheIndexString) {
  for (const char* index : kIndices) {
    for (const char* sizes :
         {"s1 b1 h1 n1 g1 r1 d1", "s5 b2 h7 n3 g2 r3 d5", "s33 b1 h17 n33 g1 r1 d33"}) {
      for (const bool accumulate : {false, true}) {
        KernelCall call(OpKind::MatMul, index, sizes);
        std::vector<double> expected = einsum(call, index);
        if (accumulate) {
          const auto before = call.accumulate(0);
          for (std::size_t i = 0; i < before.size(); ++i) {
            expected[i] += static_cast<double>(before[i]);
          }
        }
        call.run();
        SCOPED_TRACE(std::string(index) + " " + sizes);
        expect_close(call.out(0), expected, 2e-6);
      }
    }
  }
}

TEST(MatMul, FusesABiasOfTheSecondOperandsLetters) {
  for (const char* index : {"sbh,grdh,grd->sbgrd", "hsb,hn,n->nsb", "sbf,hf,h->sbh"}) {
    for (const bool accumulate : {false, true}) {
      KernelCall call(OpKind::MatMul, index, "s5 b2 h7 n3 g2 r3 d5 f6");
      std::vector<double> expected = einsum(call, index);
      const std::size_t size = call.in(2).size();
      const bool is_first = std::string(index).find("->n") != std::string::npos;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] += static_cast<double>(call.in(2)[is_first ? i / 10 : i % size]);  // s b = 10
      }
      if (accumulate) {
        const auto before = call.accumulate(0);
        for (std::size_t i = 0; i < before.size(); ++i) {
          expected[i] += static_cast<double>(before[i]);
        }
      }
      call.run();
      SCOPED_TRACE(index);
      expect_close(call.out(0), expected, 2e-6);
    }
  }
}

Product product(const char* text) {
  Extents extents;
  for (char letter = 'a'; letter <= 'z'; ++letter) extents[letter] = letter - 'a' + 1;
  return product_of(*parse_index(text), extents);
}

TEST(Product, GroupsLetters) {
  // s 19, b 2, h 8, n 14
  EXPECT_EQ(product("sbh,nh->sbn"), (Product{38, 14, 8, false, true, false}));
  EXPECT_EQ(product("sbn,nh->sbh"), (Product{38, 8, 14, false, false, false}));
  EXPECT_EQ(product("sbn,sbh->nh"), (Product{14, 8, 38, true, false, false}));
  EXPECT_EQ(product("sbn,sbh->hn"), (Product{14, 8, 38, true, false, true}));
}

TEST(ProductDeathTest, RefusesWhatIsNoSingleProduct) {
  EXPECT_DEATH(product("shb,nh->sbn"), "alternate");
  EXPECT_DEATH(product("sbh,bnh->sbn"), "alternate");
  EXPECT_DEATH(product("sgr,nrg->sn"), "differ in order");
  EXPECT_DEATH(product("sbh,nh->bsn"), "no single product");
  EXPECT_DEATH(product("sbh,nh,h->sbn"), "bias");
}

TEST(MatMul, KeepsNan) {
  KernelCall call(OpKind::MatMul, "sh,nh->sn", "s3 h8 n5");
  call.in(0)[8] = std::numeric_limits<float>::quiet_NaN();
  call.run();
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(call.out(0)[i]), i / 5 == 1);
}

}  // namespace
}  // namespace mega::kernels
