#include "server/image_form.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

std::string form(std::initializer_list<std::pair<std::string, std::string>> fields) {
  std::string body;
  for (const auto& [name, value] : fields)
    body += "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
  return body + "--b--\r\n";
}
constexpr std::string_view kType = "multipart/form-data; boundary=b";

TEST(ImageForm, FieldsKeepTheirKinds) {
  const auto json = image_form_json(kType, form({{"image[]", "abc"},
                                                 {"prompt", "7"},
                                                 {"n", "2"},
                                                 {"strength", "0.5"},
                                                 {"stream", "true"},
                                                 {"user", "eve"}}));
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json,
            R"({"image":"YWJj","prompt":"7","n":2,"strength":0.5,"stream":true,"user":"eve"})");
}

TEST(ImageForm, WhatMakesNoSenseIsNamed) {
  const auto param = [](std::initializer_list<std::pair<std::string, std::string>> fields) {
    const auto json = image_form_json(kType, form(fields));
    return json ? std::string("none") : json.error().param;
  };
  EXPECT_EQ(param({{"n", "two"}}), "n");
  EXPECT_EQ(param({{"n", ""}}), "n");
  EXPECT_EQ(param({{"stream", "yes"}}), "stream");
  EXPECT_EQ(param({{"prompt", "\xff"}}), "prompt");
  EXPECT_EQ(param({{"image", "a"}, {"image[]", "b"}}), "image");
  EXPECT_EQ(param({{"prompt", "a"}, {"prompt", "b"}}), "prompt");
  EXPECT_EQ(param({{"mask", "a"}}), "mask");
  EXPECT_EQ(param({{"strength", "0.25"}}), "none");
  EXPECT_EQ(image_form_json(kType, "no form").error().error_code, "form_malformed");
}

}  // namespace
}  // namespace lares::server
