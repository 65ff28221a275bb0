#pragma once
// One function for each family of the API, in a file of its name. Internal to the description.
//
// Thread rule: pure functions.

#include <array>
#include <span>

#include "openapi/description.h"

namespace coxswain::openapi {

// Members that requests of several families have.
std::span<const Member> sampling_steps();  // read_sampling_steps()
std::span<const Member> native_parameters();
std::span<const Member> scheduling();    // read_scheduling()
std::span<const Member> openai_tools();  // read_openai_tools()

// Objects that several families have, and those of errors.
void describe_parts(Description& out, api::ApiStyle v1);
void describe_native(Description& out);
void describe_openai(Description& out, api::ApiStyle v1);
void describe_responses(Description& out);
void describe_messages(Description& out);
void describe_ollama(Description& out);
void describe_kserve(Description& out);
void describe_server(Description& out);

}  // namespace coxswain::openapi
