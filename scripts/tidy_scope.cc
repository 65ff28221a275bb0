// A clang plugin for scripts/tidy.py: clang-tidy visits the declarations that are ours and none of
// the system headers.
//
// clang-tidy 16 matches every check against all that a file includes and throws away what it
// found in system headers. For our files that is most of its time: gtest, gRPC and the
// standard library are a hundred times what the file itself declares. clangd narrows what is
// visited in the same way. Findings in our files and headers are the same: a template's
// instantiations are visited with the template.
#include <memory>
#include <string>
#include <vector>

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/FrontendPluginRegistry.h>

namespace {

class ScopeConsumer : public clang::ASTConsumer {
 public:
  void HandleTranslationUnit(clang::ASTContext& context) override {
    const clang::SourceManager& sources = context.getSourceManager();
    std::vector<clang::Decl*> ours;
    for (clang::Decl* declaration : context.getTranslationUnitDecl()->decls()) {
      const clang::SourceLocation place = sources.getExpansionLoc(declaration->getLocation());
      if (place.isValid() && !sources.isInSystemHeader(place)) ours.push_back(declaration);
    }
    context.setTraversalScope(ours);
  }
};

class ScopeAction : public clang::PluginASTAction {
 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&,
                                                        llvm::StringRef) override {
    return std::make_unique<ScopeConsumer>();
  }
  bool ParseArgs(const clang::CompilerInstance&, const std::vector<std::string>&) override {
    return true;
  }
  ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<ScopeAction> kScope("own-declarations",
                                                             "leaves system headers out");

}  // namespace
