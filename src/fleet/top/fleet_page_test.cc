#include "fleet/top/fleet_page.h"

#include <string>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

std::string replica(int number, int n_prompt, int n_generated) {
  return R"({"replica":)" + std::to_string(number) +
         R"(,"role":"decode","state":"serving","admission":"open","drain":"no","requests":3,)"
         R"("queued":1,"running":2,"blocks":{"total":90,"leased":45},"restarts":0,"prompt_tokens":)" +
         std::to_string(n_prompt) + R"(,"generated_tokens":)" + std::to_string(n_generated) + "}";
}

json::Value fleet(const std::string& replicas) {
  return json::parse(R"({"replicas":[)" + replicas +
                     R"(],"serving":1,"requests":5,"waiting":2,"resuming":1,)"
                     R"("handovers":{"moved":8,"recomputed":2,"running":1,"bytes":3145728,)"
                     R"("together":1}})")
      .value();
}

TEST(FleetPage, TheWholeAndALineForEachReplica) {
  const auto page = fleet_page(fleet(replica(0, 300, 4000) + "," + replica(1, 50, 7)),
                               fleet(replica(0, 100, 1000) + "," + replica(1, 60, 7)),
                               2.0);
  ASSERT_EQ(page.status(), Status());
  EXPECT_EQ(
      *page,
      "1 of 2 replicas serving; 5 requests, 2 waiting, 1 of these behind a loss\n"
      "hand-overs: 1 running, 8 done (3 MiB), 2 computed again; 1 prompt left where the answer is\n"
      "\n"
      "replica  role    state    admission  drain  requests  queued  running  blocks  prompt/s  "
      "generated/s  restarts\n"
      "      0  decode  serving  open       no            3       1        2   45/90       100  "
      "       1500         0\n"
      "      1  decode  serving  open       no            3       1        2   45/90         -  "
      "          0         0\n");
}

TEST(FleetPage, WithoutAnEarlierOneThereAreNoRates) {
  const auto page = fleet_page(fleet(replica(0, 300, 4000)), json::Value(), 0);
  ASSERT_EQ(page.status(), Status());
  EXPECT_NE(page->find("         -            -         0\n"), std::string::npos) << *page;
}

// With an `autoscale` that has `members`.
json::Value scaled(const std::string& members) {
  const std::string text = json::write(fleet(replica(0, 300, 4000)));
  auto out = json::parse(text.substr(0, text.size() - 1) +
                         R"(,"autoscale":{"planner":"act","replicas_min":0,"replicas_max":8,)" +
                         members + "}}");
  EXPECT_EQ(out.status(), Status());
  return std::move(out).value();
}

TEST(FleetPage, SaysWhyNobodyServes) {
  const auto line = [](const std::string& state) {
    const auto page = fleet_page(
        scaled(R"("failed_starts":3,"decisions":[],"state":")" + state + "\""), json::Value(), 0);
    EXPECT_EQ(page.status(), Status());
    return page->substr(page->find("\nautoscale"));
  };
  const std::string fleet = "\nautoscale: act, 0 to 8 replicas";
  EXPECT_EQ(line("serving"), fleet + "\n");
  EXPECT_EQ(line("zero"), fleet + "; none runs until something is asked for\n");
  EXPECT_EQ(line("starting"), fleet + "; none serves yet\n");
  EXPECT_EQ(line("failing"), fleet + "; 3 starts in a row failed\n");
}

TEST(FleetPage, TheLastDecisionsTheNewestFirst) {
  std::string list;
  for (int i = 0; i < 7; ++i) {
    list += R"({"ago_ms":)" + std::to_string(9000 - 1000 * i) + R"(,"decision":"load","replica":)" +
            std::to_string(i) + R"(,"outcome":"done","reason":"more are needed"},)";
  }
  list.pop_back();
  const auto page =
      fleet_page(scaled(R"("state":"serving","failed_starts":0,"decisions":[)" + list + "]"),
                 json::Value(),
                 0);
  ASSERT_EQ(page.status(), Status());
  EXPECT_NE(page->find("\nautoscale: act, 0 to 8 replicas\n"
                       "  3 s ago: load replica 6 (done): more are needed\n"
                       "  4 s ago: load replica 5 "),
            std::string::npos)
      << *page;
  EXPECT_EQ(page->find("replica 1 "), std::string::npos) << *page;
}

TEST(FleetPage, WhatIsNoFleetIsRefusedByMember) {
  EXPECT_EQ(fleet_page(json::parse("[]").value(), json::Value(), 0).status().field(), "replicas");
  EXPECT_EQ(
      fleet_page(json::parse(R"({"replicas":[{}]})").value(), json::Value(), 0).status().message(),
      "no fleet answers there: `blocks` is missing");
}

}  // namespace
}  // namespace coxswain::fleet
