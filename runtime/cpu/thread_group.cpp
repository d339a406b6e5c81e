#include "runtime/cpu/thread_group.h"

#include <optional>
#include <thread>
#include <utility>

#include "ir/base/check.h"
#include "ir/base/units.h"

namespace mega::runtime {
namespace {

// Above this, waking sleepers to share the work costs less than they save.
constexpr std::int64_t kShareBytes = 256 * 1024;
// SplitMix64: a well-mixed number per (seed, member, operation).
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

ThreadGroup::ThreadGroup(std::string name, std::vector<std::string> members,
                         const ThreadWorldOptions& options, Alarm& alarm, Baton* baton)
    : name_(std::move(name)), options_(options), alarm_(alarm), baton_(baton) {
  for (std::string& label : members) members_.emplace_back(std::move(label), alarm, mutex_);
  const std::size_t count = members_.size();
  for (Round& round : rounds_) {
    round.calls.resize(count);
    round.has_come.resize(count, 0);
  }
  channels_.resize(count * count);
}

Status ThreadGroup::fail(Errors errors) {
  alarm_.raise(std::move(errors));
  return alarm_.errors();
}

std::string ThreadGroup::waited(int member) const {
  const std::chrono::duration<double> seconds = options_.deadline;
  return members_[static_cast<std::size_t>(member)].label + " waited " +
         to_string(Seconds(seconds.count()));
}

Status ThreadGroup::enter(int member) {
  if (alarm_.raised()) return alarm_.errors();
  if (options_.delay_seed != 0) {
    const auto operation = static_cast<std::uint64_t>(at(member).operations++);
    const std::uint64_t random =
        mixed(options_.delay_seed ^ mixed(static_cast<std::uint64_t>(member) << 32 ^ operation));
    if (random % 2 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random / 2 % 200));
    }
  }
  return Ok{};
}

Errors ThreadGroup::mismatch(int a, const std::string& what_a, int b, const std::string& what_b) {
  return failure(
      name_ + ": " + at(a).label + " calls " + what_a + ", " + at(b).label + " calls " + what_b,
      "all members of a group must make the same calls in the same order");
}

Status ThreadGroup::collective(int member, const CollectiveCall& call) {
  MEGA_TRY_STATUS(enter(member));
  Member& self = at(member);
  const auto parity = static_cast<std::size_t>(self.collectives++ % 2);
  Round& round = rounds_[parity];
  bool is_last = false;
  std::optional<Errors> wrong;
  {
    const std::lock_guard lock(mutex_);
    round.calls[static_cast<std::size_t>(member)] = call;
    round.has_come[static_cast<std::size_t>(member)] = 1;
    is_last = ++round.arrived == size();
    if (is_last) {
      wrong = check_same(round);
      if (!wrong) start_round(round, rounds_[1 - parity]);
    }
  }
  if (wrong) return fail(std::move(*wrong));
  const auto started = [&] {
    return round.phase.load(std::memory_order_acquire) != Phase::Gathering;
  };
  const auto done = [&] { return round.phase.load(std::memory_order_acquire) == Phase::Done; };
  if (!is_last) {
    const Wake wake = sleep(self, started);
    if (wake == Wake::Deadline) return absent(round, member);
    if (wake == Wake::Alarm) return alarm_.errors();
  }
  if (is_last || !done()) work(round);
  const Wake wake = sleep(self, done);
  if (wake == Wake::Deadline) return absent(round, member);
  if (wake == Wake::Alarm) return alarm_.errors();
  return Ok{};
}

// By the last to arrive, under the mutex. All have left the other round by now.
void ThreadGroup::start_round(Round& round, Round& other) {
  other.arrived = 0;
  other.has_come.assign(other.has_come.size(), 0);
  other.phase.store(Phase::Gathering, std::memory_order_relaxed);
  round.blocks = block_count(round.calls);
  round.next_block.store(0, std::memory_order_relaxed);
  round.finished_blocks.store(0, std::memory_order_relaxed);
  const CollectiveCall& call = round.calls[0];
  const std::int64_t parts = call.kind == CollectiveKind::AllReduce ? 1 : size();
  const std::int64_t bytes = call.count * parts * size_of(call.dtype);
  if (bytes <= kShareBytes || size() == 1 || baton_ != nullptr) return;
  round.phase.store(Phase::Working, std::memory_order_release);
  for (Member& member : members_) member.bell.ring();
}

void ThreadGroup::work(Round& round) {
  std::int64_t finished = 0;
  while (true) {
    const std::int64_t block = round.next_block.fetch_add(1, std::memory_order_relaxed);
    if (block >= round.blocks) break;
    run_block(round.calls, block);
    finished = round.finished_blocks.fetch_add(1, std::memory_order_acq_rel) + 1;
  }
  if (finished != round.blocks) return;  // not the one who finished the last
  const std::lock_guard lock(mutex_);
  round.phase.store(Phase::Done, std::memory_order_release);
  for (Member& member : members_) member.bell.ring();
}

std::optional<Errors> ThreadGroup::check_same(const Round& round) {
  const CollectiveCall& first = round.calls[0];
  for (int i = 1; i < size(); ++i) {
    const CollectiveCall& call = round.calls[static_cast<std::size_t>(i)];
    if (call.kind == first.kind && call.count == first.count && call.dtype == first.dtype &&
        call.combine == first.combine) {
      continue;
    }
    return mismatch(i, to_string(call), 0, to_string(first));
  }
  return std::nullopt;
}

// The deadline passed: names those who have not come.
Status ThreadGroup::absent(const Round& round, int member) {
  std::string missing;
  std::string call;
  {
    const std::lock_guard lock(mutex_);
    call = to_string(round.calls[static_cast<std::size_t>(member)]);
    for (int i = 0; i < size(); ++i) {
      if (round.has_come[static_cast<std::size_t>(i)] != 0) continue;
      missing += (missing.empty() ? "" : ", ") + at(i).label;
    }
  }
  if (missing.empty()) missing = "a member";
  return fail(failure(waited(member) + " in " + call + " " + name_ + " for " + missing));
}

}  // namespace mega::runtime
