#include "actors/movers/tier_memory.h"

#include <algorithm>
#include <chrono>

namespace troupe {
namespace {

uint64_t now_ns() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(t).count());
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
        record.checksum != moved.checksum) {
      moved.code = Code::kCorrupt;
      return;
    }
  }
  if (target.getTier() != static_cast<uint8_t>(Tier::kDevice)) {
    memory.record(target) = {moved.checksum, target.getGeneration(), copy.getBlock()};
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

std::vector<MovedBlock> move_blocks(TierMemory& memory, kernels::StreamId stream,
                                    capnp::List<wire::Copy>::Reader copies) {
  std::vector<MovedBlock> moved(copies.size());
  std::vector<kernels::Op> ops;
  std::vector<uint32_t> index;  // op -> copy
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
    kernels::Op op;
    op.kind = kernels::OpKind::kCopy;
    op.with_checksum = m.from != 0 || m.to != 0;  // within the device nothing crosses a tier
    op.bytes = m.bytes;
    op.src = memory.at(copy.getSource());
    op.dst = memory.at(copy.getTarget());
    ops.push_back(op);
    index.push_back(i);
  }
  if (ops.empty()) {
    return moved;
  }
  std::vector<kernels::OpResult> results(ops.size());
  const uint64_t begun = now_ns();
  Status status = memory.device().submit(stream, {ops, results}, 0);
  if (status) {
    status = memory.device().synchronize(stream);
    kernels::Completion completion;
    while (memory.device().poll({&completion, 1}) != 0) {
    }
  }
  const uint64_t spent = (now_ns() - begun) / ops.size();
  for (size_t k = 0; k < ops.size(); ++k) {
    MovedBlock& m = moved[index[k]];
    m.code = status ? results[k].code : status.code();
    m.checksum = results[k].value;
    m.nanos = spent;
    settle_record(memory, copies[index[k]], m);
    model_time(memory, copies[index[k]], m);
  }
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
