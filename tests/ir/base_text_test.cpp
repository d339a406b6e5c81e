#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ir/base/text.h"

namespace mega {
namespace {

TEST(Text, SplitKeepsEmptyPartsAndJoinUndoesIt) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
  EXPECT_EQ(join(split("tp-cp-dp", '-'), "-"), "tp-cp-dp");
  EXPECT_EQ(any_of({"1"}), "1");
  EXPECT_EQ(any_of({"1", "2", "4"}), "1, 2 or 4");
  EXPECT_EQ(any_of({}), "");
}

TEST(Text, EditDistanceCountsSwapsAsOne) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("hidden", "hiddne"), 1u);
}

TEST(Text, ClosestSuggestsOnlyWhatIsNear) {
  const std::vector<std::string> keys = {"hidden", "heads", "kv_heads", "tp", "pp"};
  EXPECT_EQ(closest("hiden", keys), "hidden");
  EXPECT_EQ(closest("kv-heads", keys), "kv_heads");
  EXPECT_EQ(closest("tpp", keys), "tp");  // ties go to the first
  EXPECT_EQ(closest("zz", keys), "");
  EXPECT_EQ(closest("dgx-a100", {"dgx-h100", "dgx-a100-80g"}), "dgx-a100-80g");
  EXPECT_EQ(closest("learning_rate", keys), "");
  EXPECT_EQ(closest(std::string(1 << 20, 'x'), keys), "");
}

TEST(Text, Utf8LengthRefusesOverlongFormsAndSurrogates) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xC3\xBC"), 2u);
  EXPECT_EQ(utf8_length("\xE2\x82\xAC"), 3u);
  EXPECT_EQ(utf8_length("\xF0\x9F\x98\x80"), 4u);
  for (const char* bad : {"", "\x80", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "\xE0\x80\x80", "\xF0\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(utf8_length(bad), 0u) << bad;
  }
}

TEST(Text, QuoteIsSafeToPrintAndBounded) {
  EXPECT_EQ(quote("tp"), "'tp'");
  EXPECT_EQ(quote("a\x1B[2J\nb\xFF"), "'a?[2J?b?'");
  EXPECT_LT(quote(std::string(1 << 20, 'x')).size(), 70u);
}

TEST(Text, IntegersAreStrict) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  for (const char* bad :
       {"", "-", "+1", "010", "1.0", "1e3", " 1", "1 ", "0x10", "1_000", "9223372036854775808"}) {
    EXPECT_FALSE(parse_integer(bad)) << bad;
  }
}

TEST(Text, RealsAreStrictAndFinite) {
  EXPECT_EQ(parse_real("3e-4"), 3e-4);
  EXPECT_EQ(parse_real("-0.5"), -0.5);
  for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "1,5", "1.5x", " 1", "0x1p3"}) {
    EXPECT_FALSE(parse_real(bad)) << bad;
  }
}

TEST(Text, FormattedRealsReadBackAsThemselves) {
  EXPECT_EQ(format_real(0.1), "0.1");
  EXPECT_EQ(format_real(1), "1");
  for (const double value : {1.0 / 3, 1e-5, 6.02214076e23, 5e-324, -0.0, 1e22}) {
    const auto back = parse_real(format_real(value));
    ASSERT_TRUE(back) << value;
    EXPECT_EQ(*back, value);
    EXPECT_EQ(std::signbit(*back), std::signbit(value));
  }
}

TEST(Text, BytesKnowBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("4096"), Bytes(4096));
  EXPECT_EQ(parse_bytes("80GiB"), Bytes(85899345920));  // 80 * 2^30
  EXPECT_EQ(parse_bytes("80 GB"), Bytes(80000000000));
  EXPECT_EQ(parse_bytes("1.5KiB"), Bytes(1536));
  EXPECT_EQ(parse_bytes("1e3B"), Bytes(1000));
  for (const char* bad : {"", "GiB", "80Gib", "80 G", "80giB", "1e30GiB", "nanGB", "8EiB", "80GB/s",
                          "80GiBB", "80iB"}) {
    EXPECT_FALSE(parse_bytes(bad)) << bad;
  }
}

TEST(Text, RatesAndTimesKnowTheirUnits) {
  EXPECT_EQ(parse_bandwidth("900GB/s"), BytesPerSecond(900e9));
  EXPECT_EQ(parse_bandwidth("1GiB/s"), BytesPerSecond(1073741824));
  EXPECT_EQ(parse_bandwidth("400Gb/s"), BytesPerSecond(50e9));  // bits
  EXPECT_EQ(parse_bandwidth("2.5e10"), BytesPerSecond(2.5e10));
  EXPECT_EQ(parse_seconds("5us"), Seconds(5e-6));
  EXPECT_EQ(parse_seconds("2.5ms"), Seconds(2.5e-3));
  EXPECT_EQ(parse_seconds("0.1"), Seconds(0.1));
  EXPECT_EQ(parse_flops("312TFLOPS"), FlopsPerSecond(312e12));
  EXPECT_EQ(parse_flops("312 TFLOP/s"), FlopsPerSecond(312e12));
  EXPECT_EQ(parse_flops("1EFLOPS"), FlopsPerSecond(1e18));
  EXPECT_EQ(parse_flops("312e12"), FlopsPerSecond(312e12));
  for (const char* bad : {"900GB", "/s", "900/s", "GB/s", "900Gi/s", "1e400GB/s"}) {
    EXPECT_FALSE(parse_bandwidth(bad)) << bad;
  }
  for (const char* bad : {"5 minutes", "us", "5Us", "5e"}) EXPECT_FALSE(parse_seconds(bad)) << bad;
  for (const char* bad : {"312TF", "T", "312T", "312tFLOPS"}) {
    EXPECT_FALSE(parse_flops(bad)) << bad;
  }
}

TEST(Text, Fnv1aHasThePublishedValues) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
}

TEST(ReadFile, RefusesWhatIsNoReadableFileOfModestSize) {
  const std::string folder = testing::TempDir();
  const std::string path = folder + "/mega_read_file_" + std::to_string(getpid());
  std::ofstream(path) << std::string(100, 'x');
  EXPECT_EQ(read_file(path, Bytes(100)).value().size(), 100u);
  EXPECT_EQ(read_file(path, Bytes(99)).errors()[0].message, "is larger than the limit of 99 B");
  EXPECT_EQ(read_file(path + "_missing", Bytes(99)).errors()[0].message, "no such file");
  EXPECT_EQ(read_file(folder, Bytes(99)).errors()[0].message, "is a directory, not a file");
  EXPECT_FALSE(read_file("/dev/zero", Bytes(1 << 20)).ok());
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const auto unreadable = read_file(path, Bytes(100));
  // Root may read everything.
  if (!unreadable.ok()) {
    EXPECT_EQ(unreadable.errors()[0].message, "cannot be opened: Permission denied");
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace mega
