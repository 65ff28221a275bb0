#pragma once
// WorkerPool runs jobs that take too long for an I/O thread: reading documents, templates, tokenisation.
//
// Thread rule: post() from any thread. stop() runs what is queued and joins; so does the destructor.

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/thread_name.h"

namespace coxswain::router {

class WorkerPool {
 public:
  using Job = std::function<void()>;  // must not throw

  WorkerPool(std::size_t n_threads, std::size_t queue_jobs_max) : queue_(queue_jobs_max) {
    for (std::size_t i = 0; i < n_threads; ++i) {
      threads_.emplace_back([this] {
        base::name_thread("router");
        while (auto job = queue_.pop()) (*job)();
      });
    }
  }
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False if the queue is full or the pool was stopped.
  bool post(Job job) { return queue_.try_push(std::move(job)); }

  void stop() {
    queue_.close();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  base::BoundedQueue<Job> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace coxswain::router
