#include <algorithm>
#include <barrier>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/alarm.h"
#include "runtime/cpu/thread_comm.h"
#include "tools/megabench_profile.h"

namespace mega::bench {
namespace {

using runtime::Communicator;
using runtime::TransferCall;

constexpr int kPair = 2;

// One call of one member. Buffers are its own.
using Operation =
    std::function<Status(Communicator&, std::vector<float>& a, std::vector<float>& b)>;

Status all_reduce(Communicator& communicator, std::vector<float>& a, std::vector<float>&) {
  return communicator.all_reduce(a.data(), static_cast<std::int64_t>(a.size()), DType::Fp32,
                                 Combine::Sum);
}

// Both send and both receive, as neighbours in the steady state do.
Status exchange(Communicator& communicator, std::vector<float>& a, std::vector<float>& b) {
  const int peer = 1 - communicator.position();
  const auto bytes = static_cast<std::int64_t>(a.size() * sizeof(float));
  const std::array<TransferCall, 2> transfers = {TransferCall{true, peer, a.data(), bytes},
                                                 TransferCall{false, peer, b.data(), bytes}};
  return communicator.exchange(transfers);
}

Result<Seconds> time_of(const Operation& operation, Bytes size, const Options& options) {
  runtime::Alarm alarm;
  runtime::ThreadWorld world({}, alarm);
  const auto members = world.connect("megabench", {"rank 0", "rank 1"});
  const auto count = static_cast<std::size_t>(size.count()) / sizeof(float);
  // Small messages are far below the clock's resolution and the scheduler's noise.
  const int calls = size.count() <= 65536 ? (options.quick ? 200 : 2000) : 4;
  const Seconds time = median_time(kPair, options.quick ? 15 : 41, [&](int rank) {
    struct Buffers {
      std::vector<float> a, b;
    };
    auto buffers = std::make_shared<Buffers>();
    buffers->a.assign(count, 1.0F);
    buffers->b.assign(count, 1.0F);
    Communicator* communicator = members[static_cast<std::size_t>(rank)].get();
    return [&operation, buffers, communicator, calls] {
      // A failure raises the world's alarm, where it is read below.
      for (int i = 0; i < calls; ++i)
        if (!operation(*communicator, buffers->a, buffers->b).ok()) return;
    };
  });
  if (alarm.raised()) return alarm.errors();
  return time / static_cast<double>(calls);
}

}  // namespace

Status measure_links(const Options& options, Profile& profile) {
  // A lone rank has no peer; its links are measured all the same, for plans of more ranks.
  const std::vector<std::int64_t> sizes = {64, 4096, 65536, std::int64_t{1} << 20,
                                           std::int64_t{8} << 20};
  const std::pair<const char*, Operation> operations[] = {{"all_reduce", all_reduce},
                                                          {"exchange", exchange}};
  for (const auto& [name, operation] : operations) {
    for (const std::int64_t size : sizes) {
      MEGA_TRY(const Seconds time, time_of(operation, Bytes(size), options));
      profile.links.push_back({name, Bytes(size), time});
    }
  }
  return Ok{};
}

Link fit_link(const std::vector<LinkTime>& times) {
  // A ring all_reduce of two is two messages of half the buffer, an exchange one of all of it:
  // as many bytes, twice the latency. Of the two the slower counts, so that a plan promises no
  // more than it holds.
  Link link{Seconds(0), BytesPerSecond(0)};
  for (const LinkTime& small : times) {
    const auto is_same = [&](const LinkTime& t) { return t.operation == small.operation; };
    const auto smaller = [&](const LinkTime& t) { return is_same(t) && t.bytes < small.bytes; };
    if (std::any_of(times.begin(), times.end(), smaller)) continue;
    const LinkTime* large = &small;
    for (const LinkTime& t : times)
      if (is_same(t) && t.bytes > large->bytes) large = &t;
    const double beyond = std::max(large->time.count() - small.time.count(), 1e-9);
    const BytesPerSecond bandwidth(static_cast<double>(large->bytes.count()) / beyond);
    const double messages = small.operation == "all_reduce" ? 2 : 1;
    link.latency = std::max(link.latency, small.time / messages);
    if (link.bandwidth.count() == 0 || bandwidth < link.bandwidth) link.bandwidth = bandwidth;
  }
  return link;
}

}  // namespace mega::bench
