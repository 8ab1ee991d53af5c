// Lists the keys of a run config about the machine: limits of its memory, its rates, the kernels
// that it takes, and switches to look for faults with. config_fields.cpp says what each text is
// for.

#include <string_view>

#include "strata/base/fields.h"
#include "strata/config/config.h"

namespace strata {

namespace {

/// What a rate is that a config does not give.
constexpr std::string_view kMeasured = "null: as measured on the device";

}  // namespace

void MemorySection::fields(FieldList& f) {
  f.add("device_limit", device_limit,
        "Limits the device memory of a rank, everything included; null takes nearly all that is "
        "free at the start. Set it to plan for another GPU or to share this one.")
      .above(0, "null: what is free");
  f.add("host_limit", host_limit,
        "Limits the host memory of a rank, everything included; null takes what the machine can "
        "give: what control groups leave, and nearly all that the system says is available. Set it "
        "to leave memory to others, or where memory grows on demand: it is believed above what is "
        "available, with a warning, but not above a control group's limit.")
      .above(0, "null: what is free");
  f.add("spill_limit", spill_limit,
        "Limits the pinned memory that schedule.spill auto takes; null allows what host_limit "
        "leaves. Set it to spill where no host limit is known, or to spill less.");
}

void HardwareSection::fields(FieldList& f) {
  f.add("peak_tflops", peak_tflops,
        "Sets the dense bf16 peak of the device in TFLOP/s, for MFU; null takes the datasheet of a "
        "known GPU. Set it for a GPU that strata does not know.")
      .above(0, "null: the device's datasheet");
  f.add("link_gbs", link_gbs,
        "Sets the rate of the link between host and device in GB/s each way, with copies both ways "
        "at once, for schedule.spill auto and for predictions; null takes that of a known GPU's "
        "PCIe, and 50 for others. Set it to what host_bench measures for one GPU; ranks of a host "
        "are taken to share what its memory allows.")
      .above(0, "null: that of the device's generation of PCIe");
  f.add("product_tflops", product_tflops,
        "Sets the rate of large bf16 matrix products in TFLOP/s, for predictions; null takes what "
        "is known of the GPU. Set it to what bench prints on this one.")
      .above(0, kMeasured);
  f.add("attention_forward_tflops", attention_forward_tflops,
        "Sets the rate of attention's forward in TFLOP/s for endless rows and a head dim of 128, "
        "for predictions; null takes what is known of the GPU. Set it to what bench prints on "
        "this one.")
      .above(0, kMeasured);
  f.add("attention_backward_tflops", attention_backward_tflops,
        "Sets the rate of attention's backward in TFLOP/s for a head dim of 128, as bench works it "
        "out from rows of any length, for predictions; null takes what is known of the GPU. Set it "
        "to what bench prints on this one.")
      .above(0, kMeasured);
  f.add("device_gbs", device_gbs,
        "Sets the rate in GB/s of operators that do little but move device memory, for "
        "predictions; null takes what is known of the GPU. Set it to what bench prints on this "
        "one.")
      .above(0, kMeasured);
  f.add("host_gbs", host_gbs,
        "Sets the rate in GB/s at which AdamW on all threads reads and writes host memory, for "
        "predictions; null takes what such a GPU's host usually has. Set it to what bench prints "
        "on this machine for one rank; several ranks of a host are taken to share it.")
      .above(0, kMeasured);
  f.add("disk_gbs", disk_gbs,
        "Sets the rate in GB/s at which the disk takes checkpoints of all ranks, fsync included, "
        "for predictions of saves; null predicts none in plan, and takes what a run measures at "
        "its start. Set it to what train says of the disk, or to bytes by seconds of a save.")
      .above(0, "null: as measured at the start of a run");
  f.add("collective_gbs", collective_gbs,
        "Sets the rate in GB/s of collectives between the GPUs of a host, the bus bandwidth of "
        "nccl-tests, for predictions for several ranks; null takes what is known of the GPU. Set "
        "it to what all_gather_perf measures on 256 MiB with four GPUs or more.")
      .above(0, "null: what is known of the GPU");
  f.add("nic_gbs", nic_gbs,
        "Sets the rate in GB/s each way of all NICs of a host together, for predictions for ranks "
        "on several hosts (a NIC of 400 Gbit/s has 50); null takes what hosts of such GPUs "
        "usually have. Set it to what your hosts have.")
      .above(0, "null: what hosts of such GPUs usually have");
  f.add("stored_rates", stored_rates,
        "Lets predictions use the rates that strata tune --measure stored for the device, where no "
        "key here gives them. Set it to false to predict by what is known of the GPU alone.");
}

void KernelsSection::fields(FieldList& f) {
  f.choice("matmul_tuning", matmul_tuning, kMatmulTuningNames,
           "Says how algorithms of matrix products are found on a GPU. auto measures them at the "
           "start unless that was done before; take off, the library's first proposals, for a "
           "start without measuring.");
  f.add("plan_cache", plan_cache,
        "Names the folder that keeps what was measured for later runs; null takes the user's cache "
        "folder, an empty text keeps nothing. Set it where home folders are slow or not there.");
  f.choice("attention", attention, kAttentionKernelsNames,
           "Says who computes attention on a GPU. auto takes the fastest of strata's own kernels "
           "for it; portable, its kernels for every GPU, and cudnn, the library's, are there to "
           "compare with.");
  f.choice("attention_backward", attention_backward, kAttentionBackwardModeNames,
           "Says in which order attention's backward adds dq. deterministic gives the same bits in "
           "every run; fast adds in no fixed order, where the GPU has kernels for it, and takes 4 "
           "bytes per token and query column. fast wins for long rows: 1.8 % of a 7B's speed at "
           "16,384 tokens a row.");
}

void DebugSection::fields(FieldList& f) {
  f.choice("execution", execution, kExecutionNames,
           "Says how the lanes of the cpu backend run: each in a thread, eager, inside of the "
           "submitting call, or shuffled, in a random order. Take eager for a stack trace that "
           "leads to who asked, shuffled to find missing waits.");
  f.add("shuffle_seed", shuffle_seed,
        "Seeds the order of execution shuffled. Change it to try other orders.")
      .at_least(0);
  f.add("poison_slots", poison_slots,
        "Fills a slot with NaN before it is filled anew. Set it to find reads of what was not "
        "written.");
  f.add("synchronize_each", synchronize_each,
        "Waits after every submission. Set it to find out which one fails, or whether overlap has "
        "to do with a fault.");
  f.add("disk_gbs", disk_gbs,
        "Holds the writing of checkpoints below so many GB/s on each rank; null does not. Set it "
        "to see what saves cost on a slower disk.")
      .above(0, "null: as fast as the disk is");
}

}  // namespace strata
