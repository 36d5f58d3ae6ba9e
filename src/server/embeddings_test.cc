#include "server/embeddings.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

constexpr std::uint32_t kDepth = 32;

EmbedPrompt prompt_of(EmbedForm form, std::string_view body) {
  auto parsed = parse_embed_request(form, body, kDepth);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? std::get<EmbedPrompt>(parsed->generation.prompt) : EmbedPrompt{};
}

ApiError error_of(EmbedForm form, std::string_view body) {
  const auto parsed = parse_embed_request(form, body, kDepth);
  EXPECT_FALSE(parsed) << body;
  return parsed ? ApiError{} : parsed.error();
}

using Texts = decltype(EmbedPrompt::inputs);

TEST(EmbedRequest, WhatOpenAisClientsSend) {
  const auto whole = parse_embed_request(
      EmbedForm::OpenAi,
      R"({"model":"m","input":"hello","encoding_format":"base64","dimensions":8,"user":"x"})",
      kDepth);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->generation.model, "m");
  EXPECT_TRUE(whole->base64);
  EXPECT_EQ(std::get<EmbedPrompt>(whole->generation.prompt).dimensions, 8U);
  EXPECT_EQ(prompt_of(EmbedForm::OpenAi, R"({"input":["a","b"]})").inputs, (Texts{"a", "b"}));
  EXPECT_EQ(prompt_of(EmbedForm::OpenAi, R"({"input":[1,2]})").inputs,
            (Texts{std::vector<std::int32_t>{1, 2}}));
  EXPECT_EQ(prompt_of(EmbedForm::OpenAi, R"({"input":[[1,2],"x",[3]]})").inputs,
            (Texts{std::vector<std::int32_t>{1, 2}, "x", std::vector<std::int32_t>{3}}));
  EXPECT_FALSE(prompt_of(EmbedForm::OpenAi, R"({"input":"x"})").truncate);
}

TEST(EmbedRequest, WhatOllamasClientsSend) {
  const auto parsed = parse_embed_request(
      EmbedForm::Ollama, R"({"model":"m:latest","input":["a"],"keep_alive":"5m"})", kDepth);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->generation.model, "m");
  EXPECT_TRUE(std::get<EmbedPrompt>(parsed->generation.prompt).truncate);
  EXPECT_FALSE(prompt_of(EmbedForm::Ollama, R"({"input":"a","truncate":false})").truncate);
  EXPECT_EQ(prompt_of(EmbedForm::OllamaPrompt, R"({"prompt":"a"})").inputs, (Texts{"a"}));
}

TEST(EmbedRequest, WhatMakesNoSenseIsNamed) {
  for (const auto& [body, param] : std::vector<std::pair<const char*, const char*>>{
           {R"({})", "input"},
           {R"({"input":""})", "input"},
           {R"({"input":[]})", "input"},
           {R"({"input":["a",""]})", "input[1]"},
           {R"({"input":["a",5]})", "input[1]"},
           {R"({"input":[[1],[]]})", "input[1]"},
           {R"({"input":[1,-2]})", "input"},
           {R"({"input":[1,"a"]})", "input"},
           {R"({"input":{"a":1}})", "input"},
           {R"({"input":"a","dimensions":0})", "dimensions"},
           {R"({"input":"a","dimensions":"8"})", "dimensions"},
           {R"({"input":"a","encoding_format":"int8"})", "encoding_format"}}) {
    EXPECT_EQ(error_of(EmbedForm::OpenAi, body).param, param) << body;
  }
  EXPECT_EQ(error_of(EmbedForm::OllamaPrompt, R"({"prompt":""})").param, "prompt");
  EXPECT_EQ(error_of(EmbedForm::OpenAi, "{").error_code, "invalid_json");
  std::string many = R"({"input":["x")";
  for (int i = 1; i < 100000; ++i) many += R"(,"x")";
  const ApiError error = error_of(EmbedForm::OpenAi, many + "]}");
  EXPECT_NE(error.message.find("at most 2048 texts, not 100000"), std::string::npos)
      << error.message;
}

TEST(Embedding, Shortened) {
  EXPECT_EQ(shortened({0.6F, 0.0F, 0.8F}, 0), (std::vector<float>{0.6F, 0.0F, 0.8F}));
  EXPECT_EQ(shortened({0.6F, 0.0F, 0.8F}, 1), (std::vector<float>{1.0F}));
  EXPECT_EQ(shortened({0.0F, 1.0F}, 1), (std::vector<float>{0.0F}));
}

TEST(Embedding, Text) {
  EXPECT_EQ(embedding_text({0.5F, -1.25F, 0.0F}, false), "[0.5,-1.25,0]");
  EXPECT_EQ(embedding_text({}, false), "[]");
  // Of Python: base64.b64encode(struct.pack("<2f", 0.5, -1.25))
  EXPECT_EQ(embedding_text({0.5F, -1.25F}, true), "\"AAAAPwAAoL8=\"");
  EXPECT_EQ(embedding_text({0.5F}, true), "\"AAAAPw==\"");
  EXPECT_EQ(embedding_text({0.5F, -1.25F, 0.0F}, true), "\"AAAAPwAAoL8AAAAA\"");
}

TEST(Embedding, ErrorsOfBothForms) {
  ApiError error;
  error.message = "no \"such\" thing";
  EXPECT_EQ(embed_error(EmbedForm::Ollama, error).body, R"({"error":"no \"such\" thing"})");
  EXPECT_NE(embed_error(EmbedForm::OpenAi, error).body.find("invalid_request_error"),
            std::string::npos);
}

}  // namespace
}  // namespace lares::server
