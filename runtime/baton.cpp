#include "runtime/baton.h"

namespace mega::runtime {

void Baton::take(std::int64_t position) {
  std::unique_lock lock(mutex_);
  const auto mine = waiting_.insert(position);
  const Wake wake =
      bell_.sleep(lock, no_deadline(), [&] { return !held_ && *waiting_.begin() == position; });
  waiting_.erase(mine);
  if (wake == Wake::Ready) held_ = true;
}

void Baton::drop() {
  {
    const std::lock_guard lock(mutex_);
    held_ = false;
  }
  bell_.ring();
}

}  // namespace mega::runtime
