// Small, fixed hash functions: the same on every machine and in every release.
//
// Not cryptographic. Used where a value must be reproducible from its inputs: sampling noise,
// prefix block keys, test seeds.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lares {

// SplitMix64's finaliser (Steele, Lea, Flood 2014; constants by Stafford, variant 13): a bijection
// of 64-bit numbers whose every output bit depends on every input bit.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

constexpr std::uint64_t hash_combine(std::uint64_t a, std::uint64_t b) {
  return mix64(a ^ mix64(b));
}

// FNV-1a, 64 bits, finished by mix64.
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return mix64(h);
}

}  // namespace lares
