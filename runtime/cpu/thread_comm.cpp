#include "runtime/cpu/thread_comm.h"

#include <cstring>
#include <optional>
#include <utility>

#include "ir/base/check.h"
#include "runtime/cpu/thread_group.h"

namespace mega::runtime {
namespace {

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup& group, int member) : group_(group), member_(member) {}

  int position() const override { return member_; }
  int size() const override { return group_.size(); }

  Status all_reduce(void* data, std::int64_t count, DType dtype, Combine combine) override {
    return group_.collective(member_,
                             {CollectiveKind::AllReduce, data, data, count, dtype, combine});
  }
  Status reduce_scatter(const void* in, void* out, std::int64_t count, DType dtype,
                        Combine combine) override {
    return group_.collective(member_,
                             {CollectiveKind::ReduceScatter, in, out, count, dtype, combine});
  }
  Status all_gather(const void* in, void* out, std::int64_t count, DType dtype) override {
    return group_.collective(member_,
                             {CollectiveKind::AllGather, in, out, count, dtype, Combine::None});
  }
  Status exchange(std::span<const TransferCall> transfers) override {
    return group_.exchange(member_, transfers);
  }

 private:
  ThreadGroup& group_;
  int member_;
};

}  // namespace

ThreadWorld::ThreadWorld(ThreadWorldOptions options, Alarm& alarm, Baton* baton)
    : options_(options), alarm_(alarm), baton_(baton) {}

ThreadWorld::~ThreadWorld() = default;

std::vector<std::unique_ptr<Communicator>> ThreadWorld::connect(std::string name,
                                                                std::vector<std::string> members) {
  groups_.push_back(
      std::make_unique<ThreadGroup>(std::move(name), std::move(members), options_, alarm_, baton_));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int i = 0; i < groups_.back()->size(); ++i) {
    communicators.push_back(std::make_unique<ThreadCommunicator>(*groups_.back(), i));
  }
  return communicators;
}

}  // namespace mega::runtime
