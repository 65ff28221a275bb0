#include "batch/attachment_book.h"

#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::FakeRunner;

Attachment some(std::uint64_t id) {
  return {.id = id, .kind = AttachmentKind::kGrammar, .bytes = "bytes of " + std::to_string(id)};
}

testing::FakeRunnerOptions takes_attachments(std::uint64_t epoch = 1) {
  testing::FakeRunnerOptions options;
  options.epoch = epoch;
  options.capabilities.attachments = true;
  return options;
}

TEST(AttachmentBook, SendsOnceAndForgetsWithTheLastUser) {
  FakeRunner runner(takes_attachments());
  AttachmentBook book;
  EXPECT_TRUE(book.add(runner, some(1)).ok());
  EXPECT_TRUE(book.add(runner, some(1)).ok());
  EXPECT_TRUE(book.add(runner, some(2)).ok());
  EXPECT_EQ(runner.attached(), (std::vector<Attachment>{some(1), some(2)}));
  book.remove(runner, 1);
  EXPECT_EQ(runner.attached().size(), 2U);
  book.remove(runner, 1);
  book.remove(runner, 1);
  book.remove(runner, 7);
  EXPECT_EQ(runner.attached(), std::vector<Attachment>{some(2)});
}

TEST(AttachmentBook, WhatTheRunnerRefusesIsNotKept) {
  FakeRunner runner(takes_attachments());
  runner.refuse_attachments(Status(Code::kUnimplemented, "no"));
  AttachmentBook book;
  EXPECT_EQ(book.add(runner, some(1)).code(), Code::kUnimplemented);
  EXPECT_EQ(book.size(), 0U);
}

TEST(AttachmentBook, TheNextRunnerGetsThemAgain) {
  testing::CoreDriver d(takes_attachments());
  ASSERT_TRUE(d.core->attach(some(1)).ok());
  ASSERT_TRUE(d.core->attach(some(2)).ok());
  d.core->detach(1);
  auto next = std::make_shared<FakeRunner>(takes_attachments(2));
  d.core->replace_runner(next);
  EXPECT_EQ(next->attached(), std::vector<Attachment>{some(2)});
  EXPECT_EQ(d.runner->attached(), std::vector<Attachment>{some(2)});
  d.core->detach(2);
  EXPECT_TRUE(next->attached().empty());
}

}  // namespace
}  // namespace coxswain::batch
