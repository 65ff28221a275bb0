#pragma once
// Mutex, MutexLock and CondVar: the standard ones with locks that the compiler understands.
//
// State behind a lock names it with GUARDED_BY; a function that expects the lock to be held says REQUIRES, one that
// takes it itself may say EXCLUDES. clang's -Wthread-safety then refuses code that touches the state without the lock
// (scripts/check.sh --only thread-safety); for other compilers the macros are nothing.
//
//     class Counter {
//      public:
//       void add() EXCLUDES(mu_) {
//         {
//           base::MutexLock lock(mu_);
//           ++n_;
//         }
//         changed_.notify_all();
//       }
//       void wait_for(int n) {
//         base::MutexLock lock(mu_);
//         changed_.wait(lock, [&]() REQUIRES(mu_) { return n_ >= n; });
//       }
//
//      private:
//       base::Mutex mu_;
//       base::CondVar changed_;
//       int n_ GUARDED_BY(mu_) = 0;
//     };
//
// The analysis looks at one function at a time, and at a lambda as a function of its own: the predicate of a wait says
// REQUIRES itself. Constructors and destructors are not looked at. Nothing here costs more than the
// standard mutex and condition variable.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define COXSWAIN_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define COXSWAIN_THREAD_ANNOTATION(x)
#endif

// Abseil, which comes with gRPC, defines three of these under the same names, with the same meaning.
#undef GUARDED_BY
#undef PT_GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS

#define CAPABILITY(name) COXSWAIN_THREAD_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY COXSWAIN_THREAD_ANNOTATION(scoped_lockable)
// Of a variable: it, or what it points to, is touched only while the lock is held.
#define GUARDED_BY(x) COXSWAIN_THREAD_ANNOTATION(guarded_by(x))
#define PT_GUARDED_BY(x) COXSWAIN_THREAD_ANNOTATION(pt_guarded_by(x))
// Of a function: the caller holds the lock; the caller must not hold it.
#define REQUIRES(...) COXSWAIN_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) COXSWAIN_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// Of a function: it returns with the lock held; it lets the lock go, which the caller held.
#define ACQUIRE(...) COXSWAIN_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) COXSWAIN_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// Of a function that the analysis cannot follow; a comment says why it is right.
#define NO_THREAD_SAFETY_ANALYSIS COXSWAIN_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace coxswain::base {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a Mutex from construction to the end of the scope; may let it go and take it again in between.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() RELEASE() { lock_.unlock(); }
  void lock() ACQUIRE() { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// As std::condition_variable. Predicates are called with the lock held.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  template <typename Predicate>
  void wait(MutexLock& lock, Predicate predicate) {
    changed_.wait(lock.lock_, std::move(predicate));
  }
  // False if the time was over and the predicate still false.
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(MutexLock& lock,
                const std::chrono::duration<Rep, Period>& duration,
                Predicate predicate) {
    return changed_.wait_for(lock.lock_, duration, std::move(predicate));
  }
  template <typename TimeClock, typename Duration, typename Predicate>
  bool wait_until(MutexLock& lock,
                  const std::chrono::time_point<TimeClock, Duration>& deadline,
                  Predicate predicate) {
    return changed_.wait_until(lock.lock_, deadline, std::move(predicate));
  }

 private:
  std::condition_variable changed_;
};

}  // namespace coxswain::base
