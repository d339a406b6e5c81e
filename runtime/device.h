// Memory and queues of one rank.
//
// The executor walks a sequence and tells the device what to run on which queue. How many threads
// walk is the device's choice: a CPU has one per queue, each walking the whole sequence and
// running only its own instructions; a device with queues of its own is fed by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ir/base/result.h"
#include "ir/base/units.h"
#include "kernels/call.h"

namespace mega::runtime {

// A set of queues; bit i is queue i.
struct QueueSet {
  std::uint64_t bits = 0;
  bool contains(int queue) const { return (bits >> queue & 1U) != 0; }
};
inline constexpr int kMaxQueues = 64;

class Device {
 public:
  virtual ~Device() = default;

  // The one allocation of a rank. Zeroed; under --check filled with 0xFF and fenced by guards.
  virtual Result<std::byte*> allocate(Bytes bytes) = 0;
  virtual Bytes allocated() const = 0;  // usable bytes that allocate() handed out
  // Fills a part of the arena with 0xFF bytes, which read as NaN: whoever uses it shows.
  virtual void poison(std::byte* data, Bytes bytes) = 0;
  virtual Status check_guards() const = 0;  // fails when something wrote past the arena

  // Calls `walk` with disjoint sets that cover all queues, from as many threads as it takes;
  // returns when all have returned and all queues are empty. The counts of wait() start at 0.
  using Walk = std::function<Status(QueueSet)>;
  virtual Status drive(const Walk& walk) = 0;
  // Holds up `queue` until `count` instructions of queue `other` have finished.
  virtual Status wait(int queue, int other, std::int64_t count) = 0;
  virtual void run(int queue, const kernels::Call& call) = 0;
  virtual void finish_instruction(int queue) = 0;
};

}  // namespace mega::runtime
