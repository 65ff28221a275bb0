#pragma once
// CurlFetcher: HTTP by libcurl. Proxies come from the environment (https_proxy, no_proxy and so on).
//
// At most 5 redirects; https only, unless `plain_http`. A peer that says nothing for 30 s has broken off.
// Thread rule: one thread at a time, and the first of a process is made before there are other threads.

#include <memory>

#include "hub/fetcher.h"

namespace coxswain::hub {

std::unique_ptr<Fetcher> make_curl_fetcher(bool plain_http);

}  // namespace coxswain::hub
