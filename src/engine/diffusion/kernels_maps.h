// Bodies of the norm and GEGLU kernels, compiled once for each kind of processor; the rules of
// kernels_tile.h hold here as well.
#pragma once

#include "engine/diffusion/kernels_tile.h"

namespace lares::diffusion::LARES_KERNELS {

typedef int Integers __attribute__((vector_size(4 * LARES_LANES), aligned(4), may_alias));

// e^x to about 2 units in the last place: x = n ln 2 + r, and a polynomial for e^r (the constants
// are Cephes' expf, Moshier 1989).
inline void exponential(const float* in, float* out) {
  Vector x = *reinterpret_cast<const Vector*>(in);
  x = x < -87.3F ? x * 0 - 87.3F : x;
  x = x > 88.3F ? x * 0 + 88.3F : x;
  const Vector scaled = x * 1.44269504088896341F;
  const Vector half = scaled < 0 ? x * 0 - 0.5F : x * 0 + 0.5F;
  const Integers n = __builtin_convertvector(scaled + half, Integers);  // Towards zero.
  const Vector whole = __builtin_convertvector(n, Vector);
  const Vector r = (x - whole * 0.693359375F) - whole * -2.12194440e-4F;
  Vector p = 1.9875691500e-4F * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const Integers power = (n + 127) << 23;
  *reinterpret_cast<Vector*>(out) = p * *reinterpret_cast<const Vector*>(&power);
}

// x / (1 + e^-x)
inline void silu(float* values) {
  Vector x = *reinterpret_cast<const Vector*>(values);
  alignas(4 * LARES_LANES) float negative[kLanes], power[kLanes];
  *reinterpret_cast<Vector*>(negative) = -x;
  exponential(negative, power);
  *reinterpret_cast<Vector*>(values) = x / (1.0F + *reinterpret_cast<const Vector*>(power));
}

// x * (1 + erf(x / sqrt 2)) / 2, erf by Abramowitz and Stegun 7.1.26 (error below 1.5e-7).
inline void gelu(float* values) {
  const Vector x = *reinterpret_cast<const Vector*>(values);
  const Vector z = (x < 0 ? -x : x) * 0.70710678118654752F;
  const Vector t = 1.0F / (1.0F + 0.3275911F * z);
  Vector p = 1.061405429F * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  alignas(4 * LARES_LANES) float square[kLanes], power[kLanes];
  *reinterpret_cast<Vector*>(square) = -z * z;
  exponential(square, power);
  const Vector rest = p * t * *reinterpret_cast<const Vector*>(power);  // 1 - erf(z)
  *reinterpret_cast<Vector*>(values) = 0.5F * x * (x < 0 ? rest : 2.0F - rest);
}

// `apply` to all values, a vector at a time; the last few in a vector of their own.
template <class Apply>
inline void for_vectors(float* values, long count, Apply apply) {
  long i = 0;
  for (; i + kLanes <= count; i += kLanes) apply(values + i);
  if (i == count) return;
  float last[kLanes] = {};
  for (long k = i; k < count; ++k) last[k - i] = values[k];
  apply(last);
  for (long k = i; k < count; ++k) values[k] = last[k - i];
}

inline double sum_of(const float* values, long count) {
  double total = 0;
  for (long begin = 0; begin < count; begin += 1024) {  // In parts, so that F32 loses nothing.
    const long end = least(count, begin + 1024);
    Vector sums = {};
    long i = begin;
    for (; i + kLanes <= end; i += kLanes) sums += *reinterpret_cast<const Vector*>(values + i);
    for (long k = 0; k < kLanes; ++k) total += static_cast<double>(sums[k]);
    for (; i < end; ++i) total += static_cast<double>(values[i]);
  }
  return total;
}

inline double squares_of(const float* values, long count, float mean) {
  double total = 0;
  for (long begin = 0; begin < count; begin += 1024) {
    const long end = least(count, begin + 1024);
    Vector sums = {};
    long i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const Vector d = *reinterpret_cast<const Vector*>(values + i) - mean;
      sums += d * d;
    }
    for (long k = 0; k < kLanes; ++k) total += static_cast<double>(sums[k]);
    for (; i < end; ++i) total += static_cast<double>((values[i] - mean) * (values[i] - mean));
  }
  return total;
}

inline void norm(const NormJob& job, int ith, int nth) {
  const long width = job.channels / job.groups;
  const long values = width * job.area;
  for (long g = job.first + ith; g < job.first + job.count; g += nth) {
    const long channel = g % job.groups * width;
    const float* in = job.in + (g / job.groups * job.channels + channel) * job.area;
    float* out = job.out + (in - job.in);
    const auto mean = static_cast<float>(sum_of(in, values) / static_cast<double>(values));
    const double variance = squares_of(in, values, mean) / static_cast<double>(values);
    const auto scale =
        static_cast<float>(1.0 / __builtin_sqrt(variance + static_cast<double>(job.epsilon)));
    for (long c = 0; c < width; ++c) {
      const float a = scale * job.weight[channel + c];
      const float b = job.bias[channel + c] - mean * a;
      const float* from = in + c * job.area;
      float* to = out + c * job.area;
      for (long i = 0; i < job.area; ++i) to[i] = a * from[i] + b;
      if (job.silu) for_vectors(to, job.area, silu);
    }
  }
}

inline void geglu(const GegluJob& job, int ith, int nth) {
  float* gate = panel_scratch.room(job.width);
  for (long row = ith; row < job.rows; row += nth) {
    const float* in = job.in + row * 2 * job.width;
    float* out = job.out + row * job.width;
    for (long i = 0; i < job.width; ++i) gate[i] = in[job.width + i];
    for_vectors(gate, job.width, gelu);
    for (long i = 0; i < job.width; ++i) out[i] = in[i] * gate[i];
  }
}

}  // namespace lares::diffusion::LARES_KERNELS
