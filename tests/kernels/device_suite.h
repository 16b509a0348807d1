// Checks that hold for every Device, called by the tests of each backend (CPU, CUDA over the fake
// driver, a real GPU).
#pragma once

#include "kernels/device.h"

#include <cstddef>
#include <span>
#include <vector>

namespace troupe::kernels::suite {

/// Polls until `count` completions came; synchronizes `stream` first. REQUIREs that no more come.
std::vector<Completion> drain(Device& device, StreamId stream, size_t count);

/// Fill, store with checksum, wipe, load, verify, checksum and device-to-device copies of `blocks`
/// blocks of `block_bytes`, in reversed places. `host` is registered by the suite; the device must
/// have room for twice as much.
void round_trip(Device& device, std::span<std::byte> host, size_t blocks, uint32_t block_bytes);

/// Two streams, ordered by events in both directions, `rounds` times.
void producer_consumer(Device& device, std::span<std::byte> host, size_t rounds,
                       uint32_t block_bytes);

}  // namespace troupe::kernels::suite
