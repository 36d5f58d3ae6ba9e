#include "core/archive.h"

#include <gtest/gtest.h>

namespace lares {
namespace {

enum class Colour : std::uint8_t { Red, Green };

struct Inner {
  std::string name;
  std::vector<std::int32_t> numbers;
};
template <class A>
void fields(A& a, Inner& inner) {
  a(inner.name);
  a(inner.numbers);
}

struct Outer {
  JobId job;
  Bytes bytes;
  Duration time{};
  Colour colour = Colour::Red;
  bool flag = false;
  double real = 0;
  std::optional<SeqId> seq;
  std::vector<Inner> inners;
};
template <class A>
void fields(A& a, Outer& o) {
  a(o.job);
  a(o.bytes);
  a(o.time);
  a(o.colour);
  a(o.flag);
  a(o.real);
  a(o.seq);
  a(o.inners);
}

Outer sample() {
  return {JobId{7}, Bytes{-3}, Duration{99}, Colour::Green,
          true,     0.5,       SeqId{4},     {{"x", {1, -2}}, {}}};
}

std::string written(const Outer& outer) {
  std::string out;
  ArchiveWriter write(out);
  write(outer);
  return out;
}

TEST(Archive, ValuesComeBack) {
  const std::string bytes = written(sample());
  Outer back;
  ArchiveReader in(bytes);
  in(back);
  EXPECT_TRUE(in.done());
  EXPECT_EQ(back.job, JobId{7});
  EXPECT_EQ(back.bytes, Bytes{-3});
  EXPECT_EQ(back.time, Duration{99});
  EXPECT_EQ(back.colour, Colour::Green);
  EXPECT_TRUE(back.flag);
  EXPECT_EQ(back.real, 0.5);
  EXPECT_EQ(back.seq, SeqId{4});
  ASSERT_EQ(back.inners.size(), 2U);
  EXPECT_EQ(back.inners[0].numbers, (std::vector<std::int32_t>{1, -2}));
}

TEST(Archive, TheFormIsLittleEndianAndFixed) {
  std::string out;
  ArchiveWriter write(out);
  write(std::uint32_t{0x01020304});
  write(std::string("ab"));
  write(std::optional<std::uint16_t>{});
  EXPECT_EQ(out, std::string("\x04\x03\x02\x01\x02\0\0\0ab\0", 11));
}

TEST(Archive, EveryTruncationFails) {
  const std::string bytes = written(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    Outer back;
    ArchiveReader in(std::string_view(bytes).substr(0, n));
    in(back);
    EXPECT_FALSE(in.ok()) << n;
  }
}

TEST(Archive, RestsAreNotDone) {
  const std::string bytes = written(sample()) + "x";
  Outer back;
  ArchiveReader in(bytes);
  in(back);
  EXPECT_TRUE(in.ok());
  EXPECT_FALSE(in.done());
}

TEST(Archive, CountsAreHeldAgainstWhatIsLeft) {
  std::string bytes("\xff\xff\xff\x7f", 4);
  std::vector<std::int64_t> numbers;
  ArchiveReader in(bytes);
  in(numbers);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(numbers.capacity(), 0U);
  std::vector<Inner> inners;
  ArchiveReader again(bytes);
  again(inners);
  EXPECT_FALSE(again.ok());
  EXPECT_EQ(inners.capacity(), 0U);
}

TEST(Archive, ABoolOfAnyByteIsTrueOrFalse) {
  const std::string bytes("\x02", 1);
  bool value = false;
  ArchiveReader in(bytes);
  in(value);
  EXPECT_TRUE(value);
}

TEST(Archive, RefuseStopsTheReading) {
  const std::string bytes(8, '\x01');
  std::uint32_t value = 0;
  ArchiveReader in(bytes);
  in(value);
  in.refuse();
  EXPECT_FALSE(in.ok());
  std::uint32_t after = 5;
  in(after);
  EXPECT_EQ(after, 5U);
  EXPECT_FALSE(in.done());
}

}  // namespace
}  // namespace lares
