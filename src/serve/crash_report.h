#pragma once
// What a process says when a bug of ours kills it.
//
// Thread rule: once, before other threads start.

namespace coxswain::serve {

// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write the signal's name and the addresses
// of the calls to standard error (addr2line turns them into lines), then end the process as they
// would have without.
void report_crashes();

}  // namespace coxswain::serve
