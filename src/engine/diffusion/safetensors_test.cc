#include "engine/diffusion/safetensors.h"

#include <limits>

#include <gtest/gtest.h>

#include "engine/diffusion/half.h"
#include "engine/diffusion/test_folder.h"

namespace lares::diffusion {
namespace {

Result<Safetensors> opened(const std::string& bytes) {
  const std::string path = test_file("case.safetensors");
  write_file(path, bytes);
  return Safetensors::open(path);
}

void expect_refused(const std::string& bytes, Code code, const std::string& part) {
  const auto result = opened(bytes);
  ASSERT_FALSE(result) << part;
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  EXPECT_NE(result.error().message.find("case.safetensors"), std::string::npos);
}

TEST(Half, EveryValueIsExact) {
  EXPECT_EQ(float_of_half(0x0000), 0.0F);
  EXPECT_EQ(float_of_half(0x3c00), 1.0F);
  EXPECT_EQ(float_of_half(0xc000), -2.0F);
  EXPECT_EQ(float_of_half(0x7bff), 65504.0F);
  EXPECT_EQ(float_of_half(0x0001), 0x1p-24F);
  EXPECT_EQ(float_of_half(0x03ff), 0x3ffp-24F);
  EXPECT_EQ(float_of_half(0x0400), 0x1p-14F);
  EXPECT_EQ(float_of_half(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(float_of_bfloat(0x3f80), 1.0F);
  EXPECT_EQ(float_of_bfloat(0xc0a0), -5.0F);
}

TEST(Safetensors, ReadsTheStarterModel) {
  const auto file = Safetensors::open(kStarterModel + "/vae/diffusion_pytorch_model.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  const TensorInfo* tensor = file->find("decoder.conv_in.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{64, 4, 3, 3}));
  EXPECT_EQ(tensor->type, DataType::F16);
  EXPECT_EQ(file->read(*tensor)->size(), 64U * 4 * 9);
  EXPECT_EQ(file->find("decoder.conv_in.weigh"), nullptr);
}

TEST(Safetensors, ReadsTypesAndAScalar) {
  const auto file = opened(safetensors_bytes(
      R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},"b":{"dtype":"F32","shape":[],)"
      R"("data_offsets":[0,4]},"__metadata__":{"format":"pt"}})",
      8));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 2U);
  EXPECT_EQ(*file->read(*file->find("b")), std::vector<float>{0.0F});
}

TEST(Safetensors, RefusesLies) {
  const std::string one = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  expect_refused("abc", Code::Corrupt, "too short");
  std::string lying = safetensors_bytes(one, 8);
  lying[1] = 1;  // 256 bytes more than there are.
  expect_refused(lying, Code::Corrupt, "says its header has");
  lying[7] = 0x7f;
  expect_refused(lying, Code::Corrupt, "says its header has");
  expect_refused(safetensors_bytes(std::string(Safetensors::kHeaderMax + 1, ' '), 0),
                 Code::TooLarge, "a header of");
  expect_refused(safetensors_bytes("[1]", 0), Code::Corrupt, "no JSON object");
  expect_refused(safetensors_bytes("{\"a\":", 0), Code::Corrupt, "no JSON object");
  expect_refused(safetensors_bytes(one, 7), Code::Corrupt, "tensor a: ends at byte 8");
  expect_refused(safetensors_bytes(one, 9), Code::Corrupt, "1 bytes of data belong to no tensor");
  const auto entry = [](const std::string& fields, std::size_t bytes) {
    return safetensors_bytes(R"({"a":{)" + fields + "}}", bytes);
  };
  expect_refused(entry(R"("dtype":"F32","shape":[2])", 8), Code::Corrupt, "tensor a: needs");
  expect_refused(entry(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])", 8), Code::Corrupt,
                 "F33");
  expect_refused(entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", 8), Code::Corrupt,
                 "a dimension");
  expect_refused(entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", 8), Code::Corrupt,
                 "its shape needs 12 bytes");
  expect_refused(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", 8), Code::Corrupt,
                 "make no sense");
  expect_refused(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
                 Code::Corrupt, "more elements");
  expect_refused(entry(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])", 4),
                 Code::Corrupt, "9 dimensions");
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  const auto two = [](const std::string& b) {
    return safetensors_bytes(
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":)"
        R"("F32","shape":[2],"data_offsets":)" +
            b + "}}",
        16);
  };
  EXPECT_TRUE(opened(two("[8,16]")));
  expect_refused(two("[4,12]"), Code::Corrupt, "tensor b: begins at byte 4");
  expect_refused(two("[12,20]"), Code::Corrupt, "tensor b: begins at byte 12");
  expect_refused(two("[0,8]"), Code::Corrupt, "begins at byte 0");
}

TEST(Safetensors, RefusesNanAndIntegers) {
  std::string bytes = safetensors_bytes(
      R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"i":{"dtype":"I32","shape":[1],)"
      R"("data_offsets":[4,8]}})",
      8);
  bytes[bytes.size() - 5] = 0x7e;  // The second half is NaN.
  const auto file = opened(bytes);
  ASSERT_TRUE(file) << file.error().message;
  const auto values = file->read(*file->find("a"));
  ASSERT_FALSE(values);
  EXPECT_NE(values.error().message.find("tensor a: value 1 is NaN"), std::string::npos);
  EXPECT_EQ(file->read(*file->find("i")).error().code, Code::Unsupported);
  EXPECT_EQ(*file->read_integers(*file->find("i")), std::vector<std::int64_t>{0});
}

TEST(Safetensors, SaysThatAFileIsMissing) {
  EXPECT_EQ(Safetensors::open("/nowhere/x.safetensors").error().code, Code::NotFound);
}

}  // namespace
}  // namespace lares::diffusion
