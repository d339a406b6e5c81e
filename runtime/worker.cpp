#include "runtime/worker.h"

#include <utility>

namespace mega::runtime {

Worker::Worker(std::function<void()> job) : job_(std::move(job)), thread_([this] { loop(); }) {}

Worker::~Worker() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !running_; });
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::start() {
  {
    // A job may tell others that it is done just before it returns.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !running_; });
    running_ = true;
  }
  changed_.notify_all();
}

void Worker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !running_; });
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return running_ || ends_; });
    if (ends_) return;
    lock.unlock();
    job_();
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace mega::runtime
