#include "actors/movers/tier_memory.h"

#include "runtime/core/wire.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace troupe {
namespace {

uint64_t now_ns() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(t).count());
}

BlockKey key_of(wire::Copy::Reader copy) {
  const auto key = span_of<BlockKey>(copy.getKey());
  return key.empty() ? BlockKey{} : key[0];
}

/// Checks what was copied against the record of a lower source, and notes it for a lower target.
void settle_record(TierMemory& memory, wire::Copy::Reader copy, MovedBlock& moved) {
  const auto source = copy.getSource();
  const auto target = copy.getTarget();
  if (moved.code != Code::kOk) {
    return;
  }
  if (source.getTier() != static_cast<uint8_t>(Tier::kDevice)) {
    const SlotRecord& record = memory.record(source);
    if (record.generation != source.getGeneration() || record.block != copy.getBlock() ||
        record.checksum != moved.checksum || record.key != key_of(copy)) {
      moved.code = Code::kCorrupt;
      return;
    }
  }
  if (target.getTier() != static_cast<uint8_t>(Tier::kDevice)) {
    memory.record(target) = {moved.checksum, target.getGeneration(), copy.getBlock(), key_of(copy)};
  }
}

void model_time(const TierMemory& memory, wire::Copy::Reader copy, MovedBlock& moved) {
  const ModelledLinks& links = memory.links();
  const uint8_t lower = std::max(moved.from, moved.to);
  if (links.granule_bytes == 0 || links.bytes_per_s[lower] == 0) {
    return;
  }
  moved.bytes = static_cast<uint32_t>(copy.getTarget().getCount() * links.granule_bytes);
  moved.nanos = static_cast<uint64_t>(static_cast<unsigned __int128>(moved.bytes) * 1000000000U /
                                      links.bytes_per_s[lower]);
}

}  // namespace

namespace {

constexpr uint8_t kDiskTier = static_cast<uint8_t>(Tier::kDisk);

/// Copies between memories on the stream.
void move_in_memory(TierMemory& memory, kernels::StreamId stream,
                    capnp::List<wire::Copy>::Reader copies, std::span<const uint32_t> index,
                    std::vector<MovedBlock>& moved) {
  std::vector<kernels::Op> ops;
  for (const uint32_t i : index) {
    kernels::Op op;
    op.kind = kernels::OpKind::kCopy;
    op.with_checksum = moved[i].from != 0 || moved[i].to != 0;  // else nothing crosses a tier
    op.bytes = moved[i].bytes;
    op.src = memory.at(copies[i].getSource());
    op.dst = memory.at(copies[i].getTarget());
    ops.push_back(op);
  }
  std::vector<kernels::OpResult> results(ops.size());
  Status status = memory.device().submit(stream, {ops, results}, 0);
  if (status) {
    status = memory.device().synchronize(stream);
    kernels::Completion completion;
    while (memory.device().poll({&completion, 1}) != 0) {
    }
  }
  for (size_t k = 0; k < index.size(); ++k) {
    moved[index[k]].code = status ? results[k].code : status.code();
    moved[index[k]].checksum = results[k].value;
  }
}

/// Copies that begin or end on the disk.
void move_over_disk(TierMemory& memory, capnp::List<wire::Copy>::Reader copies,
                    std::span<const uint32_t> index, std::vector<MovedBlock>& moved) {
  std::vector<DiskOp> ops;
  for (const uint32_t i : index) {
    DiskOp op;
    op.read = moved[i].from == kDiskTier;
    const auto on_disk = op.read ? copies[i].getSource() : copies[i].getTarget();
    const auto in_memory = op.read ? copies[i].getTarget() : copies[i].getSource();
    op.slot = {GranuleId(on_disk.getFirst()), on_disk.getCount(), on_disk.getGeneration()};
    const BlockKey key = key_of(copies[i]);
    std::memcpy(op.key.data(), &key, sizeof(key));
    op.payload = memory.bytes_at(in_memory);
    ops.push_back(op);
  }
  memory.disk()->run(ops);
  for (size_t k = 0; k < index.size(); ++k) {
    moved[index[k]].code = ops[k].code;
    moved[index[k]].checksum = ops[k].checksum;
  }
}

}  // namespace

std::vector<MovedBlock> move_blocks(TierMemory& memory, kernels::StreamId stream,
                                    capnp::List<wire::Copy>::Reader copies) {
  std::vector<MovedBlock> moved(copies.size());
  std::vector<uint32_t> in_memory;
  std::vector<uint32_t> over_disk;
  for (uint32_t i = 0; i < copies.size(); ++i) {
    const auto copy = copies[i];
    MovedBlock& m = moved[i];
    m.id = copy.getId();
    m.block = copy.getBlock();
    m.from = copy.getSource().getTier();
    m.to = copy.getTarget().getTier();
    m.row = copy.getRow();
    if (!memory.in_range(copy.getSource()) || !memory.in_range(copy.getTarget()) ||
        copy.getSource().getCount() != copy.getTarget().getCount()) {
      m.code = Code::kOutOfRange;
      continue;
    }
    m.bytes = memory.bytes_of(copy.getTarget());
    (m.from == kDiskTier || m.to == kDiskTier ? over_disk : in_memory).push_back(i);
  }
  const auto timed = [&](const std::vector<uint32_t>& index, auto&& move) {
    if (index.empty()) {
      return;
    }
    const uint64_t begun = now_ns();
    move();
    const uint64_t spent = (now_ns() - begun) / index.size();
    for (const uint32_t i : index) {
      moved[i].nanos = spent;
      settle_record(memory, copies[i], moved[i]);
      model_time(memory, copies[i], moved[i]);
    }
  };
  timed(in_memory, [&] { move_in_memory(memory, stream, copies, in_memory, moved); });
  timed(over_disk, [&] { move_over_disk(memory, copies, over_disk, moved); });
  return moved;
}

void write_results(const std::vector<MovedBlock>& moved, wire::TransferDone::Builder out) {
  auto list = out.initResults(static_cast<unsigned>(moved.size()));
  for (unsigned i = 0; i < moved.size(); ++i) {
    list[i].setId(moved[i].id);
    list[i].setBlock(moved[i].block);
    list[i].setStatus(static_cast<uint16_t>(moved[i].code));
    list[i].setChecksum(moved[i].checksum);
    list[i].setBytes(moved[i].bytes);
    list[i].setFrom(moved[i].from);
    list[i].setTo(moved[i].to);
    list[i].setNanos(moved[i].nanos);
  }
}

}  // namespace troupe
