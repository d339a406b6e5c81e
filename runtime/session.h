// Training of a plan in this process: all ranks, their memory, threads and communicators.
//
//   MEGA_TRY(auto session, Session::open(plan, options));   // may this plan run here?
//   MEGA_TRY_STATUS(session->start());                      // "init": weights and state
//   MEGA_TRY(StepResult result, session->train(batch));     // "train": one optimizer step
//
// A failure of start() or train() has stopped every rank; the session is then only good for
// reading and for destruction.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "runtime/alarm.h"
#include "runtime/baton.h"
#include "runtime/cpu/thread_comm.h"
#include "runtime/executor.h"
#include "runtime/tensors.h"

namespace mega::runtime {

struct SessionOptions {
  std::string name = "plan";                                      // of the plan's file, in messages
  std::chrono::nanoseconds deadline = std::chrono::seconds(600);  // of one communication
  bool check = false;                      // poison, guards, and after each step replicas
  bool serialize = false;                  // one operation at a time
  std::uint64_t delay_seed = 0;            // random delays before communication; 0: none
  std::optional<Bytes> memory_limit = {};  // of this host for all ranks; else measured
  InstructionHook before = {};
};

struct StepResult {
  std::int64_t step = 0;            // 1 for the first
  std::optional<double> loss = {};  // absent when the plan has no such scalar
  std::optional<double> grad_norm = {};
  double learning_rate = 0;
  Seconds time;
  std::optional<double> aux_loss = {};
};

class Session {
 public:
  // Verifies the plan, compares the sum of the arenas with the host's memory, allocates, and
  // makes all communicators in one global order.
  static Result<std::unique_ptr<Session>> open(Plan plan, SessionOptions options = {});
  ~Session();  // waits for ranks that are still inside an operation

  Status start();
  // `batch` must stay alive until the next step, after a failure until the session ends. A loss or
  // norm that is not finite is a failure.
  Result<StepResult> train(const kernels::BatchView& batch);

  const Plan& plan() const { return plan_; }
  std::int64_t steps() const { return steps_; }  // done
  Bytes allocated(int rank) const;               // what the rank's device handed out

  // Between steps. read() is one local buffer of one rank, `slot` where it lies in slots.
  Result<std::vector<std::byte>> read(int rank, const std::string& buffer,
                                      std::int64_t slot = 0) const;
  Result<std::vector<GlobalTensor>> gather(Role role) const;
  Status compare_replicas() const;

 private:
  struct Rank;

  Session(Plan plan, SessionOptions options);
  Status build();
  Status allocate(Rank& rank, int number);
  void connect();
  Status run_all(const std::string& sequence);
  Errors report() const;
  Status check_step() const;
  const double* scalar(const std::string& name, int rank) const;  // in the rank's arena

  Plan plan_;
  SessionOptions options_;
  Alarm alarm_;
  std::unique_ptr<Baton> baton_;
  std::unique_ptr<ThreadWorld> world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::byte*> arenas_;
  // All ranks that have such a scalar hold the same.
  struct ScalarOfRank {
    int rank = 0;
    const double* value = nullptr;
  };
  std::vector<ScalarOfRank> losses_, auxiliary_losses_, square_sums_;
  std::int64_t steps_ = 0;
  bool started_ = false;

  std::mutex mutex_;
  Bell bell_;
  std::condition_variable stopped_;
  std::string sequence_;  // that all ranks run
  int running_ = 0;       // ranks inside it; under mutex_
};

// The sum over all ranks, without overflow for any plan that parses.
Bytes arena_bytes_of_world(const Plan& plan);

}  // namespace mega::runtime
