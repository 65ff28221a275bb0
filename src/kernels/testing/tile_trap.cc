#include "kernels/testing/tile_trap.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "kernels/testing/tile_unit.h"

namespace coxswain::kernels::testing {
namespace {

// State that a signal handler can reach.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
thread_local TileUnit unit;

constexpr std::size_t kOps = static_cast<std::size_t>(TileOp::kDotU8U8) + 1;
std::array<std::atomic<std::uint64_t>, kOps> counts{};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

// The place of each general register in a saved context, by its number in instructions.
constexpr int kRegister[16] = {REG_RAX,
                               REG_RCX,
                               REG_RDX,
                               REG_RBX,
                               REG_RSP,
                               REG_RBP,
                               REG_RSI,
                               REG_RDI,
                               REG_R8,
                               REG_R9,
                               REG_R10,
                               REG_R11,
                               REG_R12,
                               REG_R13,
                               REG_R14,
                               REG_R15};

std::uintptr_t value_of(const greg_t* registers, std::uint8_t number) {
  return number == kNoRegister ? 0 : static_cast<std::uintptr_t>(registers[kRegister[number]]);
}

void say(const char* why, const std::uint8_t* code) {
  char line[200];
  const int length = std::snprintf(line,
                                   sizeof line,
                                   "tile trap: %s; at %p: %02x %02x %02x %02x %02x\n",
                                   why,
                                   static_cast<const void*>(code),
                                   code[0],
                                   code[1],
                                   code[2],
                                   code[3],
                                   code[4]);
  if (length > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0) std::abort();
}

// Addresses come out of registers.
std::uint8_t* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<std::uint8_t*>(address);  // NOLINT(performance-no-int-to-ptr)
}

void on_illegal_instruction(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto at = static_cast<std::uintptr_t>(registers[REG_RIP]);
  const std::uint8_t* code = pointer_to(at);
  const auto instruction = decode_tile_instruction(code);
  if (!instruction) {
    say("an illegal instruction that is none of tiles", code);
    signal(SIGILL, SIG_DFL);  // happens again, and ends the process
    return;
  }
  const TileAddress& form = instruction->address;
  const std::uintptr_t next = at + instruction->length;
  const std::uintptr_t scaled = value_of(registers, form.index) << form.scale;
  const bool rows = instruction->op == TileOp::kLoad || instruction->op == TileOp::kStore;
  const std::uintptr_t address = (form.rip_relative ? next : value_of(registers, form.base)) +
                                 static_cast<std::uintptr_t>(std::intptr_t{form.displacement}) +
                                 (rows ? 0 : scaled);
  if (const char* why = unit.perform(*instruction, pointer_to(address), scaled)) {
    say(why, code);
    std::abort();
  }
  counts[static_cast<std::size_t>(instruction->op)].fetch_add(1, std::memory_order_relaxed);
  registers[REG_RIP] = static_cast<greg_t>(next);
}

std::uint64_t count_of(TileOp op) {
  return counts[static_cast<std::size_t>(op)].load(std::memory_order_relaxed);
}

}  // namespace

void install_tile_trap() {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGILL, &action, nullptr) != 0) std::abort();
}

TileCounts tile_counts() {
  TileCounts out;
  out.configurations = count_of(TileOp::kLoadConfig);
  out.releases = count_of(TileOp::kRelease);
  out.zeros = count_of(TileOp::kZero);
  out.loads = count_of(TileOp::kLoad);
  out.stores = count_of(TileOp::kStore);
  for (std::size_t op = static_cast<std::size_t>(TileOp::kDotBf16); op < kOps; ++op)
    out.products += count_of(static_cast<TileOp>(op));
  return out;
}

}  // namespace coxswain::kernels::testing
