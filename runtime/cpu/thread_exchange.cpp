// Transfers between members of a thread group: a rendezvous without a buffer. Whoever posts the
// second side of a transfer copies it, straight from the sender's memory to the receiver's.
#include <cstring>
#include <utility>

#include "runtime/cpu/thread_group.h"

namespace mega::runtime {
namespace {

constexpr std::uint64_t kMagic = 0x4d6567615472616e;

std::string described(const TransferCall& call, std::int64_t sequence) {
  return std::string(call.is_send ? "send" : "receive") + " number " + std::to_string(sequence) +
         " of " + std::to_string(call.bytes) + " bytes";
}

}  // namespace

Status ThreadGroup::exchange(int member, std::span<const TransferCall> transfers) {
  MEGA_TRY_STATUS(enter(member));
  Member& self = at(member);
  {
    const std::lock_guard lock(mutex_);
    post(member, transfers);
  }
  for (const Match& match : self.matches) {
    std::optional<Errors> wrong = copy(match);
    if (wrong) return fail(std::move(*wrong));
  }
  if (!self.matches.empty()) {
    const std::lock_guard lock(mutex_);
    for (const Match& match : self.matches) {
      complete(match.mine->member);
      complete(match.other->member);
    }
  }
  const Wake wake =
      sleep(self, [&self] { return self.unfinished.load(std::memory_order_acquire) == 0; });
  if (wake == Wake::Ready) return Ok{};
  Status status = wake == Wake::Deadline ? unreceived(member) : Status(alarm_.errors());
  withdraw(member);
  return status;
}

// Pairs each transfer with the oldest waiting other side, or lets it wait.
void ThreadGroup::post(int member, std::span<const TransferCall> transfers) {
  Member& self = at(member);
  self.posted.assign(transfers.size(), Posted{});
  self.matches.clear();
  self.matches.reserve(transfers.size());
  self.unfinished.store(static_cast<int>(transfers.size()), std::memory_order_relaxed);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const TransferCall& call = transfers[i];
    Channel& line = call.is_send ? channel(member, call.peer) : channel(call.peer, member);
    Posted& mine = self.posted[i];
    mine = {&call, member, kMagic, call.is_send ? line.sent++ : line.received++, nullptr};
    if (line.first != nullptr && line.first->call->is_send != call.is_send) {
      self.matches.push_back({&mine, line.first});
      line.first = line.first->next;
    } else if (line.first == nullptr) {
      line.first = line.last = &mine;
    } else {
      line.last->next = &mine;
      line.last = &mine;
    }
  }
}

std::optional<Errors> ThreadGroup::copy(const Match& match) {
  const Posted& mine = *match.mine;
  const Posted& other = *match.other;
  if (mine.magic != other.magic || mine.sequence != other.sequence ||
      mine.call->bytes != other.call->bytes) {
    return mismatch(mine.member, described(*mine.call, mine.sequence), other.member,
                    described(*other.call, other.sequence));
  }
  const TransferCall& from = mine.call->is_send ? *mine.call : *other.call;
  const TransferCall& to = mine.call->is_send ? *other.call : *mine.call;
  // An empty transfer may have no address.
  if (from.bytes > 0) std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes));
  return std::nullopt;
}

void ThreadGroup::complete(int member) {
  Member& owner = at(member);
  if (owner.unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) owner.bell.ring();
}

// The deadline passed: names the peers that have not come.
Status ThreadGroup::unreceived(int member) {
  std::string missing;
  {
    const std::lock_guard lock(mutex_);
    for (int peer = 0; peer < size(); ++peer) {
      for (const bool is_send : {true, false}) {
        const Channel& line = is_send ? channel(member, peer) : channel(peer, member);
        if (line.first == nullptr || line.first->member != member ||
            line.first->call->is_send != is_send) {
          continue;
        }
        missing += (missing.empty() ? "" : " and ") +
                   described(*line.first->call, line.first->sequence) +
                   (is_send ? " to " : " from ") + at(peer).label;
      }
    }
  }
  if (missing.empty()) missing = "a copy under way";
  return fail(failure(waited(member) + " in exchange " + name_ + " for " + missing));
}

// Leaves no pointer to this member's memory behind.
void ThreadGroup::withdraw(int member) {
  const std::lock_guard lock(mutex_);
  for (Channel& line : channels_) {
    if (line.first != nullptr && line.first->member == member) line.first = line.last = nullptr;
  }
}

}  // namespace mega::runtime
