#include "kvspill/block_name.h"

#include <algorithm>
#include <charconv>
#include <span>

#include <coxswain/retention.h>

#include "base/keyed_hash.h"

namespace coxswain::kvspill {
namespace {

using batch::BlockKey;

constexpr std::string_view kPrefix = "kv-";
constexpr std::string_view kSuffix = ".kvblock";
constexpr std::size_t kHashDigits = 16;
constexpr std::size_t kKeyDigits = 2 * kHashDigits;
constexpr std::size_t kPriorityDigits = 3;
constexpr std::size_t kGroupsDigits = 8;

std::string hex(std::uint64_t value, std::size_t n_digits) {
  std::string out(n_digits, '0');
  for (std::size_t i = out.size(); i-- > 0; value >>= 4U) out[i] = "0123456789abcdef"[value & 15U];
  return out;
}

bool parse(std::string_view digits, int base, auto& out) {
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, out, base);
  return error == std::errc() && at == end;
}

}  // namespace

std::string folder_name(std::string_view description) {
  const auto text = std::as_bytes(std::span(description));
  return std::string(kPrefix) + hex(base::sip_hash(text, {}, base::kSip24), kHashDigits);
}

bool is_folder_name(std::string_view name) {
  std::uint64_t hash = 0;
  return name.size() == kPrefix.size() + kHashDigits && name.starts_with(kPrefix) &&
         parse(name.substr(kPrefix.size()), 16, hash);
}

std::string block_name(const BlockKey& key, const TierIndex::Entry& entry) {
  const std::string number = std::to_string(entry.priority);
  return hex(key.high, kHashDigits) + hex(key.low, kHashDigits) + "-" +
         std::string(kPriorityDigits - std::min(kPriorityDigits, number.size()), '0') + number +
         "-" + hex(entry.groups, kGroupsDigits) + std::string(kSuffix);
}

bool parse_block_name(std::string_view name, BlockKey& key, TierIndex::Entry& entry) {
  constexpr std::size_t kGroupsAt = kKeyDigits + 1 + kPriorityDigits + 1;
  if (name.size() != kGroupsAt + kGroupsDigits + kSuffix.size() || !name.ends_with(kSuffix))
    return false;
  return parse(name.substr(0, kHashDigits), 16, key.high) &&
         parse(name.substr(kHashDigits, kHashDigits), 16, key.low) && name[kKeyDigits] == '-' &&
         parse(name.substr(kKeyDigits + 1, kPriorityDigits), 10, entry.priority) &&
         entry.priority <= kRetentionPriorityMax && name[kGroupsAt - 1] == '-' &&
         parse(name.substr(kGroupsAt, kGroupsDigits), 16, entry.groups) && entry.groups != 0;
}

}  // namespace coxswain::kvspill
