#include "runtime/alarm.h"

#include <algorithm>
#include <utility>

namespace mega::runtime {

void Alarm::raise(Errors errors) {
  const std::lock_guard lock(mutex_);
  if (raised_.load(std::memory_order_relaxed)) return;
  errors_ = std::move(errors);
  raised_.store(true, std::memory_order_release);
  for (Bell* bell : bells_) {
    // Taking the mutex once means: whoever saw no alarm is asleep by now, so the ring reaches it.
    { const std::lock_guard sleeper(bell->mutex_); }
    bell->ring();
  }
}

Errors Alarm::errors() const {
  if (!raised()) return {};
  return errors_;  // never changes again; no lock, because callers may hold a bell's mutex
}

Bell::Bell(Alarm& alarm, std::mutex& mutex) : alarm_(alarm), mutex_(mutex) {
  const std::lock_guard lock(alarm_.mutex_);
  alarm_.bells_.push_back(this);
}

Bell::~Bell() {
  const std::lock_guard lock(alarm_.mutex_);
  std::erase(alarm_.bells_, this);
}

Bell::Clock::time_point no_deadline() {
  return Bell::Clock::now() + std::chrono::hours(24 * 365);
}

Errors failure(std::string message, std::string help) {
  Diagnostic diagnostic;
  diagnostic.message = std::move(message);
  diagnostic.help = std::move(help);
  return {std::move(diagnostic)};
}

}  // namespace mega::runtime
