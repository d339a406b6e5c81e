// Writes the forward ops of one block of a model, with its tensors and parameters.
//
//   BlockBuilder b(model, "layer");
//   const TensorId normed = b.norm(names.norm1, "norm1", x);
//   const TensorId q = b.linear(names.q, "q", normed, "h", "grd", std_dev, has_bias);
// Every method returns the tensor that it makes. Letters are those of ir/op.h.
#pragma once

#include <string>
#include <vector>

#include "ir/model_graph.h"
#include "planner/spec/job_spec.h"

namespace mega::planner {

class BlockBuilder {
 public:
  BlockBuilder(const ModelSpec& model, std::string name);

  TensorId activation(std::string name, std::string letters, DType dtype = DType::Fp32);
  TensorId scalar(std::string name);
  // A matrix, initialized normally and decayed.
  TensorId weight(const std::string& name, std::string letters, double std_dev,
                  bool is_tied = false);
  // Biases and norm weights: one-dimensional in the Hugging Face layout, never decayed.
  TensorId vector(const std::string& name, std::string letters, double value);

  void op(OpKind kind, std::string index, std::vector<TensorId> inputs,
          std::vector<TensorId> outputs, const Attributes& attributes = {});

  // The ops that follow belong to the module, until leave(). Norms and activations do anyway.
  void enter(Module module) { modules_ |= static_cast<std::uint32_t>(module); }
  void leave(Module module) { modules_ &= ~static_cast<std::uint32_t>(module); }

  // The model's norm over the last letter of x.
  TensorId norm(const std::string& parameter_name, const std::string& name, TensorId x);
  // y = x W^T (+ b). `in` and `out` are the letters of the features.
  TensorId linear(const std::string& parameter_name, const std::string& name, TensorId x,
                  const std::string& in, const std::string& out, double std_dev, bool has_bias);
  // Rotary positions on q or k.
  TensorId rope(const std::string& name, TensorId x);
  // An op from x to a tensor of the same letters.
  TensorId unary(OpKind kind, const std::string& name, TensorId x,
                 const Attributes& attributes = {});
  TensorId binary(OpKind kind, const std::string& name, TensorId a, TensorId b);
  TensorId add(const std::string& name, TensorId a, TensorId b) {
    return binary(OpKind::Add, name, a, b);
  }

  Block take() { return std::move(block_); }
  Block& block() { return block_; }

 private:
  TensorId parameter(const std::string& name, std::string letters, Parameter parameter);
  std::string letters_of(TensorId id) const { return block_.tensors[id].letters; }

  const ModelSpec& model_;
  Block block_;
  std::uint32_t modules_ = 0;
};

}  // namespace mega::planner
