#include "runtime/cpu/thread_comm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "tests/runtime/world.h"

namespace mega::runtime {
namespace {

// Deterministic values of mixed sizes, so that another order of addition gives other bits.
template <class T>
T value_of(int member, std::int64_t i) {
  const auto x = static_cast<double>((member * 7919 + i * 104729) % 1009 - 500);
  return static_cast<T>(x * std::pow(10.0, static_cast<double>((member + i) % 5)) / 3.0);
}

template <class T>
std::vector<T> values_of(int member, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(value_of<T>(member, i));
  return values;
}

template <class T>
T reduced(int size, std::int64_t i, Combine combine) {
  T result = value_of<T>(0, i);
  for (int m = 1; m < size; ++m) {
    const T other = value_of<T>(m, i);
    result = combine == Combine::Sum ? result + other : std::max(result, other);
  }
  return result;
}

template <class T>
constexpr DType kTypeOf = DType::Fp32;
template <>
constexpr DType kTypeOf<double> = DType::Fp64;

bool same_bits(const void* a, const void* b, std::size_t bytes) {
  return bytes == 0 || std::memcmp(a, b, bytes) == 0;
}

class Collectives : public testing::TestWithParam<std::tuple<int, std::int64_t>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  std::int64_t count() const { return std::get<1>(GetParam()); }
  void run(const std::function<void(Communicator&)>& body, std::uint64_t delay_seed = 0) {
    Alarm alarm;
    with_members(size(), {std::chrono::seconds(60), delay_seed}, alarm, body);
    EXPECT_FALSE(alarm.raised());
  }

  template <class T>
  void check_reductions(Combine combine, std::uint64_t delay_seed) {
    const int n = size();
    const std::int64_t all = n * count();
    std::vector<T> sums;
    for (std::int64_t i = 0; i < all; ++i) sums.push_back(reduced<T>(n, i, combine));
    const auto part_bytes = static_cast<std::size_t>(count()) * sizeof(T);
    run(
        [&](Communicator& comm) {
          std::vector<T> data = values_of<T>(comm.position(), all);
          std::vector<T> part(static_cast<std::size_t>(count()));
          EXPECT_TRUE(
              comm.reduce_scatter(data.data(), part.data(), count(), kTypeOf<T>, combine).ok());
          const T* expected = sums.data() + comm.position() * count();
          EXPECT_TRUE(same_bits(part.data(), expected, part_bytes));
          // In place, into the own part.
          std::vector<T> in_place = values_of<T>(comm.position(), all);
          T* own = in_place.data() + comm.position() * count();
          EXPECT_TRUE(comm.reduce_scatter(in_place.data(), own, count(), kTypeOf<T>, combine).ok());
          EXPECT_TRUE(same_bits(own, expected, part_bytes));
          EXPECT_TRUE(comm.all_gather(own, in_place.data(), count(), kTypeOf<T>).ok());
          EXPECT_TRUE(comm.all_reduce(data.data(), all, kTypeOf<T>, combine).ok());
          EXPECT_TRUE(same_bits(data.data(), sums.data(), sums.size() * sizeof(T)));
          EXPECT_TRUE(same_bits(data.data(), in_place.data(), sums.size() * sizeof(T)));
        },
        delay_seed);
  }
};

TEST_P(Collectives, ReductionsEqualPlainLoopsInMemberOrder) {
  check_reductions<float>(Combine::Sum, 0);
  check_reductions<double>(Combine::Sum, 0);
  check_reductions<float>(Combine::Max, 0);
}

TEST_P(Collectives, ReductionsGiveTheSameBitsUnderDelays) {
  check_reductions<float>(Combine::Sum, 1);
  check_reductions<float>(Combine::Sum, 2);
}

TEST_P(Collectives, AllGatherPlacesEachPart) {
  run([&](Communicator& comm) {
    const std::vector<float> in = values_of<float>(comm.position(), count());
    std::vector<float> out(static_cast<std::size_t>(size() * count()), -1);
    EXPECT_TRUE(comm.all_gather(in.data(), out.data(), count(), DType::Fp32).ok());
    for (int m = 0; m < size(); ++m) {
      const std::vector<float> part = values_of<float>(m, count());
      EXPECT_TRUE(same_bits(out.data() + m * count(), part.data(), part.size() * sizeof(float)));
    }
  });
}

TEST_P(Collectives, ExchangeMovesTransfersBothWaysAtOnce) {
  run([&](Communicator& comm) {
    const int next = (comm.position() + 1) % size();
    const int previous = (comm.position() + size() - 1) % size();
    std::vector<float> out = values_of<float>(comm.position(), count());
    std::vector<float> from_previous(out.size()), from_next(out.size());
    const std::int64_t bytes = count() * 4;
    // Receives last: with unbuffered sends, one at a time would lock (case F02).
    const TransferCall transfers[] = {{true, next, out.data(), bytes},
                                      {true, previous, out.data(), bytes},
                                      {false, previous, from_previous.data(), bytes},
                                      {false, next, from_next.data(), bytes}};
    EXPECT_TRUE(comm.exchange(transfers).ok());
    EXPECT_EQ(from_previous, values_of<float>(previous, count()));
    EXPECT_EQ(from_next, values_of<float>(next, count()));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives,
                         testing::Combine(testing::Range(1, 9),
                                          testing::Values<std::int64_t>(0, 1, 7, 1000)));

TEST(ThreadComm, LargeReductionsAreSharedAndExact) {
  constexpr std::int64_t kCount = 300'001;  // many blocks, a ragged last one
  std::vector<float> expected;
  for (std::int64_t i = 0; i < kCount; ++i) expected.push_back(reduced<float>(3, i, Combine::Sum));
  Alarm alarm;
  with_members(3, {}, alarm, [&](Communicator& comm) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<float> data = values_of<float>(comm.position(), kCount);
      EXPECT_TRUE(comm.all_reduce(data.data(), kCount, DType::Fp32, Combine::Sum).ok());
      EXPECT_EQ(data, expected);
    }
  });
}

TEST(ThreadComm, MaxKeepsNotANumber) {
  Alarm alarm;
  with_members(3, {}, alarm, [&](Communicator& comm) {
    // NaN in the first, a middle and the last addend.
    float data[3] = {1, 2, 3};
    data[comm.position()] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(comm.all_reduce(data, 3, DType::Fp32, Combine::Max).ok());
    for (const float value : data) EXPECT_TRUE(std::isnan(value));
  });
}

TEST(ThreadComm, TransfersOfOnePairMatchInOrder) {
  Alarm alarm;
  with_members(2, {std::chrono::seconds(60), 5}, alarm, [&](Communicator& comm) {
    for (int i = 0; i < 20; ++i) {
      int values[2] = {2 * i, 2 * i + 1};
      int received[2] = {-1, -1};
      if (comm.position() == 0) {
        const TransferCall calls[] = {{true, 1, &values[0], 4}, {true, 1, &values[1], 4}};
        EXPECT_TRUE(comm.exchange(calls).ok());
      } else {
        for (int& value : received) {  // one by one against a pair
          const TransferCall call{false, 0, &value, 4};
          EXPECT_TRUE(comm.exchange({&call, 1}).ok());
        }
        EXPECT_EQ(received[0], values[0]);
        EXPECT_EQ(received[1], values[1]);
      }
    }
  });
}

TEST(ThreadComm, ALoneSendBlocksUntilReceived) {
  std::atomic<bool> receiving{false};
  Alarm alarm;
  with_members(2, {}, alarm, [&](Communicator& comm) {
    int value = 1;
    const TransferCall call{comm.position() == 0, 1 - comm.position(), &value, 4};
    if (comm.position() == 1) {
      std::this_thread::yield();
      receiving = true;
    }
    EXPECT_TRUE(comm.exchange({&call, 1}).ok());
    EXPECT_TRUE(receiving.load());
  });
}

TEST(ThreadComm, MismatchedBytesNameBothSides) {
  Alarm alarm;
  with_members(2, {}, alarm, [&](Communicator& comm) {
    double value = 0;
    const TransferCall call{comm.position() == 0, 1 - comm.position(), &value,
                            comm.position() == 0 ? 8 : 4};
    EXPECT_FALSE(comm.exchange({&call, 1}).ok());
  });
  ASSERT_TRUE(alarm.raised());
  const std::string message = alarm.errors().front().message;
  EXPECT_NE(message.find("rank 0 (a=0)"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 1 (a=1)"), std::string::npos) << message;
  EXPECT_NE(message.find("of 8 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find("of 4 bytes"), std::string::npos) << message;
}

TEST(ThreadComm, MismatchedCollectivesNameBothSides) {
  Alarm alarm;
  with_members(2, {}, alarm, [&](Communicator& comm) {
    std::vector<float> data(8);
    const Status status = comm.position() == 0
                              ? comm.all_reduce(data.data(), 8, DType::Fp32, Combine::Sum)
                              : comm.all_gather(data.data() + 4, data.data(), 4, DType::Fp32);
    EXPECT_FALSE(status.ok());
  });
  ASSERT_TRUE(alarm.raised());
  const std::string message = alarm.errors().front().message;
  EXPECT_NE(message.find("all_reduce of 8 fp32"), std::string::npos) << message;
  EXPECT_NE(message.find("all_gather of 4 fp32"), std::string::npos) << message;
}

TEST(ThreadComm, ADeadlineNamesTheAbsentMember) {
  const auto begin = std::chrono::steady_clock::now();
  Alarm alarm;
  with_members(4, {std::chrono::milliseconds(50), 0}, alarm, [&](Communicator& comm) {
    if (comm.position() == 2) return;  // never comes
    float value = 1;
    EXPECT_FALSE(comm.all_reduce(&value, 1, DType::Fp32, Combine::Sum).ok());
    // After the alarm every call fails at once.
    EXPECT_FALSE(comm.all_reduce(&value, 1, DType::Fp32, Combine::Sum).ok());
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  ASSERT_TRUE(alarm.raised());
  const std::string message = alarm.errors().front().message;
  EXPECT_NE(message.find("waited 50.0 ms in all_reduce of 1 fp32 (sum)"), std::string::npos)
      << message;
  EXPECT_NE(message.find("for rank 2 (a=2)"), std::string::npos) << message;
}

TEST(ThreadComm, ADeadlineOfAnExchangeNamesTheTransfer) {
  Alarm alarm;
  with_members(2, {std::chrono::milliseconds(50), 0}, alarm, [&](Communicator& comm) {
    if (comm.position() == 1) return;
    float value = 1;
    const TransferCall call{true, 1, &value, 4};
    EXPECT_FALSE(comm.exchange({&call, 1}).ok());
  });
  ASSERT_TRUE(alarm.raised());
  const std::string message = alarm.errors().front().message;
  EXPECT_NE(message.find("send number 0 of 4 bytes to rank 1 (a=1)"), std::string::npos) << message;
}

TEST(ThreadComm, AnAlarmWakesEveryWaitingMember) {
  const auto begin = std::chrono::steady_clock::now();
  Alarm alarm;
  with_members(6, {}, alarm, [&](Communicator& comm) {
    float value = 1;
    if (comm.position() == 0) {
      alarm.raise(failure("rank 0 lost its mind"));
    } else if (comm.position() < 4) {
      EXPECT_FALSE(comm.all_reduce(&value, 1, DType::Fp32, Combine::Sum).ok());
    } else {
      const TransferCall call{false, 0, &value, 4};
      const Status status = comm.exchange({&call, 1});
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.errors().front().message, "rank 0 lost its mind");
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(ThreadComm, TwoCommunicatorsOfOneGroupProgressBesideEachOther) {
  // Each member uses them from two threads, in whatever order the threads come.
  Alarm alarm;
  ThreadWorld world({std::chrono::seconds(60), 3}, alarm);
  const auto first = world.connect("first", {"rank 0", "rank 1"});
  const auto second = world.connect("second", {"rank 0", "rank 1"});
  std::vector<std::thread> threads;
  for (const auto* communicators : {&first, &second}) {
    for (const auto& communicator : *communicators) {
      threads.emplace_back([&communicator] {
        for (int i = 0; i < 50; ++i) {
          float value = 1;
          EXPECT_TRUE(communicator->all_reduce(&value, 1, DType::Fp32, Combine::Sum).ok());
          EXPECT_EQ(value, 2);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mega::runtime
