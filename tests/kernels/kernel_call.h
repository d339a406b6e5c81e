// Runs one op on buffers of its own, for tests.
//
//   KernelCall call(OpKind::AddBias, "sbn,n->sbn", "s3 b2 n7");
//   call.run();
//   EXPECT_NEAR(call.out(0)[5], call.in(0)[5] + call.in(1)[5], 1e-6);
// Inputs start with random values in [-1, 1] (int32 and fp64 ones with 0 and 1), outputs with NaN,
// so that reading one by mistake shows. run() fails the test when a byte past an operand's end or
// an input that no output shares has changed.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "tests/kernels/expect_close.h"

namespace mega::kernels {

class KernelCall {
 public:
  KernelCall(OpKind kind, const std::string& index, const std::string& sizes, unsigned seed = 1)
      : index_(*parse_index(index)), random_(seed) {
    call.kind = kind;
    call.index = &index_;
    parse(sizes);
    for (std::size_t i = 0; i < index_.inputs.size(); ++i) {
      inputs_.push_back(make(index_.inputs[i], input_dtype(kind, i)));
      fill(inputs_.back());
    }
    for (std::size_t i = 0; i < index_.outputs.size(); ++i) {
      outputs_.push_back(make(index_.outputs[i], output_dtype(kind, i)));
      poison(outputs_.back());
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) call.inputs[i] = operand(inputs_[i]);
    for (std::size_t i = 0; i < outputs_.size(); ++i) call.outputs[i] = operand(outputs_[i]);
  }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;
  Call call;
  CpuStream stream;

  std::span<float> in(std::size_t i) { return view<float>(inputs_[i]); }
  std::span<std::int32_t> in_ints(std::size_t i) { return view<std::int32_t>(inputs_[i]); }
  double& in_scalar(std::size_t i) { return view<double>(inputs_[i])[0]; }
  std::span<float> out(std::size_t i) { return view<float>(outputs_[i]); }
  std::span<std::int32_t> out_ints(std::size_t i) { return view<std::int32_t>(outputs_[i]); }
  double& out_scalar(std::size_t i) { return view<double>(outputs_[i])[0]; }

  // Output `i` becomes the buffer of input `j`; read it as in(j) afterwards.
  void share(std::size_t i, std::size_t j) {
    call.outputs[i].data = call.inputs[j].data;
    inputs_[j].is_shared = true;
  }
  // Starts output `i` at random values, and has the op add to it; returns a copy.
  std::vector<float> accumulate(std::size_t i) {
    call.attributes.accumulate |= 1U << i;
    fill(outputs_[i]);
    const auto values = out(i);
    return {values.begin(), values.end()};
  }

  void run() {
    std::vector<std::vector<std::uint64_t>> before;
    for (const Storage& input : inputs_) before.push_back(input.words);
    dispatch(stream, call);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      EXPECT_TRUE(inputs_[i].is_shared || inputs_[i].words == before[i]) << "input " << i;
      check_end(inputs_[i], "input " + std::to_string(i));
    }
    for (const Storage& output : outputs_) check_end(output, "an output");
  }

 private:
  static constexpr std::size_t kGuardWords = 16;
  static constexpr std::uint8_t kGuard = 0xA5;

  struct Storage {
    Shape shape;
    DType dtype = DType::Fp32;
    std::size_t bytes = 0;
    std::vector<std::uint64_t> words;
    bool is_shared = false;
  };

  void parse(const std::string& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] >= 'a' && sizes[i] <= 'z')
        call.extents[sizes[i]] = std::stoll(sizes.substr(i + 1));
    }
  }

  Storage make(const std::string& letters, DType dtype) const {
    Storage storage{{}, dtype, 0, {}};
    for (const char letter : letters) storage.shape.push_back(call.extents[letter]);
    storage.bytes = static_cast<std::size_t>(bytes_of(dtype, storage.shape).count());
    storage.words.resize((storage.bytes + 7) / 8 + kGuardWords);
    std::memset(storage.words.data(), kGuard, storage.words.size() * 8);
    return storage;
  }

  void fill(Storage& storage) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    if (storage.dtype == DType::Fp32) {
      for (float& value : view<float>(storage)) value = uniform(random_);
    } else if (storage.dtype == DType::Int32) {
      for (std::int32_t& value : view<std::int32_t>(storage)) value = 0;
    } else {
      for (double& value : view<double>(storage)) value = 1;
    }
  }

  static void poison(Storage& storage) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    if (storage.dtype == DType::Fp32) {
      for (float& value : view<float>(storage)) value = static_cast<float>(kNan);
    } else if (storage.dtype == DType::Int32) {
      for (std::int32_t& value : view<std::int32_t>(storage)) value = -77;
    } else {
      for (double& value : view<double>(storage)) value = kNan;
    }
  }

  static Operand operand(Storage& storage) {
    return {storage.words.data(), storage.dtype, storage.shape};
  }

  template <class T>
  static std::span<T> view(Storage& storage) {
    return {reinterpret_cast<T*>(storage.words.data()), storage.bytes / sizeof(T)};
  }

  static void check_end(const Storage& storage, const std::string& what) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(storage.words.data());
    for (std::size_t i = storage.bytes; i < storage.words.size() * 8; ++i) {
      ASSERT_EQ(bytes[i], kGuard) << what << " is overrun by " << i - storage.bytes + 1 << " bytes";
    }
  }

  Index index_;
  std::mt19937 random_;
  std::vector<Storage> inputs_, outputs_;
};

}  // namespace mega::kernels
