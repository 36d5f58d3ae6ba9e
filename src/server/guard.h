// Who may speak to a server that asks for no key: programs on this machine, but no web page.
//
// A page in a browser on this machine can send requests to a loopback address. What it cannot do is
// choose the Host and Origin headers, so those are checked (DNS rebinding shows in Host, another
// site in Origin), and a body must be application/json, which a page cannot send without a
// preflight that we refuse. A proxy would make the whole network look local: forwarded requests are
// refused too.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "server/errors.h"
#include "server/http.h"

namespace lares::server {

// Nothing if the request may pass, else what to answer it with. Stable codes: `host_not_allowed`,
// `origin_not_allowed`, `preflight_refused`, `forwarded_needs_key`, `content_type`.
std::optional<ApiError> guard_keyless(const HttpRequest& request);

// The part of it that also holds for requests with a key: work is sent as JSON.
std::optional<ApiError> guard_body(const HttpRequest& request);

// True for "localhost", "127.1.2.3", "[::1]", each with or without a port.
bool is_loopback_authority(std::string_view authority);

}  // namespace lares::server
