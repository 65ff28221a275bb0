#pragma once
// What a process does about signals before it can act on them.
//
// Thread rule: before any other thread starts.

#include <csignal>
#include <initializer_list>
#include <pthread.h>

namespace coxswain::apps {

// Keeps SIGTERM, SIGINT and SIGUSR1 waiting until a thread of this process takes them, and ignores
// SIGHUP and SIGPIPE. First thing in main(), before any other thread: by default each of them
// kills, and the exit code would be wrong.
inline void hold_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace coxswain::apps
