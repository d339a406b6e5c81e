// Runs the members of one communicator as threads, for tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/alarm.h"
#include "runtime/cpu/thread_comm.h"

namespace mega::runtime {

// Calls body(communicator) for every member, each in a thread of its own.
inline void with_members(int size, const ThreadWorldOptions& options, Alarm& alarm,
                         const std::function<void(Communicator&)>& body) {
  ThreadWorld world(options, alarm);
  std::vector<std::string> labels;
  for (int i = 0; i < size; ++i) {
    labels.push_back("rank " + std::to_string(i) + " (a=" + std::to_string(i) + ")");
  }
  const auto communicators = world.connect("along a on queue compute", labels);
  std::vector<std::thread> threads;
  for (const auto& communicator : communicators) {
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace mega::runtime
