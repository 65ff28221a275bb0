#pragma once
// Global functions that have a file of their own; functions.cc knows them all by name.

#include "chat/callable.h"

namespace coxswain::chat {

// lipsum(n=5, html=True, min=20, max=100), from the render's generator.
Value call_lipsum(Interpreter& interpreter, const Arguments& arguments);

}  // namespace coxswain::chat
