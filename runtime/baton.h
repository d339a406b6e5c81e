// One operation at a time in the whole world (--serialize): a debugging aid that tells ordering
// bugs from bugs of the machine. Who holds the baton runs; who has to wait for a peer drops it
// first and takes it again afterwards, so plans whose operations need both sides still complete.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "runtime/alarm.h"

namespace mega::runtime {

class Baton {
 public:
  explicit Baton(Alarm& alarm) : bell_(alarm, mutex_) {}

  // Among those that wait, the lowest `position` goes first: program order where possible.
  // Returns at once, without the baton, when the alarm is raised.
  void take(std::int64_t position);
  void drop();

 private:
  std::mutex mutex_;
  Bell bell_;
  std::multiset<std::int64_t> waiting_;
  bool held_ = false;
};

}  // namespace mega::runtime
