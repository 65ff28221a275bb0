#include "fleet/top/fleet_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace coxswain::fleet {
namespace {

constexpr std::array<std::string_view, 12> kTitles{"replica",
                                                   "role",
                                                   "state",
                                                   "admission",
                                                   "drain",
                                                   "requests",
                                                   "queued",
                                                   "running",
                                                   "blocks",
                                                   "prompt/s",
                                                   "generated/s",
                                                   "restarts"};
using Row = std::array<std::string, kTitles.size()>;

// Members of a document; the first that is missing or of another kind is kept as the error of all.
class Reader {
 public:
  std::uint64_t number(const json::Value& of, std::string_view name) {
    const json::Value* const value = of.is_object() ? of.find(name) : nullptr;
    const auto number = value != nullptr && value->is_number() ? value->to_uint64() : std::nullopt;
    if (!number) miss(name);
    return number.value_or(0);
  }
  std::string text(const json::Value& of, std::string_view name) {
    const json::Value* const value = of.is_object() ? of.find(name) : nullptr;
    if (value != nullptr && value->is_string()) return value->as_string();
    miss(name);
    return {};
  }
  const json::Value& member(const json::Value& of, std::string_view name) {
    const json::Value* const value = of.is_object() ? of.find(name) : nullptr;
    if (value != nullptr) return *value;
    miss(name);
    return of;
  }
  const Status& status() const { return status_; }

 private:
  void miss(std::string_view name) {
    if (!status_.ok()) return;
    status_ = invalid_argument("no fleet answers there: `" + std::string(name) + "` is missing",
                               std::string(name));
  }
  Status status_;
};

std::string count(std::uint64_t n, std::string_view one, std::string_view many) {
  return std::to_string(n) + " " + std::string(n == 1 ? one : many);
}

std::string rate(std::uint64_t now, std::uint64_t before, double seconds) {
  if (now < before || seconds <= 0) return "-";
  return std::to_string(std::llround(static_cast<double>(now - before) / seconds));
}

Row row_of(Reader& reader, const json::Value& now, const json::Value* before, double seconds) {
  const json::Value& blocks = reader.member(now, "blocks");
  const auto per_second = [&](std::string_view name) {
    const std::uint64_t n = reader.number(now, name);
    return before == nullptr ? std::string("-") : rate(n, reader.number(*before, name), seconds);
  };
  return {std::to_string(reader.number(now, "replica")),
          reader.text(now, "role"),
          reader.text(now, "state"),
          reader.text(now, "admission"),
          reader.text(now, "drain"),
          std::to_string(reader.number(now, "requests")),
          std::to_string(reader.number(now, "queued")),
          std::to_string(reader.number(now, "running")),
          std::to_string(reader.number(blocks, "leased")) + "/" +
              std::to_string(reader.number(blocks, "total")),
          per_second("prompt_tokens"),
          per_second("generated_tokens"),
          std::to_string(reader.number(now, "restarts"))};
}

// Columns as wide as their widest, numbers to the right.
std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, kTitles.size()> widths{};
  for (std::size_t i = 0; i < widths.size(); ++i) {
    for (const Row& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  constexpr std::size_t kFirstText = 1;
  constexpr std::size_t kLastText = 4;
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      const bool left = i >= kFirstText && i <= kLastText;
      line.append(i == 0 ? "" : "  ").append(left ? row[i] + pad : pad + row[i]);
    }
    out.append(line).append("\n");
  }
  return out;
}

std::string summary(Reader& reader, const json::Value& now, std::size_t n_replicas) {
  const json::Value& moves = reader.member(now, "handovers");
  std::string out = std::to_string(reader.number(now, "serving")) + " of " +
                    count(n_replicas, "replica", "replicas") + " serving; " +
                    count(reader.number(now, "requests"), "request", "requests") + ", " +
                    std::to_string(reader.number(now, "waiting")) + " waiting, " +
                    std::to_string(reader.number(now, "resuming")) + " of these behind a loss\n";
  out += "hand-overs: " + std::to_string(reader.number(moves, "running")) + " running, " +
         std::to_string(reader.number(moves, "moved")) + " done (" +
         std::to_string(reader.number(moves, "bytes") >> 20) + " MiB), " +
         std::to_string(reader.number(moves, "recomputed")) + " computed again; " +
         count(reader.number(moves, "together"), "prompt", "prompts") +
         " left where the answer is\n";
  return out;
}

const json::Value* at(const json::Value* list, std::size_t i) {
  return list != nullptr && list->is_array() && i < list->as_array().size() ? &list->as_array()[i]
                                                                            : nullptr;
}

constexpr std::size_t kDecisionsShown = 5;

// Why nobody serves.
std::string absence(Reader& reader, const json::Value& scaling) {
  const std::string state = reader.text(scaling, "state");
  const std::uint64_t n_failed = reader.number(scaling, "failed_starts");
  if (state == "zero") return "; none runs until something is asked for";
  if (state == "starting") return "; none serves yet";
  if (state == "failing") return "; " + count(n_failed, "start", "starts") + " in a row failed";
  return "";
}

// What a fleet that scales itself has decided last, the newest first.
std::string decisions(Reader& reader, const json::Value& scaling) {
  const json::Value& list = reader.member(scaling, "decisions");
  std::string out = "\nautoscale: " + reader.text(scaling, "planner") + ", " +
                    std::to_string(reader.number(scaling, "replicas_min")) + " to " +
                    count(reader.number(scaling, "replicas_max"), "replica", "replicas") +
                    absence(reader, scaling) + "\n";
  if (!list.is_array()) return out;
  const json::Array& all = list.as_array();
  for (std::size_t i = all.size(); i > 0 && i + kDecisionsShown > all.size(); --i) {
    const json::Value& one = all[i - 1];
    out += "  " + std::to_string(reader.number(one, "ago_ms") / 1000) +
           " s ago: " + reader.text(one, "decision") + " replica " +
           std::to_string(reader.number(one, "replica")) + " (" + reader.text(one, "outcome") +
           "): " + reader.text(one, "reason") + "\n";
  }
  return out;
}

}  // namespace

Result<std::string> fleet_page(const json::Value& now, const json::Value& before, double seconds) {
  Reader reader;
  const json::Value& replicas = reader.member(now, "replicas");
  if (!replicas.is_array()) return invalid_argument("`replicas` must be an array", "replicas");
  const json::Value* const old = before.is_object() ? before.find("replicas") : nullptr;
  std::vector<Row> rows(1);
  std::copy(kTitles.begin(), kTitles.end(), rows.front().begin());
  for (std::size_t i = 0; i < replicas.as_array().size(); ++i)
    rows.push_back(row_of(reader, replicas.as_array()[i], at(old, i), seconds));
  std::string out = summary(reader, now, rows.size() - 1) + "\n" + table(rows);
  const json::Value* const scaling = now.is_object() ? now.find("autoscale") : nullptr;
  if (scaling != nullptr) out += decisions(reader, *scaling);
  if (!reader.status().ok()) return reader.status();
  return out;
}

}  // namespace coxswain::fleet
