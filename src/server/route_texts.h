// What each route is for, in a sentence or two: the one source of docs/api-reference.md.
//
// Pure. A test holds it to the table of routes, in both directions, and the page to it.
#pragma once

#include <string>
#include <string_view>

namespace lares::server {

// "" if there is none.
std::string_view route_text(std::string_view method, std::string_view path);
std::size_t route_text_count();

// The whole page, from route_list() and the texts.
std::string api_reference();

}  // namespace lares::server
