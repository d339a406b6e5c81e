// Moves data among the ranks of one group on one queue.
//
// Members are numbered by their position in the group, 0 .. size-1. Every member makes the same
// calls in the same order. Calls block until this member's part is done; a failure anywhere (a
// deadline that passes, an abort by another rank) ends every pending call with a Result that says
// which rank, its coordinates and the operation. One thread at a time uses a communicator.
#pragma once

#include <cstdint>
#include <span>

#include "ir/base/result.h"
#include "ir/op.h"
#include "ir/types.h"

namespace mega::runtime {

struct TransferCall {
  bool is_send = false;
  int peer = 0;  // position in the group; may be this member itself
  void* data = nullptr;
  std::int64_t bytes = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int position() const = 0;
  virtual int size() const = 0;

  // In place. Reduced by shard in member order 0 .. n-1, so that every transport gives the same
  // bits and every member the same result. Combine::Sum: fp32, fp64; Max: fp32.
  virtual Status all_reduce(void* data, std::int64_t count, DType dtype, Combine combine) = 0;
  // `in` has size() * count elements, `out` count: member i gets the i-th part. `out` may be the
  // own part of `in`.
  virtual Status reduce_scatter(const void* in, void* out, std::int64_t count, DType dtype,
                                Combine combine) = 0;
  // `in` has count elements, `out` size() * count. `in` may be the own part of `out`.
  virtual Status all_gather(const void* in, void* out, std::int64_t count, DType dtype) = 0;
  // All transfers progress together; returns when all are done. Nothing is buffered: a send is
  // done when it has been received. Between two members, sends match receives in order.
  virtual Status exchange(std::span<const TransferCall> transfers) = 0;
};

}  // namespace mega::runtime
