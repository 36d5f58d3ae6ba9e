// IEEE half precision and bfloat16, to F32. Exact.
#pragma once

#include <bit>
#include <cstdint>

namespace lares::diffusion {

constexpr float float_of_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

constexpr float float_of_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13U));
  if (exponent == 0) {
    if (fraction == 0) return std::bit_cast<float>(sign);
    exponent = 1;
    while ((fraction & 0x400U) == 0) {  // Subnormal: F32 has room to normalise it.
      fraction <<= 1U;
      --exponent;
    }
    fraction &= 0x3ffU;
  }
  // The exponent may have gone below zero, in unsigned arithmetic: the sum is right all the same.
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
}

}  // namespace lares::diffusion
