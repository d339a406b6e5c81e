// The CPU as a device: one arena, one thread per queue.
//
// The thread that drives serves queue 0; each further queue in use has a thread of its own. With
// one queue everything runs inline. A queue that has to wait for another sleeps on a counter.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/dispatch.h"
#include "runtime/alarm.h"
#include "runtime/device.h"
#include "runtime/worker.h"

namespace mega::runtime {

struct CpuDeviceOptions {
  QueueSet queues{1};  // those that the rank's program uses
  int threads = 1;     // of the BLAS, per queue
  bool check = false;  // guards around the arena, poison instead of zeros
};

class CpuDevice final : public Device {
 public:
  CpuDevice(const CpuDeviceOptions& options, Alarm& alarm);

  Result<std::byte*> allocate(Bytes bytes) override;
  Bytes allocated() const override { return bytes_; }
  void poison(std::byte* data, Bytes bytes) override;
  Status check_guards() const override;

  Status drive(const Walk& walk) override;
  Status wait(int queue, int other, std::int64_t count) override;
  void run(int queue, const kernels::Call& call) override;
  void finish_instruction(int queue) override;

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  struct Queue {
    kernels::CpuStream stream;
    std::int64_t finished = 0;       // instructions; under mutex_
    std::unique_ptr<Worker> worker;  // none for the queue that the driver serves
  };

  Status run_queue(int queue);

  CpuDeviceOptions options_;
  Alarm& alarm_;
  std::unique_ptr<std::byte, Free> memory_;  // guard, arena, guard
  std::byte* arena_ = nullptr;
  Bytes bytes_;
  std::mutex mutex_;
  Bell changed_;
  const Walk* walk_ = nullptr;  // of the running drive
  std::vector<Queue> queues_;   // last: its threads use all of the above
};

}  // namespace mega::runtime
