// The first failure stops everyone.
//
// One Alarm per run. Whoever fails raises it with the reason; only the first reason counts. Every
// thread that sleeps anywhere in the runtime sleeps at a Bell of this Alarm, so it wakes at once
// and returns. Nothing polls and nothing is left waiting for a peer that will not come.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ir/base/result.h"

namespace mega::runtime {

class Bell;

class Alarm {
 public:
  // Never while holding the mutex of a Bell.
  void raise(Errors errors);
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  Errors errors() const;  // of the first raise; empty before

 private:
  friend class Bell;
  std::mutex mutex_;
  std::atomic<bool> raised_{false};
  Errors errors_;
  std::vector<Bell*> bells_;
};

enum class Wake : std::uint8_t { Ready, Alarm, Deadline };

// Where threads sleep until a condition, which `mutex` guards, holds. Several bells may share a
// mutex, so that each member of a group can be woken alone.
class Bell {
 public:
  using Clock = std::chrono::steady_clock;

  Bell(Alarm& alarm, std::mutex& mutex);
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() { changed_.notify_all(); }

  template <class Ready>
  Wake sleep(std::unique_lock<std::mutex>& lock, Clock::time_point deadline, Ready ready) {
    while (!ready()) {
      if (alarm_.raised()) return Wake::Alarm;
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
        return ready() ? Wake::Ready : (alarm_.raised() ? Wake::Alarm : Wake::Deadline);
      }
    }
    return Wake::Ready;
  }

 private:
  friend class Alarm;
  Alarm& alarm_;
  std::mutex& mutex_;
  std::condition_variable changed_;
};

// A deadline for waits that have none of their own: another wait's deadline ends them.
Bell::Clock::time_point no_deadline();

// One failure without a place in a file.
Errors failure(std::string message, std::string help = {});

}  // namespace mega::runtime
