#include "engine/diffusion/kernels.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/diffusion/half.h"
#include "engine/diffusion/noise.h"
#include "engine/diffusion/test_folder.h"

// The AVX-512 kernels' shape, in instructions that every processor has: so that their tiles are
// tested where AVX-512 is not.
#define LARES_KERNELS wide
#define LARES_LANES 16
#include "engine/diffusion/kernels_attention.h"
#include "engine/diffusion/kernels_gemm.h"

namespace lares::diffusion {
namespace {

constexpr Kernels kWide = {"wide", wide::gemm, wide::attention, wide::norm, wide::geglu};

using Values = std::vector<float>;

Values random(std::uint64_t seed, long count) {
  Values out(static_cast<std::size_t>(count));
  fill_noise(seed, 0, out);
  return out;
}

// Those that this processor runs.
std::vector<const Kernels*> runnable() {
  std::vector<const Kernels*> out = {plain_kernels(), &kWide};
  if (best_kernels() != plain_kernels() && avx2_kernels() != nullptr) out.push_back(avx2_kernels());
  if (best_kernels() == avx512_kernels()) out.push_back(avx512_kernels());
  return out;
}

// The definition, value by value, in double.
Values expected(const GemmJob& job, const Values& weight, std::size_t out_size) {
  Values out(out_size, -7.0F);
  const long taps = job.kernel * job.kernel, channels = job.depth / taps;
  for (long n = 0; n < job.images; ++n) {
    for (long o = 0; o < job.rows; ++o) {
      for (long y = job.first; y < job.first + job.count; ++y) {
        for (long x = 0; x < job.out_width; ++x) {
          const long at = job.tokens_out
                              ? ((n * job.out_height + y) * job.out_width + x) * job.rows + o
                              : ((n * job.rows + o) * job.out_height + y) * job.out_width + x;
          double sum = job.bias == nullptr ? 0 : job.bias[n * job.bias_step + o];
          if (job.residual != nullptr) sum += job.residual[at];
          for (long k = 0; k < job.depth; ++k) {
            const long c = k / taps, iy = y * job.stride + k % taps / job.kernel - job.pad;
            const long ix = x * job.stride + k % job.kernel - job.pad;
            const long height = job.in_height << job.doubled, width = job.in_width << job.doubled;
            if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
            const long from =
                job.tokens_in
                    ? ((n * job.in_height + iy) * job.in_width + ix) * job.depth + c
                    : ((n * channels + c) * job.in_height + (iy >> job.doubled)) * job.in_width +
                          (ix >> job.doubled);
            sum += double{weight[static_cast<std::size_t>(o * job.depth + k)]} * job.in[from];
          }
          out[static_cast<std::size_t>(at)] = static_cast<float>(sum);
        }
      }
    }
  }
  return out;
}

void check(GemmJob job, const std::string& what) {
  const long channels = job.depth / (job.kernel * job.kernel);
  const Values in = random(1, job.images * channels * job.in_width * job.in_height);
  const std::size_t out_size =
      static_cast<std::size_t>(job.images * job.rows * job.out_width * job.out_height);
  const Values bias = random(3, 2 * job.rows), residual = random(4, static_cast<long>(out_size));
  job.in = in.data();
  if (job.bias != nullptr) job.bias = bias.data();
  if (job.residual != nullptr) job.residual = residual.data();
  Values weight = random(2, job.rows * job.depth);
  std::vector<std::uint16_t> halves;
  if (job.half) {
    for (float& value : weight) {  // Small ones, subnormal ones, and either sign.
      const auto bits = static_cast<std::uint16_t>(std::min(15000.0F, std::abs(value) * 7000));
      halves.push_back(static_cast<std::uint16_t>(bits | (value < 0 ? 0x8000U : 0U)));
      value = float_of_half(halves.back());
    }
  }
  job.weight = job.half ? static_cast<const void*>(halves.data()) : weight.data();
  const Values right = expected(job, weight, out_size);
  for (const Kernels* kernels : runnable()) {
    for (const int threads : {1, 3}) {
      Values out(out_size, -7.0F);
      job.out = out.data();
      for (int i = threads - 1; i >= 0; --i) kernels->gemm(job, i, threads);
      EXPECT_LT(relative_error(out, right), 1e-6) << kernels->name << ": " << what;
    }
  }
}

constexpr float kSome = 0;

TEST(Kernels, ConvolveInEveryShape) {
  for (const long width : {1, 4, 7, 16, 37}) {
    for (const long kernel : {1, 3}) {
      GemmJob job{.rows = 13, .depth = 29 * kernel * kernel, .images = 2};
      job.in_width = job.out_width = width;
      job.in_height = job.out_height = 9;
      job.kernel = kernel;
      job.pad = kernel / 2;
      job.count = 9;
      check(job, "same size");
      job.bias = job.residual = &kSome;
      job.half = true;
      check(job, "halves, bias, residual");
      job.first = 2;
      job.count = 3;
      job.bias_step = job.rows;
      check(job, "a band, a bias for each image");
      job.tokens_out = true;
      check(job, "a band, to tokens");
    }
  }
}

TEST(Kernels, ConvolveWithStrides) {
  for (const long pad : {0, 1}) {
    GemmJob job{.rows = 5, .depth = 36, .images = 1};
    job.in_width = 18;
    job.in_height = 10;
    job.out_width = 9;
    job.out_height = job.count = 5;
    job.kernel = 3;
    job.stride = 2;
    job.pad = pad;
    check(job, pad == 0 ? "zeros on the right and below" : "zeros around");
  }
}

TEST(Kernels, ConvolveWhatIsDoubled) {
  for (const long width : {1, 4, 9, 20}) {
    GemmJob job{.rows = 7, .depth = 45, .images = 2};
    job.in_width = width;
    job.in_height = 3;
    job.out_width = 2 * width;
    job.out_height = job.count = 6;
    job.kernel = 3;
    job.pad = job.doubled = 1;
    check(job, "doubled");
  }
}

TEST(Kernels, MultiplyTokens) {
  for (const long tokens : {1, 5, 16, 150}) {
    GemmJob job{.rows = 70, .depth = 300, .tokens_in = true, .tokens_out = true, .images = 2};
    job.in_height = job.out_height = job.count = tokens;
    job.residual = &kSome;
    check(job, "tokens to tokens");
    job.tokens_out = false;
    job.half = true;
    check(job, "tokens to a map");
  }
}

TEST(Kernels, Attend) {
  for (const auto& [queries, keys, heads, causal] : {std::tuple{21L, 21L, 2L, true},
                                                     {40L, 7L, 3L, false},
                                                     {1L, 1L, 1L, false},
                                                     {33L, 300L, 2L, false}}) {
    const long channels = 11, width = heads * channels, images = 2;
    const Values q = random(1, images * queries * width), k = random(2, images * keys * width);
    const Values v = random(3, images * keys * width);
    AttentionJob job{.images = images,
                     .heads = heads,
                     .width = width,
                     .queries = queries,
                     .keys = keys,
                     .first = queries / 4,
                     .count = queries - queries / 4,
                     .scale = 0.4F,
                     .causal = causal};
    Values right(q.size(), -7.0F);
    for (long n = 0; n < images; ++n) {
      for (long h = 0; h < heads; ++h) {
        for (long i = job.first; i < queries; ++i) {
          std::vector<double> weight;
          double total = 0;
          for (long j = 0; j < (causal ? i + 1 : keys); ++j) {
            double dot = 0;
            for (long c = 0; c < channels; ++c) {
              dot +=
                  double{
                      q[static_cast<std::size_t>((n * queries + i) * width + h * channels + c)]} *
                  k[static_cast<std::size_t>((n * keys + j) * width + h * channels + c)];
            }
            weight.push_back(std::exp(0.4 * dot));
            total += weight.back();
          }
          for (long c = 0; c < channels; ++c) {
            double sum = 0;
            for (std::size_t j = 0; j < weight.size(); ++j) {
              sum += weight[j] / total *
                     v[static_cast<std::size_t>((n * width + h * channels + c) * keys) + j];
            }
            right[static_cast<std::size_t>((n * queries + i) * width + h * channels + c)] =
                static_cast<float>(sum);
          }
        }
      }
    }
    for (const Kernels* kernels : runnable()) {
      Values out(right.size(), -7.0F);
      job.q = q.data();
      job.k = k.data();
      job.v_turned = v.data();
      job.out = out.data();
      for (int i = 0; i < 3; ++i) kernels->attention(job, i, 3);
      EXPECT_LT(relative_error(out, right), 1e-6) << kernels->name << " " << queries;
    }
  }
}

TEST(Kernels, NormaliseGroups) {
  for (const long area : {1, 6, 64, 1500}) {
    NormJob job{.area = area,
                .channels = 12,
                .images = 2,
                .groups = 3,
                .first = 1,
                .count = 4,
                .epsilon = 1e-5F,
                .silu = true};
    Values in = random(5, area * 24), weight = random(6, 12), bias = random(7, 12);
    for (float& value : in) value += 3;
    Values right(in.size(), -7.0F);
    for (long g = 1; g < 5; ++g) {
      const std::size_t begin = static_cast<std::size_t>(g * 4 * area);
      const std::size_t count = static_cast<std::size_t>(4 * area);
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < count; ++i) mean += in[begin + i] / static_cast<double>(count);
      for (std::size_t i = 0; i < count; ++i) {
        variance += (in[begin + i] - mean) * (in[begin + i] - mean) / static_cast<double>(count);
      }
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t c =
            static_cast<std::size_t>(g % 3 * 4) + i / static_cast<std::size_t>(area);
        const double x = (in[begin + i] - mean) / std::sqrt(variance + 1e-5) * weight[c] + bias[c];
        right[begin + i] = static_cast<float>(x / (1 + std::exp(-x)));
      }
    }
    for (const Kernels* kernels : runnable()) {
      Values out(in.size(), -7.0F);
      job.in = in.data();
      job.out = out.data();
      job.weight = weight.data();
      job.bias = bias.data();
      for (int i = 0; i < 2; ++i) kernels->norm(job, i, 2);
      EXPECT_LT(largest_difference(out, right), 5e-6) << kernels->name << " " << area;
    }
  }
}

TEST(Kernels, GateByGelu) {
  const long width = 21, rows = 40;
  Values in = random(8, 2 * width * rows);
  for (float& value : in) value *= 3;
  in[0] = 1;
  in[static_cast<std::size_t>(width)] = 100;  // Far out, both ways.
  in[1] = 1;
  in[static_cast<std::size_t>(width) + 1] = -100;
  Values right;
  for (long row = 0; row < rows; ++row) {
    for (long i = 0; i < width; ++i) {
      const std::size_t at = static_cast<std::size_t>(row * 2 * width + i);
      const double gate = in[at + static_cast<std::size_t>(width)];
      right.push_back(
          static_cast<float>(in[at] * 0.5 * gate * (1 + std::erf(gate / std::sqrt(2)))));
    }
  }
  for (const Kernels* kernels : runnable()) {
    Values out(right.size());
    const GegluJob job{.in = in.data(), .out = out.data(), .width = width, .rows = rows};
    for (int i = 0; i < 3; ++i) kernels->geglu(job, i, 3);
    EXPECT_LT(largest_difference(out, right), 1e-5) << kernels->name;
  }
}

}  // namespace
}  // namespace lares::diffusion
