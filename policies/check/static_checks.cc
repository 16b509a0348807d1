// Tests that read the file and never run its code.
#include "policies/check/kit.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace troupe::check {
namespace {

// What a pure function of its calls may need: memory, bytes, arithmetic, C++ containers and
// exceptions.
constexpr std::array kAllowedPrefixes = {
    std::string_view("_ITM_"),    std::string_view("__gmon_start__"),
    std::string_view("__cxa_"),   std::string_view("__gxx_personality"),
    std::string_view("_Unwind_"), std::string_view("__stack_chk_"),
    std::string_view("_Zn"),      std::string_view("_Zd"),
    std::string_view("_ZSt"),     std::string_view("_ZNSt"),
    std::string_view("_ZNKSt"),   std::string_view("_ZTVN10__cxxabiv"),
    std::string_view("_ZTVSt"),   std::string_view("_ZTISt"),
    std::string_view("mem"),      std::string_view("__mem"),
    std::string_view("str"),      std::string_view("__asan"),
    std::string_view("__ubsan"),  std::string_view("_dl_find_object")};
constexpr std::array kAllowed = {
    std::string_view("malloc"), std::string_view("calloc"), std::string_view("realloc"),
    std::string_view("free"),   std::string_view("abort"),  std::string_view("qsort"),
    std::string_view("exp"),    std::string_view("exp2"),   std::string_view("log"),
    std::string_view("log2"),   std::string_view("pow"),    std::string_view("sqrt"),
    std::string_view("floor"),  std::string_view("ceil"),   std::string_view("fmod"),
    std::string_view("bcmp"),   std::string_view("ldexp"),  std::string_view("__divti3"),
    std::string_view("__udivti3"), std::string_view("__modti3"), std::string_view("__umodti3")};
// C++ library parts that reach outside although their names begin like containers.
constexpr std::array kBannedParts = {
    std::string_view("chrono"),     std::string_view("random_device"), std::string_view("thread"),
    std::string_view("filesystem"), std::string_view("basic_f"),       std::string_view("ios"),
    std::string_view("mutex"),      std::string_view("condition_var"), std::string_view("locale")};

Expected<plugin::ElfImage> image_of(const Context& context) {
  return plugin::Loader({}).inspect(context.path);
}

bool allowed(std::string_view name) {
  for (const std::string_view part : kBannedParts) {
    if (name.find(part) != std::string_view::npos) {
      return false;
    }
  }
  return std::find(kAllowed.begin(), kAllowed.end(), name) != kAllowed.end() ||
         std::any_of(kAllowedPrefixes.begin(), kAllowedPrefixes.end(),
                     [&](std::string_view p) { return name.substr(0, p.size()) == p; });
}

}  // namespace

Status file_is_a_policy(const Context& context) {
  return image_of(context).status();
}

Status exports_entry_points_only(const Context& context) {
  auto image = image_of(context);
  if (!image) {
    return image.status();
  }
  for (const std::string& name : image->exports) {
    if (name != TROUPE_DESCRIBE_SYMBOL && name != TROUPE_CREATE_SYMBOL) {
      return Status(Code::kInvalidArgument,
                    "exports " + name + ": link with policies/abi/exports.map");
    }
  }
  return Status::ok();
}

Status imports_are_allowed(const Context& context) {
  auto image = image_of(context);
  if (!image) {
    return image.status();
  }
  for (const std::string& name : image->imports) {
    if (!allowed(name)) {
      return Status(Code::kInvalidArgument, "imports " + name +
                                                ": a policy has no clock, entropy, file, thread, "
                                                "process or stream");
    }
  }
  return Status::ok();
}

}  // namespace troupe::check
