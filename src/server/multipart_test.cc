#include "server/multipart.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

constexpr std::string_view kXyz = "multipart/form-data; boundary=xyz";

TEST(Multipart, FieldsAndFiles) {
  const std::string body =
      "--xyz\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na red apple\r\n"
      "--xyz\r\ncontent-disposition: form-data; filename=\"a \\\"b\\\".png\"; name=image\r\n"
      "Content-Type: image/png\r\n\r\n\x89PNG\r\n\r\n--xy\r\n"
      "--xyz\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n"
      "--xyz--\r\n";
  const auto parts = read_multipart("Multipart/Form-Data; charset=utf-8; boundary=\"xyz\"", body);
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_EQ(parts->size(), 3U);
  EXPECT_EQ((*parts)[0].name, "prompt");
  EXPECT_EQ((*parts)[0].data, "a red apple");
  EXPECT_EQ((*parts)[0].file_name, "");
  EXPECT_EQ((*parts)[1].name, "image");
  EXPECT_EQ((*parts)[1].file_name, "a \"b\".png");
  EXPECT_EQ((*parts)[1].type, "image/png");
  EXPECT_EQ((*parts)[1].data, "\x89PNG\r\n\r\n--xy");
  EXPECT_EQ((*parts)[2].data, "");
}

TEST(Multipart, NothingIsAForm) {
  const auto parts = read_multipart(kXyz, "--xyz--");
  ASSERT_TRUE(parts);
  EXPECT_TRUE(parts->empty());
}

std::string with_head(const std::string& head) {
  return "--xyz\r\n" + head + "\r\n\r\ndata\r\n--xyz--\r\n";
}

TEST(Multipart, WhatIsAmbiguousIsRefused) {
  const std::string good = with_head("Content-Disposition: form-data; name=\"a\"");
  ASSERT_TRUE(read_multipart(kXyz, good));
  for (const std::string& type :
       {std::string("application/json"), std::string("multipart/form-data"),
        std::string("multipart/form-data; boundary="), std::string("multipart/form-data; boundary"),
        std::string("multipart/form-data; boundary=\"xyz"),
        "multipart/form-data; boundary=" + std::string(71, 'x'),
        std::string("multipart/form-data; boundary=x\ny"),
        std::string("multipart/mixed; boundary=xyz")})
    EXPECT_FALSE(read_multipart(type, good)) << type;
  for (const std::string& body :
       {std::string(),
        std::string("--xyz"),
        std::string("--xyz\r\n"),
        std::string("data"),
        "preamble\r\n" + good,
        good + "epilogue",
        good.substr(0, good.size() - 4),
        good.substr(0, good.size() / 2),
        with_head("name: a"),
        with_head(""),
        with_head("nothing"),
        with_head("Content-Disposition: form-data"),
        with_head("Content-Disposition: form-data; name=\"a"),
        with_head("Content-Disposition: form-data; name"),
        with_head("Content-Disposition: form-data; name=\"\""),
        with_head("Content-Disposition: form-data; name=\"\xff\""),
        with_head("Content-Disposition: attachment; name=\"a\""),
        with_head(
            "Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b"),
        with_head("Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64"),
        std::string("--xyz\nContent-Disposition: form-data; name=a\n\ndata\n--xyz--\n")})
    EXPECT_FALSE(read_multipart(kXyz, body)) << body;
}

TEST(Multipart, Limits) {
  std::string many;
  for (int i = 0; i < 65; ++i)
    many += "--xyz\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n";
  EXPECT_EQ(read_multipart(kXyz, many + "--xyz--").error().code, Code::TooLarge);
  const std::string head = "Content-Disposition: form-data; name=a\r\nX: " + std::string(5000, 'x');
  EXPECT_EQ(read_multipart(kXyz, with_head(head)).error().code, Code::TooLarge);
}

}  // namespace
}  // namespace lares::server
