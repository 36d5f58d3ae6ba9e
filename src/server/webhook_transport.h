// How a webhook reaches its receiver: names to addresses, and one POST to one of them. Interfaces,
// so that what decides about deliveries runs in tests without a network; and the real ones.
//
// OpenSSL is confined to webhook_transport.cc. Blocking, within the deadline; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "server/http.h"
#include "server/webhook_address.h"

namespace lares::server {

class Resolver {
 public:
  virtual ~Resolver() = default;
  // Errors: Unavailable.
  virtual Result<std::vector<NetAddress>> resolve(const std::string& host) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // The status it was answered with. Certificates must be good for the URL's host. Errors:
  // Unavailable (nobody there, too late), Corrupt (no HTTP), Unsupported.
  virtual Result<int> post(const WebhookUrl& url, const NetAddress& address, const Headers& headers,
                           const std::string& body, Duration deadline) = 0;
};

std::unique_ptr<Resolver> system_resolver();
std::unique_ptr<Transport> socket_transport();

}  // namespace lares::server
