#pragma once
// The checksum of hidden states as an attachment (coxswain/hidden_states.h).
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>

#include <coxswain/hidden_states.h>
#include <coxswain/status.h>

namespace coxswain::runner {

// Writes the sum behind the rows. REQUIRES: hidden_attachment_bytes() of them.
void seal_hidden(std::string& bytes);

// Errors: kInvalidArgument for what are no rows of that width; kDataLoss for a wrong checksum.
Status check_hidden(std::string_view bytes, std::uint64_t hidden_size);

}  // namespace coxswain::runner
