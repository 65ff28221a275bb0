/* Loading and unloading libcoxswain.so leaves a process as it was: signal handlers and mask, locale, floating-point
 * control, threads, open files, environment, working directory.
 *
 *     load_state LIBCOXSWAIN.SO
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <sys/stat.h>

extern char** environ;

enum { SIGNALS = 65, TEXT_BYTES = 256 };

struct state {
  void (*handlers[SIGNALS])(int);
  int handler_flags[SIGNALS];
  sigset_t mask;
  char locale[TEXT_BYTES];
  char folder[TEXT_BYTES];
  unsigned sse_control;
  uint16_t x87_control;
  mode_t file_mask;
  int threads;
  int files;
  uint64_t environment;
};

static int entries(const char* folder) {
  int count = 0;
  DIR* dir = opendir(folder);
  while (dir != NULL && readdir(dir) != NULL) ++count;
  if (dir != NULL) closedir(dir);
  return count;
}

static struct state look(void) {
  struct state now;
  memset(&now, 0, sizeof now);
  for (int number = 1; number < SIGNALS; ++number) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0) continue; /* the C library's own */
    now.handlers[number] = action.sa_handler;
    now.handler_flags[number] = action.sa_flags;
  }
  sigprocmask(SIG_BLOCK, NULL, &now.mask);
  snprintf(now.locale, sizeof now.locale, "%s", setlocale(LC_ALL, NULL));
  if (getcwd(now.folder, sizeof now.folder) == NULL) now.folder[0] = '\0';
  now.sse_control = _mm_getcsr() & ~0x3FU; /* without the flags of what has happened */
  __asm__ volatile("fnstcw %0" : "=m"(now.x87_control));
  now.file_mask = umask(0);
  umask(now.file_mask);
  now.threads = entries("/proc/self/task");
  now.files = entries("/proc/self/fd");
  for (char** entry = environ; *entry != NULL; ++entry) {
    for (const char* c = *entry; *c != '\0'; ++c)
      now.environment = now.environment * 31 + (unsigned char)*c;
  }
  return now;
}

static int same(const char* when, const struct state* a, const struct state* b) {
  int changes = 0;
  for (int number = 1; number < SIGNALS; ++number) {
    if (a->handlers[number] != b->handlers[number] ||
        a->handler_flags[number] != b->handler_flags[number]) {
      fprintf(stderr, "%s: the handler of signal %d is another\n", when, number);
      ++changes;
    }
    if (sigismember(&a->mask, number) != sigismember(&b->mask, number)) {
      fprintf(stderr, "%s: signal %d is blocked or no longer blocked\n", when, number);
      ++changes;
    }
  }
#define COMPARE(field)                                                   \
  if (memcmp(&a->field, &b->field, sizeof a->field) != 0) {              \
    fprintf(stderr, "%s: " #field " is not what it was before\n", when); \
    ++changes;                                                           \
  }
  COMPARE(locale)
  COMPARE(folder)
  COMPARE(sse_control)
  COMPARE(x87_control)
  COMPARE(file_mask)
  COMPARE(threads)
  COMPARE(files)
  COMPARE(environment)
#undef COMPARE
  return changes == 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const struct state before = look();
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  if (dlsym(library, "coxswain_version") == NULL) {
    fprintf(stderr, "%s: no coxswain_version\n", argv[1]);
    return 1;
  }
  const struct state loaded = look();
  int good = same("loaded", &before, &loaded);
  dlclose(library);
  const struct state after = look();
  good = same("unloaded", &before, &after) && good;
  return good ? 0 : 1;
}
