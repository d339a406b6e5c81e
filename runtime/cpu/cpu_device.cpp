#include "runtime/cpu/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace mega::runtime {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr int kGuardByte = 0xA5;
constexpr int kPoisonByte = 0xFF;  // every fp32 and fp64 of these bytes is a NaN
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

void CpuDevice::Free::operator()(std::byte* data) const {
  std::free(data);  // of posix_memalign
}

CpuDevice::CpuDevice(const CpuDeviceOptions& options, Alarm& alarm)
    : options_(options), alarm_(alarm), changed_(alarm, mutex_) {
  for (int queue = 0; queue < kMaxQueues; ++queue) {
    if ((options.queues.bits >> queue) == 0) break;
    queues_.emplace_back();
    queues_.back().stream.threads = options.threads;
    if (queue == 0 || !options.queues.contains(queue)) continue;
    queues_.back().worker = std::make_unique<Worker>([this, queue] { (void)run_queue(queue); });
  }
}

Result<std::byte*> CpuDevice::allocate(Bytes bytes) {
  MEGA_CHECK(arena_ == nullptr, "a rank allocates once");
  const auto usable = static_cast<std::size_t>(bytes.count());
  const std::size_t guard = options_.check ? kGuardBytes : 0;
  const std::size_t alignment = usable >= 2 * kHugePage ? kHugePage : kGuardBytes;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, std::max(usable + 2 * guard, alignment)) != 0) {
    return failure("cannot allocate an arena of " + std::to_string(bytes.count()) + " bytes");
  }
  memory_.reset(static_cast<std::byte*>(memory));
  // Best effort: fewer misses of the address translation, same contents.
  if (alignment == kHugePage) (void)madvise(memory, usable + 2 * guard, MADV_HUGEPAGE);
  arena_ = memory_.get() + guard;
  bytes_ = bytes;
  std::memset(memory, kGuardByte, guard);
  std::memset(arena_, options_.check ? kPoisonByte : 0, usable);
  std::memset(arena_ + usable, kGuardByte, guard);
  return arena_;
}

void CpuDevice::poison(std::byte* data, Bytes bytes) {
  std::memset(data, kPoisonByte, static_cast<std::size_t>(bytes.count()));
}

Status CpuDevice::check_guards() const {
  if (!options_.check || arena_ == nullptr) return Ok{};
  const auto is_intact = [](std::byte byte) { return byte == std::byte{kGuardByte}; };
  const std::byte* end = arena_ + bytes_.count();
  if (!std::all_of(arena_ - kGuardBytes, arena_, is_intact)) {
    return failure("something wrote before the start of the arena");
  }
  if (!std::all_of(end, end + kGuardBytes, is_intact)) {
    return failure("something wrote past the end of the arena");
  }
  return Ok{};
}

Status CpuDevice::drive(const Walk& walk) {
  walk_ = &walk;
  for (Queue& queue : queues_) queue.finished = 0;
  for (Queue& queue : queues_) {
    if (queue.worker) queue.worker->start();
  }
  Status status = run_queue(0);
  for (Queue& queue : queues_) {
    if (queue.worker) queue.worker->wait();
  }
  if (alarm_.raised()) return alarm_.errors();
  return status;
}

Status CpuDevice::run_queue(int queue) {
  Status status = (*walk_)(QueueSet{std::uint64_t{1} << queue});
  if (!status.ok()) alarm_.raise(status.errors());
  return status;
}

Status CpuDevice::wait(int queue, int other, std::int64_t count) {
  if (queue == other) return Ok{};  // a queue runs in order
  std::unique_lock lock(mutex_);
  const Queue& awaited = queues_[static_cast<std::size_t>(other)];
  const Wake wake = changed_.sleep(lock, no_deadline(), [&] { return awaited.finished >= count; });
  if (wake == Wake::Alarm) return alarm_.errors();
  return Ok{};
}

void CpuDevice::run(int queue, const kernels::Call& call) {
  kernels::dispatch(queues_[static_cast<std::size_t>(queue)].stream, call);
}

void CpuDevice::finish_instruction(int queue) {
  {
    const std::lock_guard lock(mutex_);
    ++queues_[static_cast<std::size_t>(queue)].finished;
  }
  changed_.ring();
}

}  // namespace mega::runtime
