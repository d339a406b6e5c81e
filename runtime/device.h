// Memory and queues of one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ir/base/result.h"
#include "kernels/call.h"

namespace mega::runtime {

class Device {
 public:
  virtual ~Device() = default;

  // The one allocation of a rank. Zeroed; poisoned under --check.
  virtual Result<std::byte*> allocate(std::int64_t bytes) = 0;

  // Queues run tasks in order, one at a time, beside each other. A task is a whole instruction
  // (the executor's closure over kernels and communicators) and returns its own failure.
  using Task = std::function<Status()>;
  virtual void issue(int queue, Task task) = 0;
  // Blocks queue `queue` (not the caller) until `count` tasks of queue `other` have finished.
  virtual void wait(int queue, int other, std::int64_t count) = 0;
  // Blocks the caller until all queues are empty; the first failure.
  virtual Status synchronize() = 0;

  virtual void run(int queue, const kernels::Call& call) = 0;
};

}  // namespace mega::runtime
