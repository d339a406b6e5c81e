// Communicators among ranks that are threads of one process.
//
// Members meet in shared memory; nothing is copied twice and nothing is buffered. The last member
// to arrive at a collective finds all buffers published, so it starts at once; those who wake
// join in, block by block. Small ones are done by the last arriver alone: one wake-up each.
//
//   member 0  ──arrive, sleep──────────────────┐         ┌─ return
//   member 1  ──arrive, sleep────────┐         │ wake    │
//   member 2  ──arrive (last)── reduce block 0, 1, 2 ... done
//
// Each element is summed over members 0 .. n-1 in that order whoever does it: same bits always.
// Waits spin for well under a microsecond, then sleep: there may be more threads than cores.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/alarm.h"
#include "runtime/baton.h"
#include "runtime/communicator.h"

namespace mega::runtime {

struct ThreadWorldOptions {
  std::chrono::nanoseconds deadline = std::chrono::seconds(600);  // of one operation
  // A stress test: seeded random sleeps of up to 200 us before operations. 0: none.
  std::uint64_t delay_seed = 0;
};

class ThreadGroup;

class ThreadWorld {
 public:
  // A failure raises the alarm; the baton, if any, is dropped while a member waits.
  ThreadWorld(ThreadWorldOptions options, Alarm& alarm, Baton* baton = nullptr);
  ~ThreadWorld();

  // Makes one communicator per member, in member order. All are made before the first is used.
  // `name` and `members` are for messages: "along a on queue compute", "rank 3 (a=1,b=1)".
  std::vector<std::unique_ptr<Communicator>> connect(std::string name,
                                                     std::vector<std::string> members);

 private:
  ThreadWorldOptions options_;
  Alarm& alarm_;
  Baton* baton_;
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
};

}  // namespace mega::runtime
