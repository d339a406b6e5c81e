#include "runtime/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

namespace mega::runtime {
namespace {

TEST(CpuDevice, AllocatesAlignedZeros) {
  for (const std::int64_t bytes : {64, 4096, 8 << 20}) {
    Alarm alarm;
    CpuDevice device({}, alarm);
    const std::byte* arena = device.allocate(Bytes(bytes)).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena) % 64, 0U);
    EXPECT_EQ(device.allocated(), Bytes(bytes));
    EXPECT_EQ(std::count(arena, arena + bytes, std::byte{0}), bytes);
  }
}

TEST(CpuDevice, CheckedMemoryIsPoisonedAndFenced) {
  Alarm alarm;
  CpuDevice device({QueueSet{1}, 1, true}, alarm);
  std::byte* arena = device.allocate(Bytes(128)).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena) % 64, 0U);
  float first = 0;
  double last = 0;
  std::memcpy(&first, arena, sizeof first);
  std::memcpy(&last, arena + 120, sizeof last);
  EXPECT_TRUE(std::isnan(first));
  EXPECT_TRUE(std::isnan(last));
  std::memset(arena, 0, 128);
  EXPECT_TRUE(device.check_guards().ok());
  device.poison(arena + 64, Bytes(4));
  EXPECT_EQ(arena[63], std::byte{0});
  EXPECT_EQ(arena[67], std::byte{0xFF});
  EXPECT_EQ(arena[68], std::byte{0});

  arena[128] = std::byte{1};
  ASSERT_FALSE(device.check_guards().ok());
  EXPECT_EQ(device.check_guards().errors().front().message,
            "something wrote past the end of the arena");
  arena[128] = std::byte{0xA5};
  arena[-1] = std::byte{1};
  EXPECT_EQ(device.check_guards().errors().front().message,
            "something wrote before the start of the arena");
}

TEST(CpuDevice, OneQueueRunsInline) {
  Alarm alarm;
  CpuDevice device({}, alarm);
  std::thread::id walker;
  const Device::Walk walk = [&](QueueSet queues) -> Status {
    EXPECT_EQ(queues.bits, 1U);
    walker = std::this_thread::get_id();
    return Ok{};
  };
  EXPECT_TRUE(device.drive(walk).ok());
  EXPECT_EQ(walker, std::this_thread::get_id());
}

TEST(CpuDevice, EachQueueInUseHasAThreadAndWaitsForOthers) {
  Alarm alarm;
  CpuDevice device({QueueSet{0b1011}, 1, false}, alarm);
  std::mutex mutex;
  std::vector<int> order;
  std::set<std::thread::id> threads;
  // Queue 1 waits for two instructions of queue 3, queue 0 for one of queue 1.
  const Device::Walk walk = [&](QueueSet queues) -> Status {
    const auto note = [&](int queue) {
      {
        const std::lock_guard lock(mutex);
        order.push_back(queue);
        threads.insert(std::this_thread::get_id());
      }
      device.finish_instruction(queue);
    };
    if (queues.contains(0)) {
      MEGA_TRY_STATUS(device.wait(0, 1, 1));
      note(0);
    }
    if (queues.contains(1)) {
      MEGA_TRY_STATUS(device.wait(1, 3, 2));
      note(1);
    }
    if (queues.contains(3)) {
      note(3);
      note(3);
    }
    return Ok{};
  };
  for (int repeat = 0; repeat < 50; ++repeat) {  // the counts start anew each time
    order.clear();
    threads.clear();
    ASSERT_TRUE(device.drive(walk).ok());
    EXPECT_EQ(order, (std::vector<int>{3, 3, 1, 0}));
    EXPECT_EQ(threads.size(), 3U);
  }
}

TEST(CpuDevice, AFailureOnOneQueueEndsTheOthers) {
  Alarm alarm;
  CpuDevice device({QueueSet{0b11}, 1, false}, alarm);
  const Device::Walk walk = [&](QueueSet queues) -> Status {
    if (queues.contains(1)) return failure("no more");
    return device.wait(0, 1, 1);  // never
  };
  const Status status = device.drive(walk);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.errors().front().message, "no more");
}

TEST(Worker, RunsEachStartEvenOneThatComesBeforeTheJobReturns) {
  std::atomic<int> runs{0};
  Worker worker([&] { ++runs; });
  for (int i = 1; i <= 2000; ++i) {
    worker.start();  // the job may have counted and not yet returned
    while (runs.load() < i) std::this_thread::yield();
  }
  worker.wait();
  EXPECT_EQ(runs, 2000);
}

}  // namespace
}  // namespace mega::runtime
