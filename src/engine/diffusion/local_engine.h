// The engine of diffusion.h in this process: handles, the pass that runs, and what comes of it.
//
// Invariants:
//   1. At most one pass runs; its graph is marked running until the pass ends.
//   2. A handle of the pass that was released is kept in its place as nothing, so that the rows of
//      the others stay where they are.
//   3. held_ is the sum of what the objects hold, and at most LoadSpec::held_max.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "engine/diffusion/diffusion.h"
#include "engine/diffusion/networks.h"
#include "engine/diffusion/objects.h"
#include "engine/diffusion/tokenizer.h"

namespace lares::diffusion {

class LocalEngine final : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> load(const LoadSpec& spec);

  [[nodiscard]] ModelFacts facts() const override;
  Result<Prepared> prepare(const Work& work) override;
  Result<> step(std::span<const Handle> handles) override;
  Result<Sliced> slice(Duration most) override;
  Result<Image> deliver_image(Handle pixels) override;
  Result<LatentValues> deliver_latent(Handle latent) override;
  Result<std::vector<float>> deliver_words(Handle words) override;
  Result<std::vector<float>> deliver_values(Handle pixels) override;
  Result<Image> preview(Handle latent) override;
  Result<Handle> adopt(const LatentValues& latent) override;
  Result<Handle> resize(Handle latent, Size size) override;
  Result<Handle> blend(Handle a, Handle b, double share) override;
  Result<Handle> walk(Handle a, Handle b, double share) override;
  void release(Handle handle) override;
  Result<> set_threads(std::uint32_t threads) override;
  [[nodiscard]] MemoryHeld memory() const override;

 private:
  struct Pass {
    NetworkGraph* graph = nullptr;
    std::vector<std::optional<Handle>> handles;
  };

  LocalEngine(FolderConfig config, LoadSpec spec, Tokenizer tokenizer, Networks networks);

  Result<Prepared> prepare_one(const EncodeText& work);
  Result<Prepared> prepare_one(const Sample& work);
  Result<Prepared> prepare_one(const DecodeLatent& work);
  Result<Prepared> prepare_one(const EncodePixels& work);
  Result<SampleObject> make_sample(const Sample& work);
  Result<> start_latent(SampleObject& sample) const;
  Result<Handle> add(Object object);
  Result<Prepared> added(Object object, NetworkGraph* graph);
  Result<Handle> add_latent(Size size, std::vector<float> values);

  Result<Object*> find(Handle handle);
  // A finished latent, of whatever it was made.
  Result<LatentValues> clean_latent(Handle handle);
  Result<SharedValues> words_of(Handle handle);
  Result<std::pair<LatentValues, LatentValues>> pair_of(Handle a, Handle b, double share);

  [[nodiscard]] Result<> check_size(Size size) const;
  [[nodiscard]] LatentSize latent_size(Size size) const;
  [[nodiscard]] std::size_t latent_values(Size size) const;

  // Sets the inputs of a pass, and takes its output apart: one object for each row or pair of rows.
  Result<NetworkGraph*> graph_for(const std::vector<Object*>& objects);
  void set_inputs(NetworkGraph& graph, const std::vector<Object*>& objects) const;
  void set_sample_inputs(const Unet::Inputs& inputs, const std::vector<Object*>& objects) const;
  void take_output(Object& object, std::size_t index, std::size_t count,
                   const std::vector<float>& output) const;
  void advance_sample(SampleObject& sample, std::span<const float> rows) const;
  std::vector<Stepped> finish_pass();
  [[nodiscard]] bool abandoned() const;

  FolderConfig config_;
  LoadSpec spec_;
  Tokenizer tokenizer_;
  Networks networks_;
  std::map<Handle, Object> objects_;
  std::uint64_t next_handle_ = 1;
  Bytes held_;
  std::optional<Pass> pass_;
};

}  // namespace lares::diffusion
