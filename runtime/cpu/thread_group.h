// What the members of one thread communicator share. Internal to thread_comm.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/thread_comm.h"

namespace mega::runtime {

enum class CollectiveKind : std::uint8_t { AllReduce, ReduceScatter, AllGather };

// One member's side of a collective. `count` is that of the smaller operand.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::AllReduce;
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::Fp32;
  Combine combine = Combine::None;
};

std::string to_string(const CollectiveCall& call);  // "all_reduce of 7 fp32 (sum)"

// Does block `block` of the collective for all members. Blocks are independent of each other.
std::int64_t block_count(std::span<const CollectiveCall> calls);
void run_block(std::span<const CollectiveCall> calls, std::int64_t block);

class ThreadGroup {
 public:
  ThreadGroup(std::string name, std::vector<std::string> members, const ThreadWorldOptions& options,
              Alarm& alarm, Baton* baton);

  int size() const { return static_cast<int>(members_.size()); }
  Status collective(int member, const CollectiveCall& call);
  Status exchange(int member, std::span<const TransferCall> transfers);

 private:
  // One side of a transfer. Magic and sequence number travel as a header and are compared: they
  // tell a corrupted or skipped transfer from a wrong plan.
  struct Posted {
    const TransferCall* call = nullptr;
    int member = 0;
    std::uint64_t magic = 0;
    std::int64_t sequence = 0;  // how many the member has posted before on this channel
    Posted* next = nullptr;
  };
  // From one member to another. At most one side waits, in order; a member has one exchange at a
  // time, so all that wait are of the same call.
  struct Channel {
    Posted* first = nullptr;
    Posted* last = nullptr;
    std::int64_t sent = 0;
    std::int64_t received = 0;
  };
  struct Match {
    Posted* mine = nullptr;
    Posted* other = nullptr;
  };
  struct Member {
    Member(std::string label_, Alarm& alarm, std::mutex& mutex)
        : label(std::move(label_)), bell(alarm, mutex) {}
    std::string label;
    Bell bell;
    std::int64_t collectives = 0;
    std::atomic<int> unfinished{0};  // transfers of the running exchange
    std::vector<Posted> posted;      // their storage; keeps its capacity
    std::vector<Match> matches;
    std::int64_t operations = 0;  // drives the injected delays
  };
  enum class Phase : std::uint8_t {
    Gathering,  // members arrive
    Working,    // blocks are there to be claimed
    Done,
  };
  // Operation k uses rounds_[k % 2]: when all have arrived at k + 1, all have left k.
  struct Round {
    std::vector<CollectiveCall> calls;
    std::vector<char> has_come;
    int arrived = 0;
    std::int64_t blocks = 0;
    std::atomic<std::int64_t> next_block{0};
    std::atomic<std::int64_t> finished_blocks{0};
    std::atomic<Phase> phase{Phase::Gathering};
  };

  Member& at(int member) { return members_[static_cast<std::size_t>(member)]; }
  Channel& channel(int from, int to) {
    return channels_[static_cast<std::size_t>(from * size() + to)];
  }

  Status enter(int member);  // fails when the alarm is raised; injects delays
  // Until `ready`, which reads only atomics that change under the mutex.
  template <class Ready>
  Wake sleep(Member& member, Ready ready);
  Status fail(Errors errors);
  Errors mismatch(int a, const std::string& what_a, int b, const std::string& what_b);
  std::string waited(int member) const;  // "rank 3 (a=1) waited 600.00 s"

  std::optional<Errors> check_same(const Round& round);
  void start_round(Round& round, Round& other);
  void work(Round& round);
  Status absent(const Round& round, int member);

  void post(int member, std::span<const TransferCall> transfers);
  std::optional<Errors> copy(const Match& match);
  void complete(int member);  // under the mutex
  Status unreceived(int member);
  void withdraw(int member);

  std::string name_;
  const ThreadWorldOptions& options_;
  Alarm& alarm_;
  Baton* baton_;
  std::mutex mutex_;
  std::deque<Member> members_;  // a Bell cannot move
  std::array<Round, 2> rounds_;
  std::vector<Channel> channels_;
};

template <class Ready>
Wake ThreadGroup::sleep(Member& member, Ready ready) {
  constexpr int kSpins = 20;  // some hundred nanoseconds
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return Wake::Ready;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  if (baton_ != nullptr) baton_->drop();
  Wake wake = Wake::Ready;
  {
    std::unique_lock lock(mutex_);
    wake = member.bell.sleep(lock, Bell::Clock::now() + options_.deadline, ready);
  }
  if (baton_ != nullptr) baton_->take(0);
  return wake;
}

}  // namespace mega::runtime
