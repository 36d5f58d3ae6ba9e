// The latents that members keep, over HTTP. As routes.h says of all.
//
//   GET /v1/latents, GET and DELETE /v1/latents/ID, POST /v1/latents/ID/share {"member": NAME}
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/answer.h"
#include "server/latents.h"

namespace lares::server {

class LatentRoutes {
 public:
  using FindMember = std::function<std::optional<MemberId>(std::string_view name)>;
  // `latents` must outlive every request.
  LatentRoutes(Latents& latents, FindMember members)
      : latents_(latents), members_(std::move(members)) {}

  // `rest`: what follows "/v1/latents/"; "" = all.
  void handle(const std::shared_ptr<Answer>& answer, std::string_view rest) const;

 private:
  void get(const std::shared_ptr<Answer>& answer, std::string_view rest) const;
  void remove(const std::shared_ptr<Answer>& answer, std::string_view rest) const;
  void post(const std::shared_ptr<Answer>& answer, std::string_view rest) const;
  // One that is there, of this caller; nothing: the answer has been given.
  std::optional<store::LatentRecord> own(const std::shared_ptr<Answer>& answer, std::string_view id,
                                         bool alone) const;

  Latents& latents_;
  const FindMember members_;
};

}  // namespace lares::server
