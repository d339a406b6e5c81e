// A thread that runs one fixed job each time it is started. Threads live as long as the session,
// so that a step creates none.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mega::runtime {

class Worker {
 public:
  explicit Worker(std::function<void()> job);
  ~Worker();  // waits for a running job
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start();  // once the job before has returned
  void wait();   // until the job started last is done

 private:
  void loop();

  std::function<void()> job_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;
  bool ends_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace mega::runtime
