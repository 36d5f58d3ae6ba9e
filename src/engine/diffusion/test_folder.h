// For tests: files, the starter model's folder, comparisons.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/test_folder.h"
#include "engine/diffusion/safetensors.h"

#ifndef LARES_SOURCE_DIR
#define LARES_SOURCE_DIR "."  // Where the header is compiled alone.
#endif

namespace lares::diffusion {

inline void write_file(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A safetensors file with this header and so many bytes of zeros.
inline std::string safetensors_bytes(const std::string& header, std::size_t data_bytes) {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return out + header + std::string(data_bytes, '\0');
}

inline const std::string kStarter = LARES_SOURCE_DIR "/models/starter/image/";
inline const std::string kStarterModel = kStarter + "starter-image";

// A folder in which every file is a link to the starter model's; remove a link before writing.
inline std::string linked_starter(const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path from(kStarterModel);
  const fs::path to(test_file(name));
  fs::create_directories(to);
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    const fs::path target = to / fs::relative(entry.path(), from);
    if (entry.is_directory()) {
      fs::create_directories(target);
    } else {
      fs::create_symlink(entry.path(), target);
    }
  }
  return to.string();
}

// Tensor `name` of golden/`file`.safetensors.
inline std::vector<float> golden(const std::string& file, const std::string& name) {
  const auto opened = Safetensors::open(kStarter + "golden/" + file + ".safetensors");
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
  const TensorInfo* tensor = opened ? opened->find(name) : nullptr;
  EXPECT_NE(tensor, nullptr) << file << " has no " << name;
  return tensor == nullptr ? std::vector<float>{} : opened->read(*tensor).value();
}

// |a - b| / |b|, in the Euclidean norm.
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

// The largest difference between two values.
inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  }
  return largest;
}

// Peak signal to noise ratio in dB; `peak` is the range of the values.
inline double psnr(std::span<const float> a, std::span<const float> b, double peak) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return 10 * std::log10(peak * peak * static_cast<double>(a.size()) / sum);
}

}  // namespace lares::diffusion
