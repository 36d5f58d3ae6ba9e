// For tests: writes tiny models of other kinds than the starter model, with noise for weights and
// the starter model's tokenizer. Their text means nothing; how their memory behaves is what counts.
#pragma once

#include <cmath>
#include <initializer_list>
#include <string>

#include <ggml.h>
#include <gguf.h>

namespace lares::llm {

class TinyGguf {
 public:
  static constexpr int kWidth = 32, kLayers = 2, kVocabulary = 4096;

  // `starter` is the path of the starter model. Without `whole`, no tensor but what is added.
  TinyGguf(const std::string& starter, std::string architecture, bool whole = true)
      : architecture_(std::move(architecture)),
        file_(gguf_init_empty()),
        tensors_(ggml_init({.mem_size = 16U << 20U, .mem_buffer = nullptr, .no_alloc = false})) {
    gguf_init_params params{};
    params.no_alloc = true;
    gguf_context* source = gguf_init_from_file(starter.c_str(), params);
    gguf_set_kv(file_, source);
    gguf_free(source);
    gguf_set_val_str(file_, "general.architecture", architecture_.c_str());
    set("block_count", kLayers);
    set("context_length", 256);
    set("embedding_length", kWidth);
    gguf_set_val_f32(file_, (architecture_ + ".attention.layer_norm_rms_epsilon").c_str(), 1e-5F);
    if (!whole) return;
    tensor("token_embd.weight", {kWidth, kVocabulary});
    if (architecture_ != "bert") tensor("output_norm.weight", {kWidth}, 1);
  }
  TinyGguf(const TinyGguf&) = delete;
  TinyGguf& operator=(const TinyGguf&) = delete;
  ~TinyGguf() {
    ggml_free(tensors_);
    gguf_free(file_);
  }

  [[nodiscard]] gguf_context* file() const { return file_; }
  void set(const std::string& key, std::uint32_t value) {
    gguf_set_val_u32(file_, (architecture_ + "." + key).c_str(), value);
  }

  // Filled with `value`, or with noise where that is 0.
  void tensor(const std::string& name, std::initializer_list<std::int64_t> shape, float value = 0) {
    ggml_tensor* t =
        ggml_new_tensor(tensors_, GGML_TYPE_F32, static_cast<int>(shape.size()), shape.begin());
    ggml_set_name(t, name.c_str());
    auto* data = static_cast<float*>(t->data);
    for (std::int64_t i = 0; i < ggml_nelements(t); ++i) {
      noise_ = noise_ * 1664525U + 1013904223U;
      const float random = static_cast<float>(noise_ >> 8U) / 0x1p23F - 1.0F;
      data[i] = value != 0 ? value : random * 0.5F;
    }
    gguf_add_tensor(file_, t);
  }

  void layer_tensor(int layer, const std::string& name, std::initializer_list<std::int64_t> shape,
                    float value = 0) {
    tensor("blk." + std::to_string(layer) + "." + name, shape, value);
  }

  void write(const std::string& path) const { gguf_write_to_file(file_, path.c_str(), false); }

 private:
  std::string architecture_;
  gguf_context* file_;
  ggml_context* tensors_;
  std::uint32_t noise_ = 1;
};

// Mamba: a running state and no KV cache.
inline void write_tiny_mamba(const std::string& starter, const std::string& path) {
  constexpr int kInner = 64, kState = 8, kConvolution = 4, kRank = 4;
  TinyGguf file(starter, "mamba");
  file.set("ssm.conv_kernel", kConvolution);
  file.set("ssm.inner_size", kInner);
  file.set("ssm.state_size", kState);
  file.set("ssm.time_step_rank", kRank);
  file.set("attention.head_count", 0);
  file.set("feed_forward_length", 0);
  for (int i = 0; i < TinyGguf::kLayers; ++i) {
    file.layer_tensor(i, "attn_norm.weight", {TinyGguf::kWidth}, 1);
    file.layer_tensor(i, "ssm_in.weight", {TinyGguf::kWidth, 2 * kInner});
    file.layer_tensor(i, "ssm_conv1d.weight", {kConvolution, kInner});
    file.layer_tensor(i, "ssm_conv1d.bias", {kInner});
    file.layer_tensor(i, "ssm_x.weight", {kInner, kRank + 2 * kState});
    file.layer_tensor(i, "ssm_dt.weight", {kRank, kInner});
    file.layer_tensor(i, "ssm_dt.bias", {kInner});
    file.layer_tensor(i, "ssm_a", {kState, kInner}, -1);
    file.layer_tensor(i, "ssm_d", {kInner}, 1);
    file.layer_tensor(i, "ssm_out.weight", {kInner, TinyGguf::kWidth});
  }
  file.write(path);
}

// BERT: attends in both directions, so that it needs a whole text at once. `pooling` as llama.h's
// LLAMA_POOLING_TYPE_*.
inline void write_tiny_bert(const std::string& starter, const std::string& path,
                            std::uint32_t pooling) {
  constexpr int kForward = 64, kContext = 256;
  TinyGguf file(starter, "bert");
  file.set("attention.head_count", 2);
  file.set("feed_forward_length", kForward);
  file.set("pooling_type", pooling);
  gguf_set_val_bool(file.file(), "bert.attention.causal", false);
  gguf_set_val_f32(file.file(), "bert.attention.layer_norm_epsilon", 1e-5F);
  gguf_set_val_u32(file.file(), "tokenizer.ggml.token_type_count", 2);
  file.tensor("token_types.weight", {TinyGguf::kWidth, 2});
  file.tensor("position_embd.weight", {TinyGguf::kWidth, kContext});
  file.tensor("token_embd_norm.weight", {TinyGguf::kWidth}, 1);
  file.tensor("token_embd_norm.bias", {TinyGguf::kWidth});
  for (int i = 0; i < TinyGguf::kLayers; ++i) {
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      file.layer_tensor(i, std::string(name) + ".weight", {TinyGguf::kWidth, TinyGguf::kWidth});
      file.layer_tensor(i, std::string(name) + ".bias", {TinyGguf::kWidth});
    }
    file.layer_tensor(i, "ffn_up.weight", {TinyGguf::kWidth, kForward});
    file.layer_tensor(i, "ffn_up.bias", {kForward});
    file.layer_tensor(i, "ffn_down.weight", {kForward, TinyGguf::kWidth});
    file.layer_tensor(i, "ffn_down.bias", {TinyGguf::kWidth});
    for (const char* name : {"attn_output_norm", "layer_output_norm"}) {
      file.layer_tensor(i, std::string(name) + ".weight", {TinyGguf::kWidth}, 1);
      file.layer_tensor(i, std::string(name) + ".bias", {TinyGguf::kWidth});
    }
  }
  file.write(path);
}

// Gemma 2: every other layer attends only to the last `window` tokens. `pooling` other than 0 makes
// it an embedding model.
inline void write_tiny_gemma2(const std::string& starter, const std::string& path,
                              std::uint32_t window, std::uint32_t pooling = 0) {
  constexpr int kHead = 16, kForward = 64;
  TinyGguf file(starter, "gemma2");
  file.set("attention.head_count", 2);
  file.set("attention.head_count_kv", 1);
  file.set("attention.key_length", kHead);
  file.set("attention.value_length", kHead);
  file.set("attention.sliding_window", window);
  file.set("feed_forward_length", kForward);
  if (pooling != 0) file.set("pooling_type", pooling);
  for (int i = 0; i < TinyGguf::kLayers; ++i) {
    file.layer_tensor(i, "attn_norm.weight", {TinyGguf::kWidth}, 1);
    file.layer_tensor(i, "attn_q.weight", {TinyGguf::kWidth, 2 * kHead});
    file.layer_tensor(i, "attn_k.weight", {TinyGguf::kWidth, kHead});
    file.layer_tensor(i, "attn_v.weight", {TinyGguf::kWidth, kHead});
    file.layer_tensor(i, "attn_output.weight", {2 * kHead, TinyGguf::kWidth});
    file.layer_tensor(i, "post_attention_norm.weight", {TinyGguf::kWidth}, 1);
    file.layer_tensor(i, "ffn_norm.weight", {TinyGguf::kWidth}, 1);
    file.layer_tensor(i, "ffn_gate.weight", {TinyGguf::kWidth, kForward});
    file.layer_tensor(i, "ffn_up.weight", {TinyGguf::kWidth, kForward});
    file.layer_tensor(i, "ffn_down.weight", {kForward, TinyGguf::kWidth});
    file.layer_tensor(i, "post_ffw_norm.weight", {TinyGguf::kWidth}, 1);
  }
  file.write(path);
}

}  // namespace lares::llm
