// Which windows of the text a step trains on: a pure function of seed, step and global batch,
// whatever the layout.
//
//   windows   non-overlapping, of sequence_length + 1 bytes: inputs and, one later, labels
//   samples   numbered through all epochs: (step - 1) * global_batch + position
//   sample i of epoch e is window P_e(i); P_e is a keyed permutation of the windows
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/base/result.h"
#include "kernels/call.h"
#include "runtime/corpus.h"

namespace mega::runtime {

// A permutation of 0 .. size-1 that needs no table: a four-round Feistel network over the least
// even number of bits that holds `size`, walked along its cycle until it lands inside. At most 4
// values lie outside for each inside, so walks are short.
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch);
  std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::int64_t size_;
  std::uint64_t seed_;
  std::uint64_t epoch_;
  int half_bits_;
};

class Batches {
 public:
  // Fails when the text is shorter than one window. `corpus` must outlive the batches.
  static Result<Batches> over(const Corpus& corpus, std::int64_t sequence_length,
                              std::int64_t global_batch, std::int64_t seed);

  std::int64_t windows() const { return windows_; }
  // The batch of a step, 1 for the first. Valid until the next call.
  kernels::BatchView of_step(std::int64_t step);

 private:
  const Corpus* corpus_ = nullptr;
  std::int64_t window_bytes_ = 0;
  std::int64_t windows_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<std::int64_t> starts_;  // [global_batch]
};

}  // namespace mega::runtime
