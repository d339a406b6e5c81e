#include "planner/model/block_builder.h"

#include <utility>

#include "planner/model/rope.h"

namespace mega::planner {

BlockBuilder::BlockBuilder(const ModelSpec& model, std::string name) : model_(model) {
  block_.name = std::move(name);
}

TensorId BlockBuilder::activation(std::string name, std::string letters, DType dtype) {
  return block_.tensors.add({std::move(name), std::move(letters), TensorKind::Activation, dtype});
}

TensorId BlockBuilder::scalar(std::string name) {
  return block_.tensors.add({std::move(name), "", TensorKind::Scalar, DType::Fp64});
}

TensorId BlockBuilder::weight(const std::string& name, std::string letters, double std_dev,
                              bool is_tied) {
  Parameter normal;
  normal.initial_is_normal = true;
  normal.initial = std_dev;
  normal.weight_decay = true;
  normal.is_tied = is_tied;
  return parameter(name + ".weight", std::move(letters), normal);
}

TensorId BlockBuilder::vector(const std::string& name, std::string letters, double value) {
  Parameter constant;
  constant.initial = value;
  return parameter(name, std::move(letters), constant);
}

TensorId BlockBuilder::parameter(const std::string& name, std::string letters,
                                 Parameter parameter) {
  parameter.weight =
      block_.tensors.add({name, std::move(letters), TensorKind::Parameter, DType::Fp32});
  block_.parameters.push_back(parameter);
  return parameter.weight;
}

namespace {

std::uint32_t module_of(OpKind kind) {
  switch (kind) {
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      return static_cast<std::uint32_t>(Module::Norms);
    case OpKind::Gelu:
    case OpKind::GeluTanh:
    case OpKind::Relu2:
    case OpKind::SwiGlu:
    case OpKind::GeGlu:
      return static_cast<std::uint32_t>(Module::Activation);
    default:
      return 0;
  }
}

}  // namespace

void BlockBuilder::op(OpKind kind, std::string index, std::vector<TensorId> inputs,
                      std::vector<TensorId> outputs, const Attributes& attributes) {
  block_.forward.push_back({kind, std::move(index), std::move(inputs), std::move(outputs),
                            attributes, modules_ | module_of(kind), false});
}

TensorId BlockBuilder::norm(const std::string& parameter_name, const std::string& name,
                            TensorId x) {
  const std::string letters = letters_of(x);
  const std::string over = letters.substr(letters.size() - 1);
  const std::string rows = letters.substr(0, letters.size() - 1);
  const Attributes attributes{.epsilon = model_.norm_epsilon, .value = model_.norm_offset};
  std::vector<TensorId> inputs = {x,
                                  vector(parameter_name + ".weight", over, 1 - model_.norm_offset)};
  std::string index = letters + "," + over;
  const bool is_layer_norm = model_.norm == NormKind::LayerNorm;
  if (is_layer_norm && model_.bias_norm) {
    inputs.push_back(vector(parameter_name + ".bias", over, 0));
    index += "," + over;
  }
  std::vector<TensorId> outputs = {activation(name, letters)};
  index += "->" + letters + "," + rows;
  if (is_layer_norm) {
    outputs.push_back(activation(name + ".mean", rows));
    index += "," + rows;
  }
  outputs.push_back(activation(name + ".rstd", rows));
  const TensorId y = outputs[0];
  op(is_layer_norm ? OpKind::LayerNorm : OpKind::RmsNorm, std::move(index), std::move(inputs),
     std::move(outputs), attributes);
  return y;
}

TensorId BlockBuilder::linear(const std::string& parameter_name, const std::string& name,
                              TensorId x, const std::string& in, const std::string& out,
                              double std_dev, bool has_bias) {
  const TensorId w = weight(parameter_name, out + in, std_dev);
  const TensorId y = activation(has_bias ? name + ".product" : name, "sb" + out);
  op(OpKind::MatMul, "sb" + in + "," + out + in + "->sb" + out, {x, w}, {y});
  if (!has_bias) return y;
  const TensorId bias = vector(parameter_name + ".bias", out, 0);
  const TensorId biased = activation(name, "sb" + out);
  op(OpKind::AddBias, "sb" + out + "," + out + "->sb" + out, {y, bias}, {biased});
  return biased;
}

TensorId BlockBuilder::rope(const std::string& name, TensorId x) {
  const std::int64_t dims = model_.mla ? model_.mla->rope_dim : rotated_dims(model_);
  Attributes attributes = rope_attributes(model_, dims);
  if (model_.rope_fraction < 1) attributes.limit = dims;
  return unary(OpKind::Rope, name, x, attributes);
}

TensorId BlockBuilder::unary(OpKind kind, const std::string& name, TensorId x,
                             const Attributes& attributes) {
  const std::string letters = letters_of(x);
  const TensorId y = activation(name, letters);
  op(kind, letters + "->" + letters, {x}, {y}, attributes);
  return y;
}

TensorId BlockBuilder::binary(OpKind kind, const std::string& name, TensorId a, TensorId b) {
  const std::string letters = letters_of(a);
  const TensorId y = activation(name, letters);
  op(kind, letters + "," + letters + "->" + letters, {a, b}, {y});
  return y;
}

}  // namespace mega::planner
