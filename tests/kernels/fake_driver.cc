#include "tests/kernels/fake_driver.h"

#include "kernels/cpu/bytes.h"
#include "kernels/cuda/kernel_op.h"
#include "kernels/device.h"
#include "runtime/base/assert.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace troupe::kernels::cuda {
namespace {

FakeDriver* fake = nullptr;

constexpr std::array<const char*, 4> kNames = {kCopyKernel, kFillKernel, kVerifyKernel,
                                               kChecksumKernel};

void run_kernel(size_t kernel, std::span<KernelOp> ops) {
  for (KernelOp& op : ops) {
    auto* dst = reinterpret_cast<void*>(op.dst);
    const auto* src = reinterpret_cast<const void*>(op.src);
    switch (kernel) {
      case 0:
        std::memcpy(dst, src, op.bytes);
        break;
      case 1:
        fill_pattern(dst, op.bytes, op.seed, op.position, CacheHint::kKeep);
        break;
      case 2: {
        const uint64_t equal = verify_pattern(src, op.bytes, op.seed, op.position);
        op.result = equal == op.bytes ? op.result : equal;
        break;
      }
      default:
        op.result = checksum_bytes(src, op.bytes);
        break;
    }
  }
}

}  // namespace

/// The table's functions.
struct FakeCalls {
  template <class Body>
  static Result call(Body body) {
    const Result error = fake->step();
    if (error == kSuccess) {
      body();
    }
    return error;
  }
  static void* new_handle() { return reinterpret_cast<void*>(fake->next_handle_++); }

  static Result init(unsigned) {
    return call([] {});
  }
  static Result device_get(int* device, int ordinal) {
    return call([&] { *device = ordinal; });
  }
  static Result device_get_name(char* name, int bytes, int) {
    return call([&] { std::snprintf(name, static_cast<size_t>(bytes), "fake"); });
  }
  static Result context_retain(Handle* context, int) {
    return call([&] {
      *context = new_handle();
      ++fake->contexts_;
    });
  }
  static Result context_release(int) {
    --fake->contexts_;
    return fake->step();
  }
  static Result context_set_current(Handle) {
    return call([] {});
  }
  static Result memory_alloc(DevicePointer* pointer, size_t bytes) {
    return call([&] {
      *pointer = reinterpret_cast<DevicePointer>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
      fake->memory_.insert(*pointer);
    });
  }
  static Result memory_free(DevicePointer pointer) {
    TROUPE_ASSERT(fake->memory_.erase(pointer) == 1);
    std::free(reinterpret_cast<void*>(pointer));
    return fake->step();
  }
  static Result host_alloc(void** pointer, size_t bytes, unsigned) {
    return call([&] {
      *pointer = std::malloc(bytes);
      fake->host_memory_.insert(*pointer);
    });
  }
  static Result host_free(void* pointer) {
    TROUPE_ASSERT(fake->host_memory_.erase(pointer) == 1);
    std::free(pointer);
    return fake->step();
  }
  static Result host_register(void* pointer, size_t, unsigned) {
    return call([&] { TROUPE_ASSERT(fake->registered_.insert(pointer).second); });
  }
  static Result host_unregister(void* pointer) {
    TROUPE_ASSERT(fake->registered_.erase(pointer) == 1);
    return fake->step();
  }
  static Result stream_create(Handle* stream, unsigned) {
    return call([&] {
      *stream = new_handle();
      fake->streams_[*stream];
    });
  }
  static Result stream_destroy(Handle stream) {
    TROUPE_ASSERT(fake->streams_.erase(stream) == 1);
    return fake->step();
  }
  static Result stream_synchronize(Handle stream) {
    return call([&] {
      while (!fake->streams_.at(stream).commands.empty()) {
        TROUPE_ASSERT(fake->advance());  // else a wait without an end
      }
    });
  }
  static Result stream_wait_event(Handle stream, Handle event, unsigned) {
    return call([&] {
      const uint64_t wanted = fake->events_.at(event).recorded;
      fake->streams_.at(stream).commands.push_back(
          [event, wanted] { return fake->events_.at(event).reached >= wanted; });
    });
  }
  static Result event_create(Handle* event, unsigned) {
    return call([&] {
      *event = new_handle();
      fake->events_[*event];
    });
  }
  static Result event_destroy(Handle event) {
    TROUPE_ASSERT(fake->events_.erase(event) == 1);
    return fake->step();
  }
  static Result event_record(Handle event, Handle stream) {
    return call([&] {
      const uint64_t mark = ++fake->events_.at(event).recorded;
      fake->streams_.at(stream).commands.push_back([event, mark] {
        fake->events_.at(event).reached = mark;
        return true;
      });
    });
  }
  static Result event_query(Handle event) {
    const Result error = fake->step();
    if (error != kSuccess) {
      return error;
    }
    fake->advance();
    const FakeDriver::Event& state = fake->events_.at(event);
    return state.reached == state.recorded ? kSuccess : kErrorNotReady;
  }
  static Result copy_async(DevicePointer dst, DevicePointer src, size_t bytes, Handle stream) {
    return call([&] {
      fake->streams_.at(stream).commands.push_back([dst, src, bytes] {
        std::memcpy(reinterpret_cast<void*>(dst), reinterpret_cast<const void*>(src), bytes);
        return true;
      });
    });
  }
  static Result host_function(Handle stream, HostFunction function, void* context) {
    return call([&] {
      fake->streams_.at(stream).commands.push_back([function, context] {
        function(context);
        return true;
      });
    });
  }
  static Result module_load(Handle* module, const void*) {
    return call([&] {
      *module = new_handle();
      ++fake->modules_;
    });
  }
  static Result module_unload(Handle) {
    --fake->modules_;
    return fake->step();
  }
  static Result module_function(Handle* function, Handle, const char* name) {
    return call([&] {
      for (size_t i = 0; i < kNames.size(); ++i) {
        if (std::strcmp(kNames[i], name) == 0) {
          *function = reinterpret_cast<void*>(i + 1);
        }
      }
    });
  }
  static Result launch(Handle function, unsigned, unsigned grid_y, unsigned, unsigned, unsigned,
                       unsigned, unsigned, Handle stream, void** parameters, void**) {
    return call([&] {
      const auto ops = *static_cast<DevicePointer*>(parameters[0]);
      const uint32_t count = *static_cast<uint32_t*>(parameters[1]);
      TROUPE_ASSERT(count == grid_y);
      const size_t kernel = reinterpret_cast<uintptr_t>(function) - 1;
      fake->streams_.at(stream).commands.push_back([ops, count, kernel] {
        run_kernel(kernel, {reinterpret_cast<KernelOp*>(ops), count});
        return true;
      });
    });
  }
  static Result error_name(Result error, const char** name) {
    *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
    return kSuccess;
  }
};

FakeDriver::FakeDriver() {
  TROUPE_ASSERT(fake == nullptr);
  fake = this;
}

FakeDriver::~FakeDriver() {
  fake = nullptr;
}

void FakeDriver::fail_at(uint64_t call, Result error, bool sticky) {
  fail_call_ = calls_ + call;
  fail_error_ = error;
  fail_sticky_ = sticky;
}

Result FakeDriver::step() {
  ++calls_;
  if (stuck_ != kSuccess) {
    return stuck_;
  }
  if (calls_ != fail_call_) {
    return kSuccess;
  }
  stuck_ = fail_sticky_ ? fail_error_ : kSuccess;
  return fail_error_;
}

bool FakeDriver::advance() {
  bool moved = false;
  for (auto& [handle, stream] : streams_) {
    if (!stream.commands.empty() && stream.commands.front()()) {
      stream.commands.pop_front();
      moved = true;
    }
  }
  return moved;
}

std::string FakeDriver::leaks() const {
  std::string text;
  const auto add = [&text](size_t count, const char* what) {
    if (count != 0) {
      text += std::to_string(count) + " " + what + " ";
    }
  };
  add(memory_.size(), "memories");
  add(host_memory_.size(), "host memories");
  add(registered_.size(), "registrations");
  add(streams_.size(), "streams");
  add(events_.size(), "events");
  add(static_cast<size_t>(contexts_), "contexts");
  add(static_cast<size_t>(modules_), "modules");
  return text;
}

DriverTable FakeDriver::table() const {
  DriverTable t;
  t.init = FakeCalls::init;
  t.device_get = FakeCalls::device_get;
  t.device_get_name = FakeCalls::device_get_name;
  t.context_retain = FakeCalls::context_retain;
  t.context_release = FakeCalls::context_release;
  t.context_set_current = FakeCalls::context_set_current;
  t.memory_alloc = FakeCalls::memory_alloc;
  t.memory_free = FakeCalls::memory_free;
  t.host_alloc = FakeCalls::host_alloc;
  t.host_free = FakeCalls::host_free;
  t.host_register = FakeCalls::host_register;
  t.host_unregister = FakeCalls::host_unregister;
  t.stream_create = FakeCalls::stream_create;
  t.stream_destroy = FakeCalls::stream_destroy;
  t.stream_synchronize = FakeCalls::stream_synchronize;
  t.stream_wait_event = FakeCalls::stream_wait_event;
  t.event_create = FakeCalls::event_create;
  t.event_destroy = FakeCalls::event_destroy;
  t.event_record = FakeCalls::event_record;
  t.event_query = FakeCalls::event_query;
  t.copy_async = FakeCalls::copy_async;
  t.host_function = FakeCalls::host_function;
  t.module_load = FakeCalls::module_load;
  t.module_unload = FakeCalls::module_unload;
  t.module_function = FakeCalls::module_function;
  t.launch = FakeCalls::launch;
  t.error_name = FakeCalls::error_name;
  return t;
}

}  // namespace troupe::kernels::cuda
