#include "kernels/matmul.h"

#include <string>
#include <string_view>

#include "ir/base/check.h"

namespace mega::kernels {
namespace {

struct Runs {
  std::string_view shared;  // letters that the other operand has too
  std::string_view own;     // letters that it lacks
  bool own_is_first = false;
};

// Takes `text` apart into the letters that `other` has and those that it lacks; each must be one
// run.
Runs split_runs(std::string_view text, std::string_view other) {
  const auto is_shared = [&](char letter) { return other.find(letter) != std::string_view::npos; };
  std::size_t cut = 0;
  while (cut < text.size() && is_shared(text[cut]) == is_shared(text[0])) ++cut;
  for (std::size_t i = cut; i < text.size(); ++i) {
    MEGA_CHECK(
        is_shared(text[i]) != is_shared(text[0]),
        "letters of '" + std::string(text) + "' alternate against '" + std::string(other) + "'");
  }
  const std::string_view first = text.substr(0, cut);
  const std::string_view second = text.substr(cut);
  if (!text.empty() && is_shared(text[0])) return {first, second, false};
  return {second, first, true};
}

}  // namespace

Product product_of(const Index& index, const Extents& extents) {
  MEGA_CHECK((index.inputs.size() == 2 || index.inputs.size() == 3) && index.outputs.size() == 1,
             std::to_string(index.inputs.size()) + " inputs");
  const std::string_view a = index.inputs[0];
  const std::string_view b = index.inputs[1];
  const std::string_view c = index.outputs[0];
  const Runs in_a = split_runs(a, b);  // shared: K, own: M
  const Runs in_b = split_runs(b, a);  // shared: K, own: N
  const Runs in_c = split_runs(c, a);  // shared: M, own: N
  const auto shown = [&] {             // built on failure only: a call allocates nothing
    return std::string(a) + "," + std::string(b) + "->" + std::string(c);
  };
  MEGA_CHECK(in_a.shared == in_b.shared, "contracted letters differ in order: " + shown());
  MEGA_CHECK(in_c.shared == in_a.own && in_c.own == in_b.own, "no single product: " + shown());
  MEGA_CHECK(index.inputs.size() == 2 || index.inputs[2] == in_b.own, "bias of: " + shown());
  return {extents.product(in_a.own), extents.product(in_b.own), extents.product(in_a.shared),
          !in_a.own_is_first,        in_b.own_is_first,         in_c.own_is_first};
}

}  // namespace mega::kernels
